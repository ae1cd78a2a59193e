"""The refs of the agent's private git dir, parsed here: no git runs where an agent could write."""

import os
import stat

from agent_dev.fs import fast_json as quick_json
from agent_dev.git.formats.ref_format import packed_refs, parse_ref, stash_ids
from agent_dev.session import store

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LARGEST_REFS = 16 << 20
_MANY_REFS = 20_000
_PACKED = "packed-refs"
TABLES = "reftable/tables.list"
_NO_HEAD = b"ref: refs/heads/.invalid"  # stands in place of one that is in a reftable (git: reftable-backend.c)
_STASHES = "stashes"  # beside the refs in what is remembered: no ref is called so


def private_dir(session: store.Session, record: store.Record) -> str | None:
    """Return the agent's private git dir (the common one), None for a session without git."""
    git = record.get("git")
    if not isinstance(git, dict):
        return None
    return f"{session.root(0, '').upper}/.git" if git["inside"] else f"{session.folder}/git/0"


def has_copy(record: store.Record, number: int) -> bool:
    """Whether the `.git` in the upper of a root is the agent's private git dir."""
    git = record.get("git")
    inside = number == 0 and isinstance(git, dict) and bool(git.get("inside"))
    return inside or number in record.get("copies", ())


def remember(session: store.Session, record: store.Record) -> None:
    """Keep the refs that the private git dir begins with, to tell later what moved."""
    folder = private_dir(session, record)
    if folder is None:
        return
    values = _loose(folder, _linked(record)) | {_STASHES: " ".join(stash_ids(stash_log(folder)))}
    _write(f"{session.folder}/git/refs", quick_json.dumps(values))
    _write(f"{session.folder}/git/{_PACKED}", _packed(folder))  # as it is: of thousands, none has to be read before an agent runs


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.write(fd, data)
    os.close(fd)


def has_moved(session: store.Session, record: store.Record) -> bool:
    """Whether a ref or HEAD of the private git dir is not what it was at the start."""
    folder = private_dir(session, record)
    if folder is None:
        return False
    if has_tables(folder):
        return True
    if _packed(folder) != regular(f"{session.folder}/git/{_PACKED}", _LARGEST_REFS):
        return _all(folder, _linked(record)) != remembered(session)
    before = _own(session)
    before.pop(_STASHES, None)
    return _loose(folder, _linked(record)) != before


def moved(session: store.Session, record: store.Record, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the branches, tags and other refs that were made, moved or removed; HEAD alone is only where the agent stood.

    Raises CommandFailed as `now`.
    """
    before, after = remembered(session), now(session, record, environ)
    names = sorted({*before, *after} - {"HEAD"})
    return tuple(name for name in names if before.get(name) != after.get(name))


def now(session: store.Session, record: store.Record, environ: dict[str, str]) -> dict[str, str]:
    """Return all refs of the private git dir and its HEAD: name → object id, or `ref: …` for a symbolic HEAD.

    Raises CommandFailed where the agent moved them into a reftable that the user's git cannot read.
    """
    folder = place(session, record, environ)
    return {} if folder is None else _all(folder, _linked(record))


def place(session: store.Session, record: store.Record, environ: dict[str, str]) -> str | None:
    """Return where the refs of the private git dir are files: there, or read out of the agent's reftable. Raises as `now`."""
    folder = private_dir(session, record)
    if folder is None or not has_tables(folder):
        return folder
    from agent_dev.commits.agent_git import reftable as moved_refs  # it runs git, which nothing does before an agent

    return moved_refs.files(session, record, folder, environ)


def has_tables(folder: str) -> bool:
    """Whether an agent moved the refs of its git dir into a reftable."""
    has_some = os.path.lexists(f"{folder}/{TABLES}") and is_real(folder, "reftable")
    return has_some and regular(f"{folder}/HEAD", 4096).strip() == _NO_HEAD


def _linked(record: store.Record) -> str:
    """Return the name of the linked work tree in use, "" for none."""
    git = record["git"]
    return os.path.basename(git["folder"]) if git and git["folder"] != git["common"] else ""


def remembered(session: store.Session) -> dict[str, str]:
    """Return the refs that the private git dir began with."""
    return {name: value for name, value in _remembered(session).items() if name != _STASHES}


def remembered_stashes(session: store.Session) -> frozenset[str]:
    """Return the ids of the stash's entries that the private git dir began with."""
    return frozenset(_remembered(session).get(_STASHES, "").split())


def _remembered(session: store.Session) -> dict[str, str]:
    return packed_refs(regular(f"{session.folder}/git/{_PACKED}", _LARGEST_REFS)) | _own(session)


def _own(session: store.Session) -> dict[str, str]:
    """Return what was remembered besides the packed refs: the loose ones, HEAD, stashes."""
    refs = quick_json.loads(regular(f"{session.folder}/git/refs", _LARGEST_REFS) or b"{}")
    return {str(name): str(value) for name, value in refs.items()} if isinstance(refs, dict) else {}


def stash_log(folder: str) -> bytes:
    """Return the reflog of a private git dir's stash."""
    return regular(f"{folder}/logs/refs/stash", _LARGEST_REFS) if is_real(folder, "logs", "logs/refs") else b""


def unfinished(session: store.Session, record: store.Record, told: str) -> tuple[str, ...]:
    """Return in words what the agent's git is in the middle of, and the user's is not; `told` is where refs are files."""
    from agent_dev.agent_git.changes import UNFINISHED  # only after an agent

    folder, git = private_dir(session, record), record["git"]
    if folder is None or git is None:
        return ()
    linked = _linked(record)
    has_linked = linked and is_real(folder, "worktrees", f"worktrees/{linked}")
    places = (f"{folder}/worktrees/{linked}" if has_linked else folder, told)
    here = [mark for mark in UNFINISHED if any(os.path.lexists(f"{one}/{mark}") for one in places)]
    marks = (mark for mark in here if not os.path.lexists(f"{git['folder']}/{mark}"))
    return tuple(UNFINISHED[mark] for mark in marks)


def regular(path: str, limit: int) -> bytes:
    """Return the bytes of a regular file, nothing for anything else: a FIFO would never end, a device might do something."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b""
        fd = os.open(path, _OPEN)
    except OSError:
        return b""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return b""
        data = b""
        while piece := os.read(fd, 1 << 16):
            data += piece
        return data
    finally:
        os.close(fd)


def is_real(folder: str, *names: str) -> bool:
    """Whether a directory and the named ones below it are directories themselves and no links of the agent's."""
    return all(stat.S_ISDIR(_mode(place)) for place in (folder, *(f"{folder}/{name}" for name in names)))


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _all(folder: str, linked: str) -> dict[str, str]:
    return packed_refs(_packed(folder)) | _loose(folder, linked)


def _packed(folder: str) -> bytes:
    return regular(f"{folder}/{_PACKED}", _LARGEST_REFS) if is_real(folder) else b""


def _loose(folder: str, linked: str) -> dict[str, str]:
    """Return the refs that are files of their own, and HEAD."""
    values: dict[str, str] = {}
    if not is_real(folder):
        return values
    if is_real(folder, "refs"):
        _collect(folder, "refs", values)
    has_linked = linked and is_real(folder, "worktrees", f"worktrees/{linked}")
    head = regular(f"{folder}/worktrees/{linked}/HEAD" if has_linked else f"{folder}/HEAD", 4096)
    values["HEAD"] = head.decode("utf-8", "surrogateescape").strip()
    return values


def _collect(folder: str, top: str, values: dict[str, str]) -> None:
    """Add loose refs, however deep: up to a number of files, whatever they hold."""
    waiting, left = [top], _MANY_REFS
    while waiting and left > 0:
        name = waiting.pop()
        try:
            entries = list(os.scandir(f"{folder}/{name}"))
        except OSError:
            continue
        for entry in entries[:left]:
            left -= 1
            below = f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append(below)
            elif (value := parse_ref(regular(entry.path, 4096))) is not None:
                values[below] = value
