"""A path that a lower snapshot recorded, and its row, a list for JSON."""

import os
from typing import Any

from agent_dev.fs.entry import Entry, FileType

# A path, its entry, its content location (a stored copy's name, "@store:id" of a blob, or ""), and whether the entry has its
# extended attributes.
RecordedPath = tuple[bytes, Entry, str, bool]
# path, type, mode, size, inode, mtime, ctime, links, target, content location, then extended attributes as pairs of a name and a
# value in hex; without this field they are unknown.
Row = list[object]
PATH, KIND, SIZE, INODE, CTIME, TARGET, STORED, ATTRIBUTES = 0, 1, 3, 4, 6, 8, 9, 10
TYPES = {str(kind): kind for kind in FileType}  # a lookup is five times as fast as FileType(value)


def row_of(path: bytes, entry: Entry, stored: str, has_attributes: bool = True) -> Row:  # noqa: FBT001, FBT002  (as in a RecordedPath)
    """Return the row of a recorded path."""
    target = os.fsdecode(entry.target) if entry.target else ""
    return [
        os.fsdecode(path),
        str(entry.type),
        entry.mode,
        entry.size,
        entry.inode,
        entry.mtime,
        entry.ctime,
        entry.links,
        target,
        stored,
        *([[[name, value.hex()] for name, value in entry.attributes]] if has_attributes else ()),
    ]


def entry_of(row: Row) -> Entry:
    """Return the entry of a row. Raises ValueError, TypeError or LookupError for a damaged one."""
    _, kind, mode, size, inode, mtime, ctime, links, target, _, *rest = row
    link = os.fsencode(str(target)) if target else b""
    attributes: Any = rest[0] if rest else ()
    own = tuple((str(name), bytes.fromhex(value)) for name, value in attributes)
    return Entry(TYPES[kind], mode, size, inode, mtime, ctime, links, link, own)  # type: ignore[index,arg-type]


def recorded_path(row: Row) -> RecordedPath:
    """Return the recorded path of a row. Raises as `entry_of`."""
    return os.fsencode(str(row[PATH])), entry_of(row), str(row[STORED]), len(row) > ATTRIBUTES
