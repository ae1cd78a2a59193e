"""Access to a real tree by descriptors relative to its root, without following symlinks or crossing mount points."""

import errno
import os
import stat
from collections.abc import Collection

from agent_dev.fs import unlocked_directories, walk
from agent_dev.fs.entry import Entry, FileType, parents_of
from agent_dev.linux import syscalls

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)  # EXDEV: a file system was mounted there
CHUNK_SIZE = 1 << 20
UNKNOWN = Entry(FileType.DEVICE)  # an entry of a directory that its owner cannot enter; equal to no other


class Tree:
    """A directory whose content is accessed only through its descriptor."""

    def __init__(self, path: str, *, is_ours: bool = False, is_reviewed: bool = False, max_open: int = 64) -> None:
        """`is_reviewed`: entries of a directory that cannot be entered are UNKNOWN instead of an error.

        `max_open`: the number of directories that stay open.
        """
        self.path = path
        self._max_open = max_open
        self._is_reviewed = is_reviewed
        self._is_ours = is_ours  # an upper layer: unreadable files are made readable for a moment
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._folders: dict[bytes, int] = {}
        # Set if directories that keep their owner out may be unlocked here.
        self.unlocked: unlocked_directories.UnlockedDirectories | None = None

    def close(self) -> None:
        """Close every descriptor."""
        for fd in self._folders.values():
            os.close(fd)
        self._folders.clear()
        os.close(self.fd)

    def directory(self, path: bytes) -> int:
        """Return a descriptor of a directory of the tree; the tree closes it. Raises OSError."""
        if not path:
            return self.fd
        known = self._folders.get(path)
        if known is None:
            if len(self._folders) > self._max_open:
                self.close_directories()
            try:
                known = syscalls.open_below(self.fd, path, _FOLDER)
            except PermissionError:
                if not self.unlock(path, unlocked_directories.ENTER):
                    raise
                known = syscalls.open_below(self.fd, path, _FOLDER)
            self._folders[path] = known
        return known

    def unlock(self, path: bytes, bits: int = unlocked_directories.WRITE) -> bool:
        """Unlock a directory that keeps its owner out, if allowed; return whether it was. Raises OSError."""
        return self.unlocked is not None and self.unlocked.unlock(path, bits)

    def restore_modes(self, recorded: Collection[unlocked_directories.ModeRecord] = ()) -> None:
        """Restore the modes of the directories that were unlocked, here or in records. Raises OSError."""
        if self.unlocked is not None and (self.unlocked or recorded):
            self.close_directories()
            self.unlocked.restore(recorded)

    def close_directories(self) -> None:
        """Close the open directories; needed after they may have moved."""
        for fd in self._folders.values():
            os.close(fd)
        self._folders.clear()

    def entry_at(self, path: bytes, *, attributes: bool = True) -> Entry | None:
        """Return the entry at a path, None if there is none or a parent is not a directory."""
        folder, _, name = path.rpartition(b"/")
        try:
            try:
                found = walk.read_entry(self.directory(folder), name, attributes=attributes)
            except PermissionError:
                if not (self.unlock(folder, unlocked_directories.ENTER) or self.unlock(path, unlocked_directories.READ)):
                    if self._is_reviewed:
                        return UNKNOWN
                    raise
                found = self._unlocked_entry(path, attributes=attributes)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        if self.unlocked and found.type is FileType.DIRECTORY:
            return found.with_values(mode=self.unlocked.own_mode(path, found.inode, found.mode))
        return found

    def _unlocked_entry(self, path: bytes, *, attributes: bool) -> Entry:
        """Read an entry whose directory was unlocked; an unreadable directory is unlocked, too, to read its attributes."""
        folder, _, name = path.rpartition(b"/")
        try:
            return walk.read_entry(self.directory(folder), name, attributes=attributes)
        except PermissionError:
            if not self.unlock(path, unlocked_directories.READ):
                raise
            return walk.read_entry(self.directory(folder), name, attributes=attributes)

    def open(self, path: bytes, flags: int) -> int:
        """Open a file of the tree without following symlinks."""
        open_flags = flags | os.O_NOFOLLOW | os.O_NONBLOCK
        if flags & os.O_DIRECTORY:
            self.unlock(path, unlocked_directories.READ)
        try:
            return syscalls.open_below(self.fd, path, open_flags)
        except PermissionError:
            if self.unlock(path.rpartition(b"/")[0], unlocked_directories.ENTER):
                return self.open(path, flags)
            if not self._is_ours:
                raise
        path_fd = syscalls.open_below(self.fd, path, os.O_PATH | os.O_NOFOLLOW)
        try:
            mode = os.fstat(path_fd).st_mode & 0o7777
            os.chmod(f"/proc/self/fd/{path_fd}", mode | 0o400)
            try:
                return syscalls.open_below(self.fd, path, open_flags)
            finally:
                os.chmod(f"/proc/self/fd/{path_fd}", mode)
        finally:
            os.close(path_fd)

    def read(self, path: bytes, limit: int) -> bytes | None:
        """Return the content of a regular file or the target of a symlink; None for larger files and other types."""
        folder, _, name = path.rpartition(b"/")
        parent = self.directory(folder)
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(name, dir_fd=parent)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        fd = self.open(path, os.O_RDONLY)
        try:
            data = read_all(fd, status.st_size, limit)
            return data if len(data) <= limit else None
        finally:
            os.close(fd)


def hides_lower(tree: Tree, path: bytes) -> bool:
    """Return whether an upper layer hides a directory of the lower layer and has no directory at its path."""
    is_covered = False
    for one in (*parents_of(path), path):
        found = tree.entry_at(one, attributes=False)
        if found is None:
            return is_covered
        if found.type is not FileType.DIRECTORY:
            return True  # a whiteout, or something that replaced it
        is_covered = is_covered or _is_opaque(tree, one)
    return False


def _is_opaque(tree: Tree, path: bytes) -> bool:
    try:
        return os.getxattr(f"/proc/self/fd/{tree.directory(path)}", "user.overlay.opaque") == b"y"
    except OSError:
        return False


def read_all(fd: int, size: int = 0, max_size: int = 0) -> bytes:
    """Return all that is left to read. If it is `size` bytes, as expected, one call is enough.

    `max_size`: stop after reading more than this many bytes, in case the file grows while it is read.
    """
    pieces = [os.read(fd, size + 1)] if size else []
    if pieces and len(pieces[0]) == size:
        return pieces[0]
    total = sum(map(len, pieces))
    while (not max_size or total <= max_size) and (piece := os.read(fd, CHUNK_SIZE)):
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces)


def have_same_content(one: Tree, other: Tree, path: bytes) -> bool:
    """Return whether a regular file has the same content in two trees."""
    first = one.open(path, os.O_RDONLY)
    try:
        second = other.open(path, os.O_RDONLY)
        try:
            return _have_same_content(first, second)
        finally:
            os.close(second)
    finally:
        os.close(first)


def _have_same_content(first: int, second: int) -> bool:
    """Return whether two open files have the same content; common holes are not read."""
    size, at = os.fstat(first).st_size, 0
    if os.fstat(second).st_size != size:
        return False
    while at < size:
        at = min(_next_data(first, at, size), _next_data(second, at, size))
        one, other = os.pread(first, CHUNK_SIZE, at), os.pread(second, CHUNK_SIZE, at)
        if one != other:
            return False
        at += len(one) or size  # truncated while we read: both end here
    return True


def _next_data(fd: int, at: int, size: int) -> int:
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return size
