"""Directories whose mode keeps their owner out (0555, 0000), unlocked while a command works in them.

The mode is recorded durably before it is changed, so that after a kill the next holder of the tree restores it. Root needs none
of this.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable

from agent_dev.fs import durable
from agent_dev.linux import syscalls

ModeRecord = tuple[bytes, int, int]  # path, inode, own mode
RecordMode = Callable[[bytes, int, int], None]  # gets path, inode and mode, and makes them durable before it returns

_MOST_LOOKS = 10  # at a mode that the user keeps changing
ENTER, READ, WRITE = 0o100, 0o500, 0o700
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


class UnlockedDirectories:
    """The directories unlocked below a root, with their own modes."""

    def __init__(self, root: int, note: RecordMode, *, with_files: bool = True) -> None:
        """`root`: a descriptor, which the caller closes.

        `with_files`: a walk also reads the attributes of unreadable files, which changes their ctime.
        """
        self._root = root
        self._note = note
        self.with_files = with_files
        self._modes: dict[bytes, tuple[int, int]] = {}  # path → inode, mode
        self._is_needed = os.geteuid() != 0

    def __bool__(self) -> bool:
        return bool(self._modes)

    def own_mode(self, path: bytes, inode: int, mode: int) -> int:
        """Return a directory's own mode; `inode` and `mode` are its current ones."""
        known, own = self._modes.get(path, (0, 0))
        return own if inode == known else mode

    def unlock(self, path: bytes, bits: int) -> bool:
        """Unlock a directory and those above it for their owner; return whether any mode was changed. Raises OSError."""
        is_changed = False
        parts = path.split(b"/") if path else []
        for count in range(len(parts) + 1):
            is_changed = self._open(b"/".join(parts[:count]), bits if count == len(parts) else ENTER) or is_changed
        return is_changed

    def _open(self, path: bytes, bits: int) -> bool:
        if not self._is_needed:
            return False
        try:
            fd = self._path_fd(path)
        except NotADirectoryError:
            return False
        try:
            noted = -1
            for _ in range(_MOST_LOOKS):
                status = os.fstat(fd)
                mode = stat.S_IMODE(status.st_mode)
                if mode & bits == bits or status.st_uid != os.geteuid():
                    return False
                if mode == noted:
                    break
                self._note(path, status.st_ino, mode)  # takes milliseconds, in which the user may change the mode
                noted = mode
            self._modes[path] = status.st_ino, mode
            durable.chmod_path_fd(fd, mode | 0o700)
        finally:
            os.close(fd)
        return True

    def set_mode(self, path: bytes, mode: int) -> bool:
        """Change the own mode of a directory that is unlocked or leads to an unlocked one; return False for any other.

        The directory stays unlocked until `restore`: its own mode could make the directories below it inaccessible.
        """
        if path not in self._modes and not any(one.startswith(path + b"/") for one in self._modes):
            return False
        fd = self._path_fd(path)
        try:
            inode = os.fstat(fd).st_ino
            self._note(path, inode, mode)
            self._modes[path] = inode, mode
            durable.chmod_path_fd(fd, mode | 0o700)
        finally:
            os.close(fd)
        return True

    def _path_fd(self, path: bytes) -> int:
        return syscalls.open_below(self._root, path, _FOLDER) if path else os.dup(self._root)

    def restore(self, recorded: Iterable[ModeRecord] = ()) -> None:
        """Restore the directories' own modes durably, the deepest first, except where the mode was changed since. Raises OSError.

        `recorded`: records of this or a killed command; the last one of a path counts. If a directory above has become
        inaccessible to its owner, because the user or a killed command changed its mode, it is unlocked temporarily.
        """
        modes: dict[bytes, list[tuple[int, int]]] = {}
        for path, inode, mode in (*recorded, *((path, *one) for path, one in self._modes.items())):
            modes.setdefault(path, []).insert(0, (inode, mode))
        self._modes.clear()
        for path in sorted(modes, key=lambda one: -one.count(b"/") - bool(one)):
            self._restore(path, modes[path])
        if self._modes:
            self.restore()

    def _restore(self, path: bytes, modes: list[tuple[int, int]]) -> None:
        try:
            fd = self._reachable_path_fd(path)
        except OSError as error:
            if error.errno in _GONE:
                return
            raise
        try:
            status = os.fstat(fd)
            now = stat.S_IMODE(status.st_mode)
            own = next((mode for inode, mode in modes if inode == status.st_ino and mode | 0o700 == now), now)
            if own != now:
                durable.chmod_path_fd(fd, own)
                durable.syncfs(self._root)
        finally:
            os.close(fd)

    def _reachable_path_fd(self, path: bytes) -> int:
        try:
            return self._path_fd(path)
        except PermissionError:
            if not self.unlock(path.rpartition(b"/")[0], ENTER):
                raise
            return self._path_fd(path)
