"""Git's index as bytes → entries (git: Documentation/gitformat-index.txt): versions 2 to 4, SHA-1 and SHA-256."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

GITLINK = 0o160000
_STAT = struct.Struct(">10I")


class IndexUnreadableError(ValueError):
    """The bytes are no index, or of a kind that cannot be read entry by entry."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What git recorded of a path when it last looked. Times in ns; `inode` is cut to 32 bits, as git does."""

    path: bytes
    oid: bytes
    mode: int
    size: int
    inode: int
    mtime: int
    ctime: int


def parse(data: bytes, oid_size: int = 20) -> Iterator[IndexEntry]:
    """Yield the entries of stage 0, in order. A split index yields its own entries only. Raises IndexUnreadableError."""
    if len(data) < 12 or data[:4] != b"DIRC":
        raise IndexUnreadableError("no index")
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if version not in (2, 3, 4):
        raise IndexUnreadableError(f"index version {version}")
    at, path = 12, b""
    try:
        for _ in range(count):
            start = at
            seconds, nanos, mtime, mtime_nanos, _, inode, mode, _, _, size = _STAT.unpack_from(data, at)
            oid = data[at + 40 : at + 40 + oid_size]
            at += 40 + oid_size
            bits = int.from_bytes(data[at : at + 2], "big")
            at += 4 if bits & 0x4000 and version >= 3 else 2
            path, at = _path_v4(data, at, path) if version == 4 else _path(data, at, start)
            if not bits & 0x3000:
                stamp = (mtime * 10**9 + mtime_nanos, seconds * 10**9 + nanos)
                yield IndexEntry(path, oid, mode, size, inode, *stamp)
    except (IndexError, ValueError, struct.error) as error:
        raise IndexUnreadableError(str(error)) from error


def _path(data: bytes, at: int, start: int) -> tuple[bytes, int]:
    end = data.index(b"\0", at)
    return data[at:end], start + ((end - start) + 8) // 8 * 8


def _path_v4(data: bytes, at: int, before: bytes) -> tuple[bytes, int]:
    byte = data[at]
    at += 1
    strip = byte & 127
    while byte & 128:
        byte = data[at]
        at += 1
        strip = ((strip + 1) << 7) | (byte & 127)
    if strip > len(before):
        raise ValueError("a name takes more from the one before it than that has")
    end = data.index(b"\0", at)
    return before[: len(before) - strip] + data[at:end], end + 1
