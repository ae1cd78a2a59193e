"""Git's index as bytes → entries (git: Documentation/gitformat-index.txt): versions 2 to 4, SHA-1 and SHA-256, split ones."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

GITLINK = 0o160000
_SKIP_WORKTREE = 0x4000  # in the second word of flags
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
    is_skipped: bool = False  # skip-worktree: nothing has to stand there (sparse checkouts)


_Staged = tuple[IndexEntry, int]  # an entry and its stage


def parse(data: bytes, oid_size: int = 20) -> Iterator[IndexEntry]:
    """Yield the entries of stage 0, in order. A split index yields its own entries only. Raises IndexUnreadableError."""
    entries, _ = _read(data, oid_size)
    return (one for one, stage in entries if not stage)


def parse_whole(data: bytes, oid_size: int, shared: Callable[[str], bytes]) -> Iterator[IndexEntry]:
    """Yield the entries of stage 0, of a split index with those of the shared one below it.

    `shared` returns the bytes of `sharedindex.NAME` for a name in hex. Raises IndexUnreadableError.
    """
    own, end = _read(data, oid_size)
    link = _extension(data[: len(data) - oid_size], end, b"link")
    if link is None or not any(link[:oid_size]):
        return (one for one, stage in own if not stage)
    below, _ = _read(shared(link[:oid_size].hex()), oid_size)
    return (one for one, stage in _laid_over(own, below, link[oid_size:]) if not stage)


def _laid_over(own: list[_Staged], below: list[_Staged], bitmaps: bytes) -> Iterator[_Staged]:
    """Lay a split index's entries over the shared ones: first those that replace (they carry no name), then new ones."""
    gone, at = _positions(bitmaps, 0, len(below)) if bitmaps else ([], 0)
    replaced, _ = _positions(bitmaps, at, len(below)) if bitmaps else ([], 0)
    if len(replaced) > len(own):
        raise IndexUnreadableError("a split index replaces more than it holds")
    new = own[len(replaced) :]
    table = dict(enumerate(below))
    for position, (one, stage) in zip(replaced, own, strict=False):
        table[position] = (replace(one, path=below[position][0].path), stage)
    hidden = {(one.path, stage) for one, stage in new}
    for position in gone:
        table.pop(position, None)
    yield from (one for one in table.values() if (one[0].path, one[1]) not in hidden)
    yield from new


def _extension(data: bytes, at: int, name: bytes) -> bytes | None:
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        if data[at : at + 4] == name:
            return data[at + 8 : at + 8 + size]
        at += 8 + size
    return None


def _positions(data: bytes, at: int, limit: int) -> tuple[list[int], int]:
    """Return which bits below `limit` are set in a bitmap (git: ewah/ewok_rlw.h), and where it ends."""
    found: list[int] = []
    try:
        _, count = struct.unpack_from(">II", data, at)
        words = struct.unpack_from(f">{count}Q", data, at + 8)
    except struct.error as error:
        raise IndexUnreadableError(str(error)) from error
    bit, number = 0, 0
    while number < count and bit < limit:
        word = words[number]
        run, literals = (word >> 1 & 0xFFFFFFFF) * 64, word >> 33
        if word & 1:
            found += range(bit, min(bit + run, limit))
        bit += run
        for literal in words[number + 1 : number + 1 + literals]:
            found += [bit + n for n in range(64) if literal >> n & 1 and bit + n < limit]
            bit += 64
        number += 1 + literals
    return found, at + 8 + 8 * count + 4


def _read(data: bytes, oid_size: int) -> tuple[list[_Staged], int]:
    """Return all entries and where they end."""
    if len(data) < 12 or data[:4] != b"DIRC":
        raise IndexUnreadableError("no index")
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if version not in (2, 3, 4):
        raise IndexUnreadableError(f"index version {version}")
    at, path = 12, b""
    found: list[_Staged] = []
    try:
        for _ in range(count):
            start = at
            seconds, nanos, mtime, mtime_nanos, _, inode, mode, _, _, size = _STAT.unpack_from(data, at)
            oid = data[at + 40 : at + 40 + oid_size]
            at += 40 + oid_size
            bits = int.from_bytes(data[at : at + 2], "big")
            more = int.from_bytes(data[at + 2 : at + 4], "big") if bits & 0x4000 and version >= 3 else None
            at += 2 if more is None else 4
            path, at = _path_v4(data, at, path) if version == 4 else _path(data, at, start)
            stamp = (mtime * 10**9 + mtime_nanos, seconds * 10**9 + nanos)
            skipped = bool((more or 0) & _SKIP_WORKTREE)
            found.append((IndexEntry(path, oid, mode, size, inode, *stamp, is_skipped=skipped), bits >> 12 & 3))
    except (IndexError, ValueError, struct.error) as error:
        raise IndexUnreadableError(str(error)) from error
    return found, at


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
