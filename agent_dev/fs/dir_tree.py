"""Every operation on a real tree: by descriptor, below the root's own, no link followed, no mount crossed."""

import errno
import os
import stat

from agent_dev.fs import walk as scan
from agent_dev.linux import syscalls as kernel
from agent_dev.overlay.changes import Entry

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)  # EXDEV: a mount came in between
CHUNK = 1 << 20


class Tree:
    """A directory whose content is reached only through its descriptor."""

    def __init__(self, path: str, *, is_ours: bool = False) -> None:
        self.path = path
        self._is_ours = is_ours  # an upper: a file that nobody may read is made readable for a moment
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._folders: dict[bytes, int] = {}

    def close(self) -> None:
        """Close every descriptor."""
        for fd in self._folders.values():
            os.close(fd)
        self._folders.clear()
        os.close(self.fd)

    def folder(self, path: bytes) -> int:
        """Return a descriptor of a directory below; it stays the tree's. Raises OSError."""
        if not path:
            return self.fd
        known = self._folders.get(path)
        if known is None:
            if len(self._folders) > 64:
                self.forget()
            known = kernel.open_below(self.fd, path, _FOLDER)
            self._folders[path] = known
        return known

    def forget(self) -> None:
        """Let go of the directories that were opened: after they may have moved."""
        for fd in self._folders.values():
            os.close(fd)
        self._folders.clear()

    def look(self, path: bytes, *, attributes: bool = True) -> Entry | None:
        """Return what stands at a path now, None for nothing (or something that is no directory above it)."""
        folder, _, name = path.rpartition(b"/")
        try:
            return scan.entry(self.folder(folder), name, attributes=attributes)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise

    def open(self, path: bytes, flags: int) -> int:
        """Open a file below, following nothing."""
        how = flags | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            return kernel.open_below(self.fd, path, how)
        except PermissionError:
            if not self._is_ours:
                raise
        with_path = kernel.open_below(self.fd, path, os.O_PATH | os.O_NOFOLLOW)
        try:
            mode = os.fstat(with_path).st_mode & 0o7777
            os.chmod(f"/proc/self/fd/{with_path}", mode | 0o400)
            try:
                return kernel.open_below(self.fd, path, how)
            finally:
                os.chmod(f"/proc/self/fd/{with_path}", mode)
        finally:
            os.close(with_path)

    def read(self, path: bytes, limit: int) -> bytes | None:
        """Return a regular file's bytes or a link's target; None for more than `limit` bytes and for other things."""
        folder, _, name = path.rpartition(b"/")
        place = self.folder(folder)
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(name, dir_fd=place)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        fd = self.open(path, os.O_RDONLY)
        try:
            return read_all(fd, status.st_size)
        finally:
            os.close(fd)


def read_all(fd: int, size: int = 0) -> bytes:
    """Return all that is left to read; where that is `size` bytes, as expected, with one call and no larger a buffer."""
    pieces = [os.read(fd, size + 1)] if size else []
    if pieces and len(pieces[0]) == size:
        return pieces[0]
    while piece := os.read(fd, CHUNK):
        pieces.append(piece)
    return b"".join(pieces)


def are_equal(one: Tree, other: Tree, path: bytes) -> bool:
    """Whether a regular file has the same bytes in two trees."""
    first = one.open(path, os.O_RDONLY)
    try:
        second = other.open(path, os.O_RDONLY)
        try:
            while True:
                a, b = os.read(first, CHUNK), os.read(second, CHUNK)
                if a != b:
                    return False
                if not a:
                    return True
        finally:
            os.close(second)
    finally:
        os.close(first)


def write_all(fd: int, data: bytes) -> None:
    """Write everything, however often the kernel takes only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
