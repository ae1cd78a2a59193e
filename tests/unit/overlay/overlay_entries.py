"""Short constructors for entries of an upper and of a base."""

from agent_dev.fs.entry import Entry, FileType, Key, WalkedEntry
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.interpret import interpret

FILE, DIR, SYMLINK = FileType.FILE, FileType.DIRECTORY, FileType.SYMLINK
FIFO, SOCKET, DEVICE = FileType.FIFO, FileType.SOCKET, FileType.DEVICE
ADDED, EDITED, DELETED, RETYPED, METADATA = (
    ChangeKind.ADDED,
    ChangeKind.EDITED,
    ChangeKind.DELETED,
    ChangeKind.RETYPED,
    ChangeKind.METADATA,
)

WHITEOUT, OPAQUE, NOTHING = "whiteout", "opaque dir", "nothing"
LIVING = (FILE, DIR, SYMLINK, FIFO, SOCKET, DEVICE)


def found(path: bytes, kind: FileType | str, **more: object) -> WalkedEntry:
    """Return an entry of an upper. A device that is not overlayfs's own has a number."""
    if kind == WHITEOUT:
        return WalkedEntry(path, Entry(DEVICE, 0))
    if kind == OPAQUE:
        return WalkedEntry(path, Entry(DIR, 0o755), overlay=(("opaque", b"y"),))
    entry = entry_of(FileType(kind))
    return WalkedEntry(path, entry.with_values(**more), device=259 if kind == DEVICE else 0)


def entry_of(kind: FileType) -> Entry:
    return Entry(kind, 0o755 if kind is DIR else 0o644, target=b"there" if kind is SYMLINK else b"")


def base_of(**kinds: FileType) -> dict[bytes, Entry]:
    return {name.encode(): entry_of(kind) for name, kind in kinds.items()}


def read(upper: list[WalkedEntry], base: dict[bytes, Entry], same: frozenset[bytes] = frozenset()) -> dict[bytes, ChangeKind]:
    return {change.key.path: change.kind for change in interpret(0, upper, base, same)}


def change(before: Entry | None, after: Entry | None) -> Change:
    kind = ADDED if before is None else DELETED if after is None else EDITED
    return Change(Key(0, b"d/x"), kind, before, after)
