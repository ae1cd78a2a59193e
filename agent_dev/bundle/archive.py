"""The archive of a bundle: a plain tar of regular files, written and read in a strict form.

The manifest determines the members and their order. The reader compares each header with the one that the writer would write, and
uses no name, mode, owner, time or type from an archive.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Protocol

from agent_dev.errors import BadBundle

BLOCK = 512
CHUNK = 1 << 20
END = bytes(2 * BLOCK)
MANIFEST, SIGNATURE = "manifest.json", "manifest.json.sig"
MAX_MANIFEST, MAX_SIGNATURE = 128 << 20, 64 << 10  # bytes


_REST = (b"0" + bytes(100) + b"ustar\x0000").ljust(BLOCK - 156, b"\0")  # of a header, from the type on: a regular file
_REST_SUM = sum(_REST)


class Source(Protocol):
    """A stream from which a bundle is read."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; b"" at the end."""


class Target(Protocol):
    """A stream to which a bundle is written."""

    def write(self, data: bytes, /) -> object:
        """Write all bytes."""


def header(name: str, size: int) -> bytes:
    """Return the tar header (ustar) of a regular file; only name and size vary. Raises BadBundle if one of them does not fit."""
    encoded = name.encode("ascii", "replace")
    if len(encoded) > 99 or not 0 <= size < 8**11:
        raise BadBundle(reason=f"the name or size of {name} does not fit into a tar header")
    numbers = b"%07o\0%07o\0%07o\0%011o\0%011o\0        " % (0o644, 0, 0, size, 0)
    fields = encoded.ljust(100, b"\0") + numbers
    return b"%b%06o\0 %b" % (fields[:148], sum(fields) + _REST_SUM, _REST)


def write_member(target: Target, name: str, data: bytes) -> None:
    """Write a member from memory."""
    write_stream(target, name, len(data), iter((data,)))


def write_stream(target: Target, name: str, size: int, pieces: Iterator[bytes]) -> None:
    """Write a member from pieces whose total size is `size` bytes."""
    target.write(header(name, size))
    for piece in pieces:
        target.write(piece)
    target.write(bytes(-size % BLOCK))


def blob_name(digest: str) -> str:
    """Return the name of the member whose content has this SHA-256."""
    return f"blobs/{digest}"


def pack_name(root: int) -> str:
    """Return the name of the member with the commits of a root's repository."""
    return f"git-{root}.pack"


def log_name(log: str) -> str:
    """Return the name of the member with a log."""
    return f"log/{log}.jsonl"


class ArchiveReader:
    """Reads the members of a bundle in order, and not more bytes than they declare. Every method raises BadBundle."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def first(self, name: str, limit: int) -> bytes:
        """Return a member whose size is known only from its header."""
        size = _declared_size(self._exactly(BLOCK), name)
        if size > limit:
            raise BadBundle(reason=f"its {name} is larger than {limit >> 10} KiB")
        return self._content(size, -size % BLOCK)

    def signature(self) -> tuple[bytes, bytes]:
        """Return the signature, b"" for none, and the header of the next member, which was read with it."""
        block = self._exactly(BLOCK)
        if block[: len(SIGNATURE) + 1] != SIGNATURE.encode() + b"\0":
            return b"", block
        size = _declared_size(block, SIGNATURE)
        if not 0 < size <= MAX_SIGNATURE:
            raise BadBundle(reason="its signature is too large")
        return self._content(size, -size % BLOCK), self._exactly(BLOCK)

    def member(self, name: str, size: int, digest: str, write: Callable[[bytes], object], block: bytes = b"") -> None:
        """Read the next member, which must have this name, size and SHA-256. `block`: its header, if it was read already."""
        if (block or self._exactly(BLOCK)) != header(name, size):
            raise BadBundle(reason=f"{name} is missing, or not in the order of the manifest")
        seen, left = hashlib.sha256(), size
        while left > CHUNK:
            piece = self._some(CHUNK)
            left -= len(piece)
            seen.update(piece)
            write(piece)
        if piece := self._content(left, -size % BLOCK):  # in one read, since most files are small
            seen.update(piece)
            write(piece)
        if seen.hexdigest() != digest:
            raise BadBundle(reason=f"the content of {name} does not match the manifest")

    def end(self, block: bytes = b"") -> None:
        """Read the end of the archive; no data may follow."""
        if (block or self._exactly(BLOCK)) + self._exactly(BLOCK) != END or self._source.read(1):
            raise BadBundle(reason="it contains data that its manifest does not list")

    def _content(self, size: int, padding: int) -> bytes:
        data = self._exactly(size + padding)
        if data[size:] != END[:padding]:
            raise BadBundle(reason="there is data between two files")
        return data[:size]

    def _exactly(self, size: int) -> bytes:
        if not size:
            return b""
        piece = self._some(min(size, CHUNK))
        if len(piece) == size:
            return piece
        pieces, left = [piece], size - len(piece)
        while left:
            piece = self._some(min(left, CHUNK))
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _some(self, size: int) -> bytes:
        piece = self._source.read(size)
        if not piece:
            raise BadBundle(reason="it is incomplete")
        return piece


def _declared_size(block: bytes, name: str) -> int:
    """Return the size in a header, which must otherwise be as expected. Raises BadBundle."""
    try:
        size = int(block[124:135], 8)
    except ValueError:
        size = -1
    if size < 0 or block != header(name, size):
        raise BadBundle(reason="it is not a bundle of agent-dev" if name == MANIFEST else f"{name} is damaged")
    return size
