"""Digests of files that may have holes; holes are not read, so a file of 1 TiB without data costs nothing.

`digest_file` and `RunningDigest` distinguish holes from zeros. `ContentName` does not: equal bytes have equal names, wherever
their holes are.
"""

import errno
import hashlib
import os
from collections.abc import Iterator

from agent_dev.fs import dir_tree


def digest_file(tree: dir_tree.Tree, path: bytes, size: int) -> str:
    """Return the digest of a file below a tree, in hex."""
    fd = tree.open(path, os.O_RDONLY)
    try:
        seen = RunningDigest()
        for at, piece in read_data(fd, size):
            seen.add(at, piece)
        return seen.hex()
    finally:
        os.close(fd)


class RunningDigest:
    """An incremental digest; adjacent pieces count as one."""

    def __init__(self) -> None:
        self._seen = hashlib.sha256()
        self._end = 0

    def add(self, at: int, piece: bytes) -> None:
        """Add a piece at an offset."""
        if at != self._end:
            self._seen.update(b"\0hole to %d\0" % at)
        self._seen.update(piece)
        self._end = at + len(piece)

    def hex(self) -> str:
        """Return the digest so far."""
        return self._seen.hexdigest()


def read_data(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield a file's data with offsets, skipping holes."""
    if size <= dir_tree.CHUNK_SIZE:
        data = dir_tree.read_all(fd)
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
        while at < end and (piece := os.read(fd, min(dir_tree.CHUNK_SIZE, end - at))):
            yield at, piece
            at += len(piece)


BLOCK_SIZE = 1 << 16  # bytes: an aligned block of zeros of this size counts as a hole
_ZEROS = bytes(BLOCK_SIZE)


def read_blocks(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each run of non-zero blocks in the first `size` bytes of a file, at most CHUNK_SIZE each."""
    at = 0
    while at < size:
        try:
            at = max(at, os.lseek(fd, at, os.SEEK_DATA) // BLOCK_SIZE * BLOCK_SIZE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # a hole to the end
        piece = os.pread(fd, min(dir_tree.CHUNK_SIZE, size - at), at)
        if not piece:
            return  # it was truncated while we read it
        for start, run in _runs(piece):
            yield at + start, run
        at += len(piece)


def _runs(piece: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    for offset in range(0, len(piece), BLOCK_SIZE):
        if _ZEROS.startswith(piece[offset : offset + BLOCK_SIZE]):
            if start < offset:
                yield start, piece[start:offset]
            start = offset + BLOCK_SIZE
    if start < len(piece):
        yield start, piece[start:]


class ContentName:
    """The name of a file's content: its SHA-256; if blocks of zeros were left out, a digest of the runs' offsets and data."""

    def __init__(self) -> None:
        self._seen = hashlib.sha256()
        self._runs: list[list[int]] = []  # start and end

    def add(self, at: int, piece: bytes) -> None:
        """Add bytes at an offset; offsets must increase."""
        self._seen.update(piece)
        if self._runs and self._runs[-1][1] == at:
            self._runs[-1][1] += len(piece)
        else:
            self._runs.append([at, at + len(piece)])

    def finish(self, size: int) -> str:
        """Return the name for a file of this size, as long as a SHA-256 in hex; with gaps it is not a hexadecimal number."""
        if self._runs == [[0, size]]:
            return self._seen.hexdigest()
        runs = hashlib.sha256(repr((self._runs, size)).encode())
        runs.update(self._seen.digest())
        return "s" + runs.hexdigest()[1:]
