"""Index an agent home at the end of a session, for `agent-dev home --diff`.

An index belongs to a home by device and inode, so a new home has none. The previous index is kept: the changes of the last
session are the differences to the end of the session before it. An index that was completed while the last session ran may
contain some of its changes; then the index before that is kept, which shows more changes rather than fewer.
"""

import fcntl
import json
import os

from agent_dev.fs import walk
from agent_dev.home.autostart import AUTOSTART_PATTERNS, FileMark
from agent_dev.home.index_paths import index_prefix
from agent_dev.path_patterns import PatternIndex

_VERSION = 1
_MAX_TEXT = 64 << 10  # bytes of an autostart file; the text of larger ones is not shown
_LARGEST = 256 << 20
_CLOCK = 20_000_000  # ns: the largest delay of a file's timestamp


def write_index(prefix: str, home: str, launched: int) -> None:
    """Index a home. `launched`: the start of the session that ended. Raises OSError."""
    rows = {path: [*mark.identity, mark.text] for path, mark in read_home(home).items()}
    data = json.dumps({"version": _VERSION, "marks": rows}).encode()
    temp = f"{prefix}.new"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    if _is_older(f"{prefix}.last", launched):
        os.rename(f"{prefix}.last", f"{prefix}.before")
    os.rename(temp, f"{prefix}.last")


def _is_older(path: str, launched: int) -> bool:
    """Return whether an index exists that was completed before a session started."""
    try:
        return os.stat(path).st_mtime_ns + _CLOCK < launched
    except FileNotFoundError:
        return False


def read_previous(state: str, home: str) -> dict[str, FileMark] | None:
    """Return the home's state before its last session; empty for a new home, None if unknown."""
    prefix = index_prefix(state, home)
    try:
        lock = os.open(f"{prefix}.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        return _read(f"{prefix}.before") if os.path.exists(f"{prefix}.before") else {}
    finally:
        os.close(lock)


def _read(path: str) -> dict[str, FileMark] | None:
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read(_LARGEST))
    except (OSError, ValueError):
        return None
    if document.get("version") != _VERSION:
        return None
    return {path: FileMark(*row) for path, row in document["marks"].items()}


def read_home(home: str) -> dict[str, FileMark]:
    """Return the current state of a home without directories; links are not followed."""
    patterns = PatternIndex(tuple((pattern, 0) for reason_patterns in AUTOSTART_PATTERNS.values() for pattern in reason_patterns))
    found = {}
    root = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for one in walk.walk(home, attributes=False):
            entry = one.entry
            if entry.type == "dir":
                continue
            is_text = entry.type == "file" and entry.size <= _MAX_TEXT and patterns.matching_path(one.path)
            text = _text(root, one.path) if is_text else None
            target = os.fsdecode(entry.target)
            times = (entry.inode, entry.mtime, entry.ctime)
            found[os.fsdecode(one.path)] = FileMark(str(entry.type), entry.mode, entry.size, *times, target, text)
    finally:
        os.close(root)
    return found


def _text(root: int, path: bytes) -> str | None:
    from agent_dev.linux import syscalls

    try:
        fd = syscalls.open_below(root, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # removed, or unreadable
    try:
        return os.read(fd, _MAX_TEXT).decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)


def remove_indexes(state: str, home: str) -> None:
    """Remove the indexes of a home that moves to the trash: its inode number may be reused.

    It waits for an index that is being written, which would be left over.
    """
    prefix = index_prefix(state, home)
    _remove(f"{prefix}.import")  # the record of `home --import`
    try:
        lock = os.open(f"{prefix}.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for ending in ("last", "before", "lock"):
            _remove(f"{prefix}.{ending}")
    finally:
        os.close(lock)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
