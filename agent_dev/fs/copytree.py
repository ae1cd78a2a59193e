"""Copy trees: files (by reflink if possible), directories, symlinks, FIFOs, modes, times, `user.*` attributes.

An exact copy includes setuid, setgid and sticky bits, ACLs, and files that their owner cannot read.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from agent_dev.fs import acl, digest, durable, unreadable, walk
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import TOO_DEEP, Entry, FileType
from agent_dev.linux import syscalls

_FICLONE = 0x40049409
_CANNOT_CLONE = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM)


class Copier:
    """Copies entries from one tree to another one of ours. `cloned` and `copied` count files."""

    def __init__(self, source: Tree, target: Tree, *, is_exact: bool = False) -> None:
        self.source, self.target, self.is_exact = source, target, is_exact
        self.cloned = self.copied = 0
        self._can_clone = True

    def copy(self, path: bytes, entry: Entry) -> bool:
        """Copy one entry into an existing directory; return False for what cannot be copied (a socket, a device)."""
        folder, _, name = path.rpartition(b"/")
        parent = self.target.directory(folder)
        if entry.type is FileType.FILE:
            self._file(path, entry, parent, name)
        elif entry.type is FileType.DIRECTORY:
            durable.mkdir(name, parent, entry.mode & 0o777 | 0o700)
            set_directory_attributes(self.target, path, entry)
        elif entry.type is FileType.SYMLINK:
            durable.symlink(entry.target, name, parent)
            durable.set_time_at(name, parent, entry.mtime)
        elif entry.type is FileType.FIFO:
            durable.mkfifo(name, parent, entry.mode & 0o777)
            durable.set_time_at(name, parent, entry.mtime)
        else:
            return False
        return True

    def _file(self, path: bytes, entry: Entry, parent: int, name: bytes) -> None:
        with self._opened(path) as fd:
            out = durable.create(name, parent)
            try:
                self._content(fd, out)
                self._attributes(out, entry)
                if self.is_exact and (own := acl.read(fd)) is not None:
                    durable.set_attribute(out, acl.XATTR, own)
                durable.chmod(out, self.copied_mode(entry, os.fstat(fd), os.fstat(out)))
                durable.set_time(out, entry.mtime)
            finally:
                os.close(out)

    @contextmanager
    def _opened(self, path: bytes) -> Iterator[int]:
        """Open a file; for an exact copy also one that its owner cannot read. Raises OSError."""
        try:
            fd = self.source.open(path, os.O_RDONLY)
        except PermissionError:
            if not self.is_exact:
                raise
            folder, _, name = path.rpartition(b"/")
            with unreadable.made_readable(self.source.directory(folder), os.fsdecode(name)):
                fd = self.source.open(path, os.O_RDONLY)
        try:
            yield fd
        finally:
            os.close(fd)

    def copied_mode(self, entry: Entry, source: os.stat_result, copy: os.stat_result) -> int:
        """Return the mode of a copy: setuid and setgid bits are kept only if the owner or group is the same."""
        if not self.is_exact:
            return entry.mode & 0o777
        is_same = source.st_uid == copy.st_uid, source.st_gid == copy.st_gid
        bits = stat.S_ISVTX | (stat.S_ISUID if is_same[0] else 0) | (stat.S_ISGID if is_same[1] else 0)
        return entry.mode & (0o777 | bits)

    def copied_directory_mode(self, path: bytes, entry: Entry) -> int:
        """Return the mode for the existing copy of a directory."""
        return self.copied_mode(entry, os.fstat(self.source.directory(path)), os.fstat(self.target.directory(path)))

    def _content(self, fd: int, out: int) -> None:
        if self._can_clone:
            try:
                fcntl.ioctl(out, _FICLONE, fd)
            except OSError as error:
                if error.errno not in _CANNOT_CLONE:
                    raise
                self._can_clone = False
            else:
                self.cloned += 1
                return
        self.copied += 1
        size = os.fstat(fd).st_size
        for at, piece in digest.read_data(fd, size):
            os.lseek(out, at, os.SEEK_SET)
            durable.write(out, piece)
        if os.fstat(out).st_size < size:
            durable.truncate(out, size)

    @staticmethod
    def _attributes(fd: int, entry: Entry) -> None:
        for name, value in entry.attributes:
            durable.set_attribute(fd, name, value)


def set_directory_attributes(tree: Tree, path: bytes, entry: Entry, *more: tuple[str, bytes]) -> None:
    """Set an entry's attributes and the given further ones on a directory of ours."""
    fd = syscalls.open_below(tree.fd, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name, value in (*entry.attributes, *more):
            durable.set_attribute(fd, name, value)
    finally:
        os.close(fd)


def set_directory_mode(tree: Tree, path: bytes, mode: int, mtime: int = 0) -> None:
    """Set the mode of a directory of ours and, unless `mtime` is 0, its times."""
    fd = syscalls.open_below(tree.fd, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        durable.chmod(fd, mode)
        if mtime:
            durable.set_time(fd, mtime)
    finally:
        os.close(fd)


def copy_tree(
    source: str, target: str, *, skip: tuple[bytes, ...] = (), is_exact: bool = False
) -> tuple[Copier, tuple[str, ...]]:
    """Copy a tree into an empty directory of ours, without following symlinks; return the counts, and the omitted entries."""
    problems: list[str] = []
    one, other = Tree(source), Tree(target, is_ours=True)
    try:
        copier = Copier(one, other, is_exact=is_exact)
        folders: list[tuple[bytes, Entry]] = []
        for found in walk.walk(source, skip=skip, problems=problems):
            if not copier.copy(found.path, found.entry):
                problems.append(f"{os.fsdecode(found.path)}: a {found.entry.type} is not copied")
            elif found.is_too_deep:
                problems.append(f"{os.fsdecode(found.path)}: {TOO_DEEP} kept")
            elif found.entry.type is FileType.DIRECTORY:
                folders.append((found.path, found.entry))
        for path, entry in reversed(folders):
            set_directory_mode(other, path, copier.copied_directory_mode(path, entry), entry.mtime)
        durable.syncfs(other.fd)
        return copier, tuple(problems)
    finally:
        one.close()
        other.close()
