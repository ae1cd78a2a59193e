"""SHA-256 of a file's data and of where it lies: holes are told from zeros, and not read."""

import errno
import hashlib
import os
from collections.abc import Iterator

from agent_dev.fs import dir_tree as files


def of(tree: files.Tree, path: bytes, size: int) -> str:
    """Return the digest of a file below a tree, in hex."""
    fd = tree.open(path, os.O_RDONLY)
    try:
        seen = Running()
        for at, piece in pieces(fd, size):
            seen.add(at, piece)
        return seen.hex()
    finally:
        os.close(fd)


class Running:
    """A digest that grows: data that follows on data is as one piece."""

    def __init__(self) -> None:
        self._seen = hashlib.sha256()
        self._end = 0

    def add(self, at: int, piece: bytes) -> None:
        """Take up a piece that lies at some offset."""
        if at != self._end:
            self._seen.update(b"\0hole to %d\0" % at)
        self._seen.update(piece)
        self._end = at + len(piece)

    def hex(self) -> str:
        """Return the digest so far."""
        return self._seen.hexdigest()


def pieces(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield a file's data with its offsets; only what lies between holes is read."""
    if size <= files.CHUNK:
        data = files.read_all(fd)
        if data:
            yield 0, data
        return
    at = 0
    while at < size:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # a hole to the end
        end = os.lseek(fd, at, os.SEEK_HOLE)
        os.lseek(fd, at, os.SEEK_SET)
        while at < end and (piece := os.read(fd, min(files.CHUNK, end - at))):
            yield at, piece
            at += len(piece)
