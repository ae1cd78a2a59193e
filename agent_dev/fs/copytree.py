"""Copies of trees: files (by reflink where the file system can), directories, links, FIFOs, modes, times, `user.*` attributes."""

import errno
import fcntl
import os

from agent_dev.fs import durable as disk
from agent_dev.fs import walk as scan
from agent_dev.fs.dir_tree import Tree
from agent_dev.linux import syscalls as kernel
from agent_dev.overlay.changes import Entry, FileType

_FICLONE = 0x40049409
_CANNOT_CLONE = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM)


class Copier:
    """Copies entries of one tree into another of ours. `cloned` and `copied` count files."""

    def __init__(self, source: Tree, target: Tree) -> None:
        self.source, self.target = source, target
        self.cloned = self.copied = 0
        self._can_clone = True

    def copy(self, path: bytes, entry: Entry) -> bool:
        """Copy one entry, into a directory that is there; False for what cannot be copied (a socket, a device)."""
        folder, _, name = path.rpartition(b"/")
        place = self.target.folder(folder)
        if entry.type is FileType.FILE:
            self._file(path, entry, place, name)
        elif entry.type is FileType.DIRECTORY:
            disk.mkdir(name, place, entry.mode & 0o777 | 0o700)
            with_attributes(self.target, path, entry)
        elif entry.type is FileType.SYMLINK:
            disk.symlink(entry.target, name, place)
        elif entry.type is FileType.FIFO:
            disk.mkfifo(name, place, entry.mode & 0o777)
        else:
            return False
        return True

    def _file(self, path: bytes, entry: Entry, place: int, name: bytes) -> None:
        fd = self.source.open(path, os.O_RDONLY)
        try:
            out = disk.create(name, place)
            try:
                self._content(fd, out)
                self._attributes(out, entry)
                disk.chmod(out, entry.mode & 0o777)
                disk.set_time(out, entry.mtime)
            finally:
                os.close(out)
        finally:
            os.close(fd)

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
        while piece := os.read(fd, 1 << 20):
            disk.write(out, piece)

    @staticmethod
    def _attributes(fd: int, entry: Entry) -> None:
        for name, value in entry.attributes:
            disk.set_attribute(fd, name, value)


def with_attributes(tree: Tree, path: bytes, entry: Entry, *more: tuple[str, bytes]) -> None:
    """Give a directory of ours an entry's attributes, and some more."""
    fd = kernel.open_below(tree.fd, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name, value in (*entry.attributes, *more):
            disk.set_attribute(fd, name, value)
    finally:
        os.close(fd)


def with_mode(tree: Tree, path: bytes, mode: int, mtime: int = 0) -> None:
    """Give a directory of ours a mode and, unless 0, its times."""
    fd = kernel.open_below(tree.fd, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.chmod(fd, mode)
        if mtime:
            disk.set_time(fd, mtime)
    finally:
        os.close(fd)


def tree(source: str, target: str, *, skip: tuple[bytes, ...] = ()) -> tuple[Copier, tuple[str, ...]]:
    """Copy a tree into an empty directory of ours, without following a link; return the counts, and what was left out."""
    problems: list[str] = []
    one, other = Tree(source), Tree(target, is_ours=True)
    try:
        copier = Copier(one, other)
        folders: list[tuple[bytes, Entry]] = []
        for found in scan.walk(source, skip=skip, problems=problems):
            if not copier.copy(found.path, found.entry):
                problems.append(f"{os.fsdecode(found.path)}: a {found.entry.type} is not copied")
            elif found.entry.type is FileType.DIRECTORY:
                folders.append((found.path, found.entry))
        for path, entry in reversed(folders):
            with_mode(other, path, entry.mode & 0o777, entry.mtime)
        disk.syncfs(other.fd)
        return copier, tuple(problems)
    finally:
        one.close()
        other.close()
