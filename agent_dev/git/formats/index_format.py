"""Parser for git's index (git: Documentation/gitformat-index.txt): versions 2 to 4, SHA-1 and SHA-256, split indexes."""

import struct
from collections.abc import Callable, Generator, Iterator

from agent_dev.quick_dataclass import dataclass, replace

GITLINK = 0o160000
_EXTENDED = 0x4000  # a second word of flags follows
_SKIP_WORKTREE = 0x4000  # in the second word of flags


class IndexUnreadableError(ValueError):
    """The bytes are not an index, or of an unsupported version."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A path's entry: git's last stat data. Times in ns; `inode` is cut to 32 bits, as git does."""

    path: bytes
    oid: bytes
    mode: int
    size: int
    inode: int
    mtime: int
    ctime: int
    is_skipped: bool = False  # skip-worktree: the file may be missing (sparse checkout)


_Staged = tuple[IndexEntry, int]  # an entry and its stage


def parse_index(data: bytes, oid_size: int = 20) -> Iterator[IndexEntry]:
    """Yield the entries of stage 0, in order; of a split index only its own. Raises IndexUnreadableError."""
    return (one for one, stage in _entries(data, oid_size) if not stage)


def parse_split_index(data: bytes, oid_size: int, shared: Callable[[str], bytes]) -> Iterator[IndexEntry]:
    """Return the entries of stage 0, for a split index merged with its shared index.

    `shared` returns the bytes of `sharedindex.NAME` for a name in hex. Raises IndexUnreadableError.
    """
    own, end = _read(data, oid_size)
    link = _extension(data[: len(data) - oid_size], end, b"link")
    if link is None or not any(link[:oid_size]):
        return (one for one, stage in own if not stage)
    shared_entries, _ = _read(shared(link[:oid_size].hex()), oid_size)
    return (one for one, stage in _merge_shared(own, shared_entries, link[oid_size:]) if not stage)


def _merge_shared(own: list[_Staged], shared: list[_Staged], bitmaps: bytes) -> Iterator[_Staged]:
    """Merge a split index into the shared one: first come replacing entries (without names), then new ones."""
    deleted, offset = _read_bitmap(bitmaps, 0, len(shared)) if bitmaps else ([], 0)
    replaced, _ = _read_bitmap(bitmaps, offset, len(shared)) if bitmaps else ([], 0)
    if len(replaced) > len(own):
        raise IndexUnreadableError("a split index replaces more entries than it holds")
    new = own[len(replaced) :]
    table = dict(enumerate(shared))
    for position, (one, stage) in zip(replaced, own, strict=False):
        table[position] = (replace(one, path=shared[position][0].path), stage)
    hidden = {(one.path, stage) for one, stage in new}
    for position in deleted:
        table.pop(position, None)
    yield from (one for one in table.values() if (one[0].path, one[1]) not in hidden)
    yield from new


def _extension(data: bytes, position: int, name: bytes) -> bytes | None:
    while position + 8 <= len(data):
        size = int.from_bytes(data[position + 4 : position + 8], "big")
        if data[position : position + 4] == name:
            return data[position + 8 : position + 8 + size]
        position += 8 + size
    return None


def _read_bitmap(data: bytes, position: int, limit: int) -> tuple[list[int], int]:
    """Return the positions below `limit` of an EWAH bitmap's set bits (git: ewah/ewok_rlw.h), and its end."""
    found: list[int] = []
    try:
        _, count = struct.unpack_from(">II", data, position)
        words = struct.unpack_from(f">{count}Q", data, position + 8)
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
    return found, position + 8 + 8 * count + 4


def _read(data: bytes, oid_size: int) -> tuple[list[_Staged], int]:
    """Return all entries and the position after them."""
    found: list[_Staged] = []
    entries = _entries(data, oid_size)
    while True:
        try:
            found.append(next(entries))
        except StopIteration as end:
            return found, end.value


def _entries(data: bytes, oid_size: int) -> Generator[_Staged, None, int]:
    """Yield all entries; return the position after them."""
    if len(data) < 12 or data[:4] != b"DIRC":
        raise IndexUnreadableError("not an index")
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if version not in (2, 3, 4):
        raise IndexUnreadableError(f"index version {version}")
    fields = struct.Struct(f">10I{oid_size}sH")
    position, path = 12, b""
    try:
        for _ in range(count):
            start = position
            ctime, ctime_nanos, mtime, mtime_nanos, _, inode, mode, _, _, size, oid, flags = fields.unpack_from(data, position)
            position += fields.size
            is_skipped = False
            if flags & _EXTENDED and version >= 3:
                is_skipped = bool(int.from_bytes(data[position : position + 2], "big") & _SKIP_WORKTREE)
                position += 2
            path, position = _path_v4(data, position, path) if version == 4 else _path(data, position, start)
            times = mtime * 10**9 + mtime_nanos, ctime * 10**9 + ctime_nanos
            yield IndexEntry(path, oid, mode, size, inode, *times, is_skipped), flags >> 12 & 3
    except (IndexError, ValueError, struct.error) as error:
        raise IndexUnreadableError(str(error)) from error
    return position


def _path(data: bytes, position: int, start: int) -> tuple[bytes, int]:
    end = data.index(b"\0", position)
    return data[position:end], start + ((end - start) + 8) // 8 * 8


def _path_v4(data: bytes, position: int, previous: bytes) -> tuple[bytes, int]:
    byte = data[position]
    position += 1
    strip = byte & 127
    while byte & 128:
        byte = data[position]
        position += 1
        strip = ((strip + 1) << 7) | (byte & 127)
    if strip > len(previous):
        raise ValueError("a name reuses more than the whole previous name")
    end = data.index(b"\0", position)
    return previous[: len(previous) - strip] + data[position:end], end + 1
