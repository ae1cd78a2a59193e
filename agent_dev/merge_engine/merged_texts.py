"""The merged texts of a merge, saved so that an undo can separate the user's later edits from them.

One file, `results`: for each text its SHA-256, its length in eight bytes, and the text. Every text is verified by its digest on
reading, so the file is not synced: after a power cut a text is missing, never wrong.
"""

import hashlib
import os
from collections.abc import Iterator

from agent_dev.diff import hunks
from agent_dev.diff.binary import is_binary
from agent_dev.fs import durable
from agent_dev.fs.entry import Entry, FileType

FILE_NAME = "results"
_HEADER_SIZE = 40
_BUFFER_SIZE = 1 << 20  # bytes buffered before a write


def is_mergeable_text(before: Entry | None, after: Entry) -> bool:
    """Return whether the old and the new entry are files with comparable lines."""
    if before is None or not before.type is after.type is FileType.FILE or not after.mode & 0o400:
        return False
    return max(before.size, after.size) <= hunks.MAX_DIFF_SIZE


class TextWriter:
    """A writer for the texts of one merge while it is staged."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = -1
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes, digest: bytes) -> None:
        """Save a text; skip binary content. Raises OSError."""
        if not is_binary(data):
            self._pieces += (digest, len(data).to_bytes(8, "big"), data)
            self._size += len(data)
            if self._size > _BUFFER_SIZE:
                self._write()

    def flush(self) -> None:
        """Write the buffered texts. Raises OSError."""
        self._write()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self) -> None:
        if not self._pieces:
            return
        if self._file < 0:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._file = durable.create(FILE_NAME.encode(), folder)
            finally:
                os.close(folder)
        durable.write(self._file, b"".join(self._pieces))
        self._pieces, self._size = [], 0


class TextReader:
    """A reader for the saved texts of a merge, by digest; the index is built on first use."""

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{FILE_NAME}"
        self._extents: dict[bytes, tuple[int, int]] | None = None  # offset and length

    def find(self, digest: bytes) -> bytes | None:
        """Return the text with a digest, or None."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None  # no text was edited, or an older agent-dev merged it
        try:
            if self._extents is None:
                self._extents = dict(_texts(fd))
            extent = self._extents.get(digest)
            data = os.pread(fd, extent[1], extent[0]) if extent is not None else b""
        finally:
            os.close(fd)
        return data if extent is not None and hashlib.sha256(data).digest() == digest else None


def _texts(fd: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yield each text's digest, offset and length."""
    offset = 0
    while len(head := os.pread(fd, _HEADER_SIZE, offset)) == _HEADER_SIZE:
        size = int.from_bytes(head[32:], "big")
        if size > hunks.MAX_DIFF_SIZE:
            return  # torn
        yield head[:32], (offset + _HEADER_SIZE, size)
        offset += _HEADER_SIZE + size
