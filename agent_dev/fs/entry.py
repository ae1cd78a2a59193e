"""Entries of a file tree, as values."""

from enum import StrEnum
from typing import NamedTuple

from agent_dev.quick_dataclass import dataclass

LONGEST_PATH = 4096  # bytes (PATH_MAX): deeper entries cannot be opened by path and are not read
TOO_DEEP = f"paths below it are longer than {LONGEST_PATH} bytes; its content is not read and not"  # "merged", "kept"
_MANY = 4096
# Integers that entries share: all modes, and the sizes of small files. 100,000 entries take 3 MB less memory for each.
MODES = tuple(range(0o10000))
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


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry on the disk. Times in ns, `mode` the lower 12 bits, `target` a symlink's, as bytes.

    `attributes` are the `user.*` extended attributes, sorted, without the overlay's.
    """

    type: FileType
    mode: int = 0o644
    size: int = 0
    inode: int = 0
    mtime: int = 0
    ctime: int = 0
    links: int = 1
    target: bytes = b""
    attributes: tuple[tuple[str, bytes], ...] = ()

    @property
    def identity(self) -> tuple[str, int, int, int, int]:
        """Return the values that stay the same as long as an entry is untouched (decision 0006)."""
        return (self.type, self.inode, self.size, self.mtime, self.ctime)


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


def shared_size(size: int) -> int:
    """Return the same size; a small one as the integer that entries share."""
    return MODES[size] if 0 <= size < 0o10000 else size


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
