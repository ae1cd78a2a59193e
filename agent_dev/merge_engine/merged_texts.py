"""What a merge made of files that it edited, kept in its folder: an undo tells from it what the user did later.

One file, `results`: behind each other the SHA-256 of a text, its length in eight bytes, the text. Nothing in it is believed that
has not its digest, so it needs no sync: what a power cut takes away is not known any more, and never wrong.
"""

import hashlib
import os
from collections.abc import Iterator

from agent_dev.diff import hunks as blocks
from agent_dev.fs import durable as disk
from agent_dev.overlay.changes import Entry, FileType

NAME = "results"
_HEAD = 40
_MANY = 1 << 20  # bytes: so many are written at once


def is_wanted(before: Entry | None, after: Entry) -> bool:
    """Whether what stood there and what comes are files whose lines can be compared."""
    if before is None or not before.type is after.type is FileType.FILE or not after.mode & 0o400:
        return False
    return max(before.size, after.size) <= blocks.LARGEST


class Results:
    """The texts of one merge while it is staged."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = -1
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes, digest: str) -> None:
        """Keep a text; what is none, or has holes, is passed over. Raises OSError."""
        if not blocks.is_binary(data):
            self._pieces += (bytes.fromhex(digest), len(data).to_bytes(8, "big"), data)
            self._size += len(data)
            if self._size > _MANY:
                self._write()

    def settle(self) -> None:
        """Write what is left. Raises OSError."""
        self._write()

    def close(self) -> None:
        """Close the file, whatever was written."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self) -> None:
        if not self._pieces:
            return
        if self._file < 0:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._file = disk.create(NAME.encode(), folder)
            finally:
                os.close(folder)
        disk.write(self._file, b"".join(self._pieces))
        self._pieces, self._size = [], 0


class Kept:
    """The texts that a merge has kept, by their digests: the file is walked through once, when the first is asked for."""

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{NAME}"
        self._places: dict[str, tuple[int, int]] | None = None  # where each begins, and its length

    def find(self, digest: str) -> bytes | None:
        """Return the text with a digest; None for none."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None  # nothing was edited, or an older agent-dev merged it
        try:
            if self._places is None:
                self._places = dict(_texts(fd))
            place = self._places.get(digest)
            data = os.pread(fd, place[1], place[0]) if place is not None else b""
        finally:
            os.close(fd)
        return data if place is not None and hashlib.sha256(data).hexdigest() == digest else None


def _texts(fd: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the digests, with where each text begins and its length."""
    at = 0
    while len(head := os.pread(fd, _HEAD, at)) == _HEAD:
        size = int.from_bytes(head[32:], "big")
        if size > blocks.LARGEST:
            return  # torn
        yield head[:32].hex(), (at + _HEAD, size)
        at += _HEAD + size
