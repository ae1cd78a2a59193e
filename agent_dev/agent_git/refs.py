"""The refs of the agent's private git dir, parsed here, because git never runs where an agent could write."""

import os
from binascii import crc32
from itertools import chain

from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.agent_git.submodules import list_submodules
from agent_dev.errors import DamagedRefs
from agent_dev.fs import checksummed_json
from agent_dev.fs.read_regular import are_real_directories, read_regular_file
from agent_dev.git.formats.ref_format import parse_packed_refs, parse_ref, parse_stash_ids
from agent_dev.session import store

_MAX_REFS_SIZE = 16 << 20
_MAX_REFS = 20_000
_FAN_OUT = 2  # letters in the name of a directory of loose objects
_REFS, _PACKED_REFS, _STASH = "refs", "packed-refs", "refs/stash"
TABLES_LIST = "reftable/tables.list"
_NO_HEAD = b"ref: refs/heads/.invalid"  # HEAD's placeholder next to a reftable (git: reftable-backend.c)
_STASHES, _CHECKSUM = "stashes", "packed"  # keys stored next to the refs (no ref has such a name): stash ids, a checksum


def has_private_git_dir(record: store.Record, number: int) -> bool:
    """Return whether the `.git` in the upper layer of a root is the agent's private git dir."""
    inside = any(git["root"] == number and git["inside"] for git in record["git"])
    return inside or number in record.get("copies", ())


def record_initial_refs(session: store.Session, record: store.Record) -> None:
    """Record the initial refs of a session's private git dirs and their submodules, to find changed ones later."""
    for source in list_repositories(session, record):
        record_refs(source)
        for submodule in list_submodules(source):
            os.makedirs(os.path.dirname(submodule.state_file(_REFS)), 0o700)
            record_refs(submodule)


def record_refs(source: AgentRepository) -> None:
    """Record the refs of one private git dir as the initial ones."""
    folder = source.private_dir
    packed = _read_packed(folder)
    extra = {_STASHES: " ".join(parse_stash_ids(read_stash_log(folder))), _CHECKSUM: f"{crc32(packed):08x}"}
    _write(source.state_file(_REFS), checksummed_json.dumps(_read_loose(folder, source.linked_name) | extra))
    _write(source.state_file(_PACKED_REFS), packed)  # unparsed, to start the agent sooner


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.write(fd, data)
    os.close(fd)


def have_refs_changed(session: store.Session, record: store.Record) -> bool:
    """Return whether a ref or HEAD of one of the private git dirs changed since the start, or anything in a submodule."""
    sources = list_repositories(session, record)
    return any(map(_have_refs_changed, sources)) or any(map(has_changed, chain.from_iterable(map(list_submodules, sources))))


def may_have_commits(session: store.Session, record: store.Record) -> bool:
    """Return whether a private git dir has commits, even without refs, or a submodule has anything; a quick check."""
    return have_refs_changed(session, record) or any(map(has_new_objects, list_repositories(session, record)))


def has_changed(source: AgentRepository) -> bool:
    """Return whether a private git dir has other refs than at the start, or new objects; commits need not have refs."""
    return has_new_objects(source) or _have_refs_changed(source)


def has_new_objects(source: AgentRepository) -> bool:
    """Return whether a private git dir has objects of its own: none at the start, when its stores have all of them."""
    folder = f"{source.private_dir}/objects"
    if not are_real_directories(source.private_dir, "objects"):
        return False
    try:
        return any(len(name) == _FAN_OUT for name in os.listdir(folder)) or bool(os.listdir(f"{folder}/pack"))
    except OSError:
        return os.path.lexists(f"{folder}/pack")  # unreadable


def _have_refs_changed(source: AgentRepository) -> bool:
    folder = source.private_dir
    if has_reftable(folder):
        return True
    if _is_unrecorded(source):
        return _read_all(folder, "") != read_initial_refs(source)
    if _read_packed(folder) != read_regular_file(source.state_file(_PACKED_REFS), _MAX_REFS_SIZE):
        return _read_all(folder, source.linked_name) != read_initial_refs(source)
    before = {name: value for name, value in _read_loose_record(source).items() if name not in (_STASHES, _CHECKSUM)}
    return _read_loose(folder, source.linked_name) != before


def has_reftable(folder: str) -> bool:
    """Return whether an agent converted the refs of its git dir to a reftable."""
    has_list = os.path.lexists(f"{folder}/{TABLES_LIST}") and are_real_directories(folder, "reftable")
    return has_list and read_regular_file(f"{folder}/HEAD", 4096).strip() == _NO_HEAD


def read_initial_refs(source: AgentRepository) -> dict[str, str]:
    """Return the initial refs of a private git dir. Raises DamagedRefs."""
    return {name: value for name, value in _read_record(source).items() if name not in (_STASHES, _CHECKSUM)}


def read_initial_stashes(source: AgentRepository) -> frozenset[str]:
    """Return the initial stash ids of a private git dir. Raises DamagedRefs."""
    return frozenset(_read_record(source).get(_STASHES, "").split())


def _is_unrecorded(source: AgentRepository) -> bool:
    """Return whether a submodule has no record: the agent added it, or an older version made the session."""
    return bool(source.module) and not os.path.lexists(source.state_file(_REFS))


def _read_record(source: AgentRepository) -> dict[str, str]:
    if _is_unrecorded(source):
        return {name: value for name, value in _read_all(source.folder, "").items() if name != _STASH}
    own, packed = _read_loose_record(source), read_regular_file(source.state_file(_PACKED_REFS), _MAX_REFS_SIZE)
    if own[_CHECKSUM] != f"{crc32(packed):08x}":
        raise DamagedRefs(path=source.state_file(_PACKED_REFS))
    return parse_packed_refs(packed) | own


def _read_loose_record(source: AgentRepository) -> dict[str, str]:
    """Return the record without packed refs: loose refs, HEAD, stashes, a checksum. Raises DamagedRefs."""
    path = source.state_file(_REFS)
    try:
        refs = checksummed_json.loads(read_regular_file(path, _MAX_REFS_SIZE))
    except ValueError:
        raise DamagedRefs(path=path) from None
    return {str(name): str(value) for name, value in refs.items()}


def read_stash_log(folder: str) -> bytes:
    """Return the reflog of a private git dir's stash."""
    return (
        read_regular_file(f"{folder}/logs/refs/stash", _MAX_REFS_SIZE)
        if are_real_directories(folder, "logs", "logs/refs")
        else b""
    )


def list_operations_in_progress(source: AgentRepository, refs_dir: str) -> tuple[str, ...]:
    """Return the operations in progress in the agent's git dir but not in the user's; `refs_dir` has its refs as files."""
    from agent_dev.agent_git.changes import OPERATION_MARKERS  # not imported before an agent starts

    folder, linked = source.private_dir, source.linked_name
    has_linked = linked and are_real_directories(folder, "worktrees", f"worktrees/{linked}")
    folders = (f"{folder}/worktrees/{linked}" if has_linked else folder, refs_dir)
    present = [mark for mark in OPERATION_MARKERS if any(os.path.lexists(f"{place}/{mark}") for place in folders)]
    marks = (mark for mark in present if not os.path.lexists(f"{source.folder}/{mark}"))
    return tuple(OPERATION_MARKERS[mark] for mark in marks)


def _read_all(folder: str, linked: str) -> dict[str, str]:
    return parse_packed_refs(_read_packed(folder)) | _read_loose(folder, linked)


def _read_packed(folder: str) -> bytes:
    return read_regular_file(f"{folder}/{_PACKED_REFS}", _MAX_REFS_SIZE) if are_real_directories(folder) else b""


def _read_loose(folder: str, linked: str) -> dict[str, str]:
    """Return the loose refs and HEAD."""
    values: dict[str, str] = {}
    if not are_real_directories(folder):
        return values
    if are_real_directories(folder, "refs"):
        _collect_loose(folder, "refs", values)
    has_linked = linked and are_real_directories(folder, "worktrees", f"worktrees/{linked}")
    head = read_regular_file(f"{folder}/worktrees/{linked}/HEAD" if has_linked else f"{folder}/HEAD", 4096)
    values["HEAD"] = head.decode("utf-8", "surrogateescape").strip()
    return values


def _collect_loose(folder: str, top: str, values: dict[str, str]) -> None:
    """Add loose refs at any depth, up to a number of files."""
    pending, remaining = [top], _MAX_REFS
    while pending and remaining > 0:
        name = pending.pop()
        try:
            entries = list(os.scandir(f"{folder}/{name}"))
        except OSError:
            continue
        for entry in entries[:remaining]:
            remaining -= 1
            path = f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                pending.append(path)
            elif (value := parse_ref(read_regular_file(entry.path, 4096))) is not None:
                values[path] = value
