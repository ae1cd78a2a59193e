"""Leases that let sessions with one network at a time use a directory of the host that an agent can write to.

Through a socket or FIFO in such a directory, a session could use the network of another one that sees it, even read-only. No
mount, Landlock rule or filter of this kernel prevents that. (Overlays do: the inode of a socket differs in each.)

Each running session has a locked file in the state directory with the inodes of its directories and those above them, so that
nested directories and other names of one are found, too.
"""

import fcntl
import os
import time

from agent_dev.errors import Refused
from agent_dev.value import Value

_TIMEOUT, _INTERVAL = 0.5, 0.02  # seconds to wait for a session that is just ending
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_MODES = {"none": "without network", "host": "with network"}


class SharedPaths(Value):
    """The host's files and directories that a sandbox sees without an overlay."""

    written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


class NetworkLease:
    """The use of directories by one session with its network."""

    def __init__(self, state: str, net: str, shared: SharedPaths) -> None:
        """Use directories with a network. Raises Refused while a session with another network uses one of them."""
        self._folder = f"{state}/homes/networks"
        os.makedirs(self._folder, 0o700, exist_ok=True)
        rows = _rows(shared)
        deadline = time.monotonic() + _TIMEOUT
        while True:
            # While this lock is held, no file is created, so every file without a lock belongs to an ended session.
            lock = os.open(f"{self._folder}.lock", _FLAGS, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                other, path = _find_conflict(self._others(), net, rows)
                if not path:
                    self._create(net, rows)
                    return
            finally:
                os.close(lock)
            if time.monotonic() > deadline:
                raise _refused(other, path, is_home=path == shared.written[0])
            time.sleep(_INTERVAL)

    def release(self) -> None:
        """Stop using the directories, also for child processes."""
        _unlink(self._path)
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)

    def _create(self, net: str, rows: dict[str, list[str]]) -> None:
        self._path = f"{self._folder}/{os.getpid()}-{time.monotonic_ns()}"
        self._fd = os.open(self._path, _FLAGS | os.O_EXCL, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        os.write(self._fd, "\n".join((net, *(" ".join(row) for row in rows.values()))).encode())

    def _others(self) -> list[list[list[str]]]:
        """Return the rows of each running session; remove the files of ended ones."""
        return list(filter(None, (self._read(f"{self._folder}/{name}") for name in os.listdir(self._folder))))

    def _read(self, path: str) -> list[list[str]]:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []  # just released
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            with open(fd, closefd=False, encoding="utf-8", errors="replace") as file:
                first, *rows = [line.split() for line in file if line.strip()] or [[]]
                return [first, *(row for row in rows if len(row) > 1)]  # a damaged row names no directory
        else:
            _unlink(path)
            return []
        finally:
            os.close(fd)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # its session, or one that looked for others, was faster


def _rows(shared: SharedPaths) -> dict[str, list[str]]:
    """Return the row of each existing path: `w` or `r`, its inode, and the inodes of the directories above it."""
    inodes: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for kind, paths in (("r", shared.read), ("w", shared.written)):
        for path in filter(os.path.exists, paths):
            found[path] = [kind]
            place, parent = "", os.path.realpath(path)
            while place != parent:
                place, parent = parent, os.path.dirname(parent)
                if place not in inodes:
                    status = os.stat(place)
                    inodes[place] = f"{status.st_dev:x}:{status.st_ino:x}"
                found[path].append(inodes[place])
    return found


def _find_conflict(others: list[list[list[str]]], net: str, rows: dict[str, list[str]]) -> tuple[str, str]:
    """Return the network of another session, and the path that must not be shared with it; empty if there is none."""
    for first, *other in others:
        if first != [net]:
            for path, own in rows.items():
                if any("w" in (own[0], row[0]) and (own[1] in row or row[1] in own) for row in other):
                    return "".join(first), path
    return "", ""


def _refused(net: str, path: str, *, is_home: bool) -> Refused:
    mode = _MODES.get(net, "with another network")
    if is_home:
        hint = "use another home: --home DIR, or `home: ~/aihomes/{profile}`"
        return Refused(message=f"a session {mode} uses the agent home {path}; sharing it would connect the two", hint=hint)
    hint = "wait until it has ended, or use the same network for both: --net"
    return Refused(message=f"a session {mode} uses {path}; sharing it would connect the two", hint=hint)
