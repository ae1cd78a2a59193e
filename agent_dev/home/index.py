"""What an agent home held when a session ended: written beside everything else, read by `agent-dev home --diff`.

An index belongs to a home by its device and inode, so a new home has none. The one before is kept: what the last session
changed is what differs from the end of the one before it. One that was finished when the last session ran already may hold
some of what that changed: then the one before that stays, and more is shown rather than less.
"""

import fcntl
import json
import os

from agent_dev.fs import walk as scan
from agent_dev.home.autostart import LASTING, Mark
from agent_dev.path_patterns import Patterns

_VERSION = 1
_MOST_TEXT = 64 << 10  # bytes of a file that runs by itself: past that it is compared, not shown
_LARGEST = 256 << 20
_CLOCK = 20_000_000  # ns: by so much the time of a file is behind at most


def place(state: str, home: str) -> str:
    """Return where the indexes of a home lie, without their endings."""
    found = os.stat(home)
    return f"{state}/homes/{found.st_dev:x}-{found.st_ino:x}"


def begin(state: str, home: str, launched: int) -> None:
    """Write the index in a child that nobody waits for; `before` does, by a lock that the child holds from its birth.

    `launched`: when the session began, in ns since 1970.
    """
    where = place(state, home)
    lock = os.open(f"{where}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return  # that of a session which ended just now is not written yet: what this one changed is shown with that
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            for standard in range(3):
                os.close(standard)  # whoever reads our output need not wait
            os.closerange(3, lock)
            os.closerange(lock + 1, 4096)  # locks of ours among them
            os.nice(10)
            _write(where, home, launched)
        finally:
            os._exit(0)
    os.close(lock)


def _write(where: str, home: str, launched: int) -> None:
    rows = {path: [*mark.identity, mark.text] for path, mark in look(home).items()}
    data = json.dumps({"version": _VERSION, "marks": rows}).encode()
    temp = f"{where}.new"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    if _is_older(f"{where}.last", launched):
        os.rename(f"{where}.last", f"{where}.before")
    os.rename(temp, f"{where}.last")


def _is_older(path: str, launched: int) -> bool:
    """Whether an index is there, and was finished before a session began."""
    try:
        return os.stat(path).st_mtime_ns + _CLOCK < launched
    except FileNotFoundError:
        return False


def before(state: str, home: str) -> dict[str, Mark] | None:
    """Return what the home held before its last session; nothing for a home that had none yet, None when none is known."""
    where = place(state, home)
    try:
        lock = os.open(f"{where}.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        return _read(f"{where}.before") if os.path.exists(f"{where}.before") else {}
    finally:
        os.close(lock)


def _read(path: str) -> dict[str, Mark] | None:
    try:
        with open(path, "rb") as file:
            held = json.loads(file.read(_LARGEST))
    except (OSError, ValueError):
        return None
    if held.get("version") != _VERSION:
        return None
    return {path: Mark(*row) for path, row in held["marks"].items()}


def look(home: str) -> dict[str, Mark]:
    """Return what a home holds now, directories left out; no link is followed."""
    patterns = Patterns(tuple((pattern, 0) for every in LASTING.values() for pattern in every))
    found = {}
    root = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for one in scan.walk(home, attributes=False):
            entry = one.entry
            if entry.type == "dir":
                continue
            is_text = entry.type == "file" and entry.size <= _MOST_TEXT and patterns.matching(one.path)
            text = _text(root, one.path) if is_text else None
            target = os.fsdecode(entry.target)
            times = (entry.inode, entry.mtime, entry.ctime)
            found[os.fsdecode(one.path)] = Mark(str(entry.type), entry.mode, entry.size, *times, target, text)
    finally:
        os.close(root)
    return found


def _text(root: int, path: bytes) -> str | None:
    from agent_dev.linux import syscalls as kernel

    try:
        fd = kernel.open_below(root, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # gone, or shut by the agent
    try:
        return os.read(fd, _MOST_TEXT).decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)


def forget(state: str, home: str) -> None:
    """Take the indexes of a home away: it goes to the trash, and its inode's number may come back.

    One that is being written is waited for: it would come after.
    """
    where = place(state, home)
    try:
        lock = os.open(f"{where}.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for ending in ("last", "before", "lock"):
            try:
                os.unlink(f"{where}.{ending}")
            except FileNotFoundError:
                continue
    finally:
        os.close(lock)
