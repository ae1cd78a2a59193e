"""Entries of a file tree, as values."""

import marshal
from collections.abc import Iterable
from enum import StrEnum
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple, Self

from agent_dev.packed import Packed
from agent_dev.quick_dataclass import dataclass

LONGEST_PATH = 4096  # bytes (PATH_MAX): deeper entries cannot be opened by path and are not read
TOO_DEEP = f"paths below it are longer than {LONGEST_PATH} bytes; its content is not read and not"  # "merged", "kept"
_MANY = 4096
_known: dict[bytes, tuple[bytes, ...]] = {}  # a directory → it and its parents, outermost first
HARMLESS_OVERLAY_ATTRIBUTES = frozenset(("origin", "impure", "uuid", "nlink", "upper", "protattr"))


class FileType(StrEnum):
    """The type of an entry."""

    FILE = "file"
    DIRECTORY = "dir"
    SYMLINK = "symlink"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"


TYPE_BY_CODE = tuple(FileType)
_CODES = {kind: code for code, kind in enumerate(TYPE_BY_CODE)}
_LAYOUT = Struct("<BQQqqHI")  # type, inode, size, mtime, ctime, mode, links
_INODE, _SIZE, _MTIME, _CTIME, _MODE, _LINKS = 1, 9, 17, 25, 33, 35  # offsets
_END = _LAYOUT.size
_TIMES = 1 << 64  # those that fit into the layout: about the years 1677 to 2262
_DETERMINISTIC = 0  # marshal's version: later ones depend on which values are shared
_STAT_NUMBERS = Struct("<QQqq")  # from the inode to the ctime
_UINT16, _UINT32, _UINT64, _INT64 = Struct("<H"), Struct("<I"), Struct("<Q"), Struct("<q")


class Entry(Packed):
    """An entry on the disk. Times in ns, `mode` the lower 12 bits, `target` a symlink's, as bytes.

    `attributes` are the `user.*` extended attributes, sorted, without the overlay's.

    The values are packed: a merge of 100,000 changes has 500,000 entries, which take 96 bytes each instead of 200.
    A target, attributes, and times outside the years 1677 to 2262 follow the others.
    Raises ValueError for values that no entry has.
    """

    __slots__ = ()
    FIELDS = ("type", "mode", "size", "inode", "mtime", "ctime", "links", "target", "attributes")

    def __new__(  # noqa: PLR0913, PLR0917
        cls,
        type: FileType,  # noqa: A002
        mode: int = 0o644,
        size: int = 0,
        inode: int = 0,
        mtime: int = 0,
        ctime: int = 0,
        links: int = 1,
        target: bytes = b"",
        attributes: tuple[tuple[str, bytes], ...] = (),
    ) -> Self:
        """Pack the values."""
        times: tuple[int, ...] = ()
        try:
            packed = _LAYOUT.pack(_CODES[type], inode, size, mtime, ctime, mode, links)
        except StructError:
            times = mtime, ctime
            try:
                packed = _LAYOUT.pack(_CODES[type], inode, size, *map(_wrapped, times), mode, links)
            except (StructError, TypeError) as error:
                raise ValueError(f"no entry has these values: {error}") from error
        rest = marshal.dumps((target, attributes, *times), _DETERMINISTIC) if target or attributes or times else b""
        return super().__new__(cls, packed + rest)

    @property
    def type(self) -> FileType:
        """The type."""
        return TYPE_BY_CODE[self[0]]

    @property
    def mode(self) -> int:
        """The permission bits, with the set-user-ID, set-group-ID and sticky bits."""
        mode: int = _UINT16.unpack_from(self, _MODE)[0]
        return mode

    @property
    def size(self) -> int:
        """The size in bytes."""
        size: int = _UINT64.unpack_from(self, _SIZE)[0]
        return size

    @property
    def inode(self) -> int:
        """The inode number."""
        inode: int = _UINT64.unpack_from(self, _INODE)[0]
        return inode

    @property
    def mtime(self) -> int:
        """The time of the last write, in ns since 1970."""
        return self._time(_MTIME, 2)

    @property
    def ctime(self) -> int:
        """The time of the last change of the inode, in ns since 1970."""
        return self._time(_CTIME, 3)

    @property
    def stat_numbers(self) -> tuple[int, int, int, int]:
        """The inode, size, mtime and ctime, in a third of the time that it takes to get one after the other."""
        if len(self) == _END:
            return _STAT_NUMBERS.unpack_from(self, _INODE)
        return self.inode, self.size, self.mtime, self.ctime

    @property
    def links(self) -> int:
        """The number of hard links."""
        links: int = _UINT32.unpack_from(self, _LINKS)[0]
        return links

    @property
    def target(self) -> bytes:
        """The path in a symlink, else empty."""
        target: bytes = self._rest()[0] if len(self) > _END else b""
        return target

    @property
    def attributes(self) -> tuple[tuple[str, bytes], ...]:
        """The extended attributes."""
        attributes: tuple[tuple[str, bytes], ...] = self._rest()[1] if len(self) > _END else ()
        return attributes

    def _time(self, offset: int, index: int) -> int:
        if len(self) > _END and len(rest := self._rest()) > index:
            return int(rest[index])
        time: int = _INT64.unpack_from(self, offset)[0]
        return time

    def _rest(self) -> tuple[Any, ...]:
        """Return the target, the attributes, and times that do not fit."""
        rest: tuple[Any, ...] = marshal.loads(self[_END:])  # noqa: S302  (made by `__new__`)
        return rest

    @property
    def is_plain(self) -> bool:
        """True for one link, no target and no attributes: the usual entry."""
        return self.endswith(_ONE_LINK, _LINKS) and len(self) == _END

    @property
    def fits_columns(self) -> bool:
        """True if `number_columns` and the target are all of it: without attributes, with times in the layout's range."""
        return len(self) == _END or self._rest() == (self.target, ())

    @property
    def identity(self) -> bytes:
        """The values that stay the same as long as an entry is untouched: all but mode and links (decision 0006)."""
        return self[:_MODE] if len(self) == _END else self[:_MODE] + _far_times(self.mtime, self.ctime)

    @property
    def content_identity(self) -> bytes:
        """Its type, inode, size and mtime, which a rename leaves as they are."""
        return self[:_CTIME] if len(self) == _END else self[:_CTIME] + _far_times(self.mtime)

    @property
    def inode_identity(self) -> bytes:
        """Its type and inode."""
        return self[:_SIZE]

    def matches(self, found: "Entry | None") -> bool:
        """Return whether this is the found entry, even if that was renamed."""
        if found is None or found.inode_identity != self.inode_identity:
            return False
        return self.type is not FileType.FILE or found.content_identity == self.content_identity

    def matches_unmoved(self, found: "Entry | None") -> bool:
        """Return whether this is the found entry, neither changed nor renamed."""
        return self.matches(found) and found is not None and (self.type is FileType.DIRECTORY or found.ctime == self.ctime)

    def is_same_unchanged(self, other: "Entry") -> bool:
        """Return whether two entries are one unchanged entry; a directory is only compared by inode and mode."""
        if self.type is FileType.DIRECTORY:
            return other.inode_identity == self.inode_identity and other.mode == self.mode
        return other.identity == self.identity


def number_columns(entries: Iterable[Entry]) -> list[tuple[int, ...]]:
    """Return the numbers of some entries by field: type (an index of `TYPE_BY_CODE`), inode, size, mtime, ctime, mode, links."""
    return list(zip(*_LAYOUT.iter_unpack(b"".join([one[:_END] for one in entries])), strict=True))


def _wrapped(time: int) -> int:
    return (time + _TIMES // 2) % _TIMES - _TIMES // 2


def _far_times(*times: int) -> bytes:
    """Return what tells times that do not fit from those that were packed in their place; nothing for others."""
    return b"".join(b" %d" % time for time in times if time != _wrapped(time))


_ONE_LINK = _UINT32.pack(1)


class Key(NamedTuple):
    """A path in one of a session's roots; `path` is relative, `/`-separated, raw bytes.

    A tuple for speed: 100,000 changes need two million lookups of keys, and a tuple hashes four times as fast.
    """

    root: int
    path: bytes

    @property
    def name(self) -> bytes:
        """The last component of the path."""
        return self.path.rpartition(b"/")[2]


def parents_of(path: bytes) -> tuple[bytes, ...]:
    """Return the directories above a relative path, outermost first, without the root."""
    return _down_to(path.rpartition(b"/")[0])


def _down_to(folder: bytes) -> tuple[bytes, ...]:
    """Return a directory and those above it; the paths are shared, or a deep tree would fill the memory."""
    missing = []
    while folder and folder not in _known:
        missing.append(folder)
        folder = folder.rpartition(b"/")[0]
    found = _known[folder] if folder else ()
    for path in reversed(missing):
        if len(_known) >= _MANY:
            _known.clear()
        found = _known[path] = (*found, path)
    return found


class CorruptUpperError(ValueError):
    """An upper layer has overlay attributes that no kernel writes with our mount options: they are forged."""


@dataclass(frozen=True, slots=True)
class WalkedEntry:
    """A path of an upper layer: its entry, st_rdev, and the overlay's attributes (name without prefix, value).

    `is_too_deep`: a directory too deep for its content to be read.
    """

    path: bytes
    entry: Entry
    device: int = 0
    overlay: tuple[tuple[str, bytes], ...] = ()
    uid: int = 0
    gid: int = 0
    is_too_deep: bool = False

    def is_whiteout(self) -> bool:
        """Return whether this is an overlay whiteout, that is, a deletion."""
        return self.entry.type is FileType.DEVICE and self.device == 0

    def is_opaque(self) -> bool:
        """Return whether this directory hides the lower one. Raises CorruptUpperError for a forged attribute."""
        opaque = False
        for name, value in self.overlay:
            if name == "opaque" and value == b"y" and self.entry.type is FileType.DIRECTORY:
                opaque = True
            elif name not in HARMLESS_OVERLAY_ATTRIBUTES and not name.startswith("overlay."):
                raise CorruptUpperError(f"{self.path!r} carries the overlay attribute {name}={value!r}")
        return opaque
