"""The refs of the agent's private git dir, parsed here: git never runs where an agent could write."""

import os
from binascii import crc32

from agent_dev.errors import DamagedRefs
from agent_dev.fs import checksummed_json
from agent_dev.fs.read_regular import are_real_directories, read_regular_file
from agent_dev.git.formats.ref_format import parse_packed_refs, parse_ref, parse_stash_ids
from agent_dev.session import store

_MAX_REFS_SIZE = 16 << 20
_MAX_REFS = 20_000
_PACKED_REFS = "packed-refs"
TABLES_LIST = "reftable/tables.list"
_NO_HEAD = b"ref: refs/heads/.invalid"  # HEAD's placeholder beside a reftable (git: reftable-backend.c)
_STASHES, _CHECKSUM = "stashes", "packed"  # keys stored next to the refs (no ref has such a name): stash ids, a checksum


def find_private_git_dir(session: store.Session, record: store.Record) -> str | None:
    """Return the agent's private (common) git dir, None for a session without git."""
    git = record.get("git")
    if not isinstance(git, dict):
        return None
    return f"{session.root(0, '').upper}/.git" if git["inside"] else f"{session.folder}/git/0"


def has_private_git_dir(record: store.Record, number: int) -> bool:
    """Return whether the `.git` in the upper layer of a root is the agent's private git dir."""
    git = record.get("git")
    inside = number == 0 and isinstance(git, dict) and bool(git.get("inside"))
    return inside or number in record.get("copies", ())


def record_initial_refs(session: store.Session, record: store.Record) -> None:
    """Record the initial refs of the private git dir, to find changed ones later."""
    folder = find_private_git_dir(session, record)
    if folder is None:
        return
    packed = _read_packed(folder)
    extra = {_STASHES: " ".join(parse_stash_ids(read_stash_log(folder))), _CHECKSUM: f"{crc32(packed):08x}"}
    _write(f"{session.folder}/git/refs", checksummed_json.dumps(_read_loose(folder, _linked_name(record)) | extra))
    _write(f"{session.folder}/git/{_PACKED_REFS}", packed)  # unparsed, to start the agent sooner


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.write(fd, data)
    os.close(fd)


def have_refs_changed(session: store.Session, record: store.Record) -> bool:
    """Return whether a ref or HEAD of the private git dir changed since the start."""
    folder = find_private_git_dir(session, record)
    if folder is None:
        return False
    if has_reftable(folder):
        return True
    if _read_packed(folder) != read_regular_file(f"{session.folder}/git/{_PACKED_REFS}", _MAX_REFS_SIZE):
        return _read_all(folder, _linked_name(record)) != read_initial_refs(session)
    before = {name: value for name, value in _read_loose_record(session).items() if name not in (_STASHES, _CHECKSUM)}
    return _read_loose(folder, _linked_name(record)) != before


def has_reftable(folder: str) -> bool:
    """Return whether an agent converted the refs of its git dir to a reftable."""
    has_list = os.path.lexists(f"{folder}/{TABLES_LIST}") and are_real_directories(folder, "reftable")
    return has_list and read_regular_file(f"{folder}/HEAD", 4096).strip() == _NO_HEAD


def _linked_name(record: store.Record) -> str:
    """Return the name of the linked work tree in use, "" for none."""
    git = record["git"]
    return os.path.basename(git["folder"]) if git and git["folder"] != git["common"] else ""


def read_initial_refs(session: store.Session) -> dict[str, str]:
    """Return the initial refs of the private git dir. Raises DamagedRefs."""
    return {name: value for name, value in _read_record(session).items() if name not in (_STASHES, _CHECKSUM)}


def read_initial_stashes(session: store.Session) -> frozenset[str]:
    """Return the initial stash ids of the private git dir. Raises DamagedRefs."""
    return frozenset(_read_record(session).get(_STASHES, "").split())


def _read_record(session: store.Session) -> dict[str, str]:
    own, packed = _read_loose_record(session), read_regular_file(f"{session.folder}/git/{_PACKED_REFS}", _MAX_REFS_SIZE)
    if own[_CHECKSUM] != f"{crc32(packed):08x}":
        raise DamagedRefs(path=f"{session.folder}/git/{_PACKED_REFS}")
    return parse_packed_refs(packed) | own


def _read_loose_record(session: store.Session) -> dict[str, str]:
    """Return the record without packed refs: loose refs, HEAD, stashes, a checksum. Raises DamagedRefs."""
    path = f"{session.folder}/git/refs"
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


def list_operations_in_progress(session: store.Session, record: store.Record, refs_dir: str) -> tuple[str, ...]:
    """Return the operations in progress in the agent's git dir but not in the user's; `refs_dir` has its refs as files."""
    from agent_dev.agent_git.changes import OPERATION_MARKERS  # not imported before an agent starts

    folder, git = find_private_git_dir(session, record), record["git"]
    if folder is None or git is None:
        return ()
    linked = _linked_name(record)
    has_linked = linked and are_real_directories(folder, "worktrees", f"worktrees/{linked}")
    folders = (f"{folder}/worktrees/{linked}" if has_linked else folder, refs_dir)
    present = [mark for mark in OPERATION_MARKERS if any(os.path.lexists(f"{place}/{mark}") for place in folders)]
    marks = (mark for mark in present if not os.path.lexists(f"{git['folder']}/{mark}"))
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
