"""Staged content: the agent's files copied to where one rename reaches the target, durable before anything is touched."""

import errno
import os

from agent_dev.core.changes import Entry, FileType
from agent_dev.host import files, kernel

_FEW = 64  # up to here each file is fsynced; past it one syncfs is cheaper


def choose(candidates: tuple[str, ...], root: files.Tree) -> str | None:
    """Make and return the first directory from which a rename reaches the root; tried, not guessed (DESIGN.md section 5).

    The trial renames onto the root itself, with NOREPLACE: it changes nothing, and tells EXDEV from EEXIST. What the kernel
    does not look at before it finds the name taken, a subvolume, shows in st_dev.
    """
    for place in candidates:
        try:
            os.makedirs(place, 0o700)
        except OSError:
            continue
        if _reaches(place, root):
            return place
        os.rmdir(place)
    return None


def _reaches(place: str, root: files.Tree) -> bool:
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.mkdir("probe", 0o700, dir_fd=folder)
        kernel.rename(folder, b"probe", root.fd, b".", kernel.NOREPLACE)
    except OSError as error:
        return error.errno == errno.EEXIST and os.fstat(folder).st_dev == os.fstat(root.fd).st_dev
    finally:
        os.rmdir("probe", dir_fd=folder)
        os.close(folder)
    return False


class Stage:
    """A directory of ours with numbered copies."""

    def __init__(self, path: str, first: int = 0) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._count = first
        self._first = first

    def add(self, source: files.Tree, path: bytes, entry: Entry) -> bytes:
        """Copy one entry of the agent's; return its name here. 07000 bits are stripped, overlay attributes never come.

        A directory is made open to its owner: who may not write to it could not move it, nor put anything into it.
        """
        name = b"%d" % self._count
        self._count += 1
        mode = entry.mode & 0o777
        if entry.type is FileType.FILE:
            self._copy(source, path, name, entry, mode)
        elif entry.type is FileType.SYMLINK:
            os.symlink(entry.target, name, dir_fd=self.fd)
        elif entry.type is FileType.FIFO:
            os.mkfifo(name, 0o600, dir_fd=self.fd)
            os.chmod(name, mode, dir_fd=self.fd)
        else:
            os.mkdir(name, 0o700, dir_fd=self.fd)
            os.chmod(name, mode | 0o700, dir_fd=self.fd)
        return name

    def _copy(self, source: files.Tree, path: bytes, name: bytes, entry: Entry, mode: int) -> None:
        fd = source.open(path, os.O_RDONLY)
        out = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
        try:
            _pour(fd, out, entry.size)
            for attribute, value in entry.attributes:
                os.setxattr(out, attribute, value)
            os.fchmod(out, mode)
            os.utime(out, ns=(entry.mtime, entry.mtime))
            if self._count - self._first <= _FEW:
                os.fsync(out)
        finally:
            os.close(out)
            os.close(fd)

    def settle(self) -> None:
        """Make all copies durable."""
        if self._count - self._first > _FEW:
            kernel.syncfs(self.fd)
        else:
            os.fsync(self.fd)

    def close(self) -> None:
        """Close the directory; what it holds stays."""
        os.close(self.fd)


def _pour(fd: int, out: int, size: int) -> None:
    """Copy bytes, keeping holes: only the data between them is read."""
    if size <= files.CHUNK:
        files.write_all(out, files.read_all(fd))
        return
    at = 0
    while at < size:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # a hole to the end
        end = os.lseek(fd, at, os.SEEK_HOLE)
        os.lseek(fd, at, os.SEEK_SET)
        os.lseek(out, at, os.SEEK_SET)
        while at < end and (piece := os.read(fd, min(files.CHUNK, end - at))):
            files.write_all(out, piece)
            at += len(piece)
    os.ftruncate(out, size)
