"""What an agent shut against its owner, and so against us (`chmod 000`): opened while it is read, and shut again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agent_dev.linux import syscalls as kernel

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE, _SEARCHABLE = 0o400, 0o500


class Folders:
    """Directories below a root, by their paths, parents first; those that were shut stay open until `close`.

    A process that is killed meanwhile leaves them readable by their owner.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._were: dict[str, tuple[int, int]] = {}  # by path: the inode, and the mode that it had

    def open(self, path: str) -> int:
        """Open a directory, so that it can be listed and searched. Raises OSError."""
        with suppress(PermissionError):
            fd = self._at(path, _FOLDER)
            if _is_searchable(fd):
                return fd
            os.close(fd)
        place = self._at(path, _PLACE | os.O_DIRECTORY)
        try:
            status = os.fstat(place)
            os.chmod(f"/proc/self/fd/{place}", status.st_mode & 0o7777 | _SEARCHABLE)
        finally:
            os.close(place)
        self._were[path] = status.st_ino, status.st_mode & 0o7777
        return self._at(path, _FOLDER)

    def _at(self, path: str, flags: int) -> int:
        if path:
            return kernel.open_below(self._root, os.fsencode(path), flags)
        return os.open(f"/proc/self/fd/{self._root}", flags & ~os.O_NOFOLLOW | os.O_CLOEXEC)  # "." would have to be searched

    def mode(self, path: str, now: int) -> int:
        """Return the mode that a directory had, `now` where it was not shut."""
        return self._were[path][1] if path in self._were else now

    def close(self) -> None:
        """Shut what was shut, the deepest first; what was moved or given another mode meanwhile stays as it is."""
        for path, (inode, mode) in reversed(self._were.items()):
            with suppress(OSError):
                place = self._at(path, _PLACE | os.O_DIRECTORY)
                try:
                    if os.fstat(place).st_ino == inode:
                        _put_back(place, mode | _SEARCHABLE, mode)
                finally:
                    os.close(place)
        self._were.clear()


def _is_searchable(folder: int) -> bool:
    try:
        os.stat(".", dir_fd=folder)
    except PermissionError:
        return False
    return True


@contextmanager
def opened(folder: int, name: str) -> Iterator[int]:
    """Let the owner of a file or a directory read it meanwhile; yield the mode that it has. Raises OSError: it is not ours."""
    place = os.open(name, _PLACE, dir_fd=folder)
    try:
        mode = os.fstat(place).st_mode & 0o7777
        os.chmod(f"/proc/self/fd/{place}", mode | _READABLE)
        try:
            yield mode
        finally:
            _put_back(place, mode | _READABLE, mode)
    finally:
        os.close(place)


def _put_back(place: int, ours: int, mode: int) -> None:
    """Give what has the mode that we gave it its own again; one that the agent gave it since stays."""
    if ours != mode and os.fstat(place).st_mode & 0o7777 == ours:
        os.chmod(f"/proc/self/fd/{place}", mode)
