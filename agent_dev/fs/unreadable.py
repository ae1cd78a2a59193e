"""Read files and directories that an agent made unreadable (`chmod 000`), and restore their modes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agent_dev.linux import syscalls

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE, _SEARCHABLE = 0o400, 0o500


class UnreadableDirectories:
    """Directories below a root, opened by path, parents first; unreadable ones stay readable until `close`.

    If the process is killed before that, they stay readable for their owner.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._original: dict[str, tuple[int, int]] = {}  # path → inode, original mode

    def open(self, path: str) -> int:
        """Open a directory for listing and searching. Raises OSError."""
        with suppress(PermissionError):
            fd = self._open(path, _FOLDER)
            if _is_searchable(fd):
                return fd
            os.close(fd)
        path_fd = self._open(path, _PATH_ONLY | os.O_DIRECTORY)
        try:
            status = os.fstat(path_fd)
            self._original[path] = status.st_ino, status.st_mode & 0o7777  # first: a signal may end this process in between
            os.chmod(f"/proc/self/fd/{path_fd}", status.st_mode & 0o7777 | _SEARCHABLE)
        finally:
            os.close(path_fd)
        return self._open(path, _FOLDER)

    def _open(self, path: str, flags: int) -> int:
        if path:
            return syscalls.open_below(self._root, os.fsencode(path), flags)
        return os.open(
            f"/proc/self/fd/{self._root}", flags & ~os.O_NOFOLLOW | os.O_CLOEXEC
        )  # opening "." needs search permission

    def original_mode(self, path: str, now: int) -> int:
        """Return the original mode of a directory, `now` if it was readable."""
        return self._original[path][1] if path in self._original else now

    def close(self) -> None:
        """Restore the modes, the deepest first; directories that were moved or changed since stay as they are."""
        for path, (inode, mode) in reversed(self._original.items()):
            with suppress(OSError):
                path_fd = self._open(path, _PATH_ONLY | os.O_DIRECTORY)
                try:
                    if os.fstat(path_fd).st_ino == inode:
                        _restore_mode(path_fd, mode | _SEARCHABLE, mode)
                finally:
                    os.close(path_fd)
        self._original.clear()


def _is_searchable(folder: int) -> bool:
    try:
        os.stat(".", dir_fd=folder)
    except PermissionError:
        return False
    return True


@contextmanager
def made_readable(folder: int, name: str) -> Iterator[int]:
    """Make a file or directory readable for its owner; yield its original mode. Raises OSError if it is not ours."""
    path_fd = os.open(name, _PATH_ONLY, dir_fd=folder)
    try:
        mode = os.fstat(path_fd).st_mode & 0o7777
        try:
            os.chmod(f"/proc/self/fd/{path_fd}", mode | _READABLE)
            yield mode
        finally:
            _restore_mode(path_fd, mode | _READABLE, mode)
    finally:
        os.close(path_fd)


def _restore_mode(path_fd: int, temporary: int, mode: int) -> None:
    """Restore an original mode, unless the agent has changed the temporary one since."""
    if temporary != mode and os.fstat(path_fd).st_mode & 0o7777 == temporary:
        os.chmod(f"/proc/self/fd/{path_fd}", mode)
