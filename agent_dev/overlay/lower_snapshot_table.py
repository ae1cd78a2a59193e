"""A lower snapshot as bytes, one column per field: of tens of thousands of paths, only the requested ones are decoded."""

import os
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from agent_dev.fs import fast_json
from agent_dev.fs.entry import TYPE_BY_CODE, number_columns
from agent_dev.overlay import raw_json
from agent_dev.overlay.lower_snapshot_row import (
    ATTRIBUTES,
    CTIME,
    INODE,
    KIND,
    PATH,
    SIZE,
    STORED,
    TARGET,
    RecordedPath,
    Row,
    row_of,
)

if TYPE_CHECKING:
    from typing import Literal

    _Code = Literal["I", "q", "Q"]

# Type codes of `array` for mode to links; their sizes are the same on every platform.
_NUMBERS: "tuple[_Code, ...]" = ("I", "Q", "Q", "q", "q", "Q")
_FIRST = 2  # index of the first number in a row
_FILE, _LINK = "file", "symlink"
_NAMES = re.compile(rb"[^\0]+")  # in a column of paths
_BATCH = 5000  # rows that are packed at once
_MAX_SEARCHES = 8  # of paths, before an index is made, which takes as long as a dozen and needs 170 bytes for each path


def pack(recorded: Iterable[RecordedPath]) -> tuple[dict[str, object], list[bytes]]:
    """Pack recorded paths, while they are read, into a JSON header and columns of bytes.

    The header has the rows of the few that do not fit: with attributes, with unknown ones, with a number beyond 64 bits.
    """
    columns, left = _Columns(), iter(recorded)
    while batch := list(islice(left, _BATCH)):
        columns.add(batch)
    return columns.packed()


class _Columns:
    """Recorded paths by column: 110 bytes for each instead of 500."""

    def __init__(self) -> None:
        self._unpackable: list[Row] = []  # of those that do not fit
        self._paths: list[bytes] = []  # of a batch, joined
        self._targets: list[bytes] = []
        self._kinds: list[bytes] = []
        self._numbers = [array(code) for code in _NUMBERS]
        self._places: list[str] = []

    def add(self, recorded: Sequence[RecordedPath]) -> None:
        """Add some."""
        usual = [one for one in recorded if one[3] and one[1].fits_columns]
        if len(usual) < len(recorded):
            known = set(map(id, usual))
            self._unpackable += [row_of(*one) for one in recorded if id(one) not in known]
        if not usual:
            return
        paths, entries, places, _ = zip(*usual, strict=True)
        kinds, inodes, sizes, mtimes, ctimes, modes, links = number_columns(entries)
        for column, more in zip(self._numbers, (modes, sizes, inodes, mtimes, ctimes, links), strict=True):
            column.extend(more)
        self._kinds.append(bytes(kinds))
        self._paths.append(b"\0".join(paths))
        self._targets.append(b"\0".join([one.target for one in entries]))
        self._places += places

    def packed(self) -> tuple[dict[str, object], list[bytes]]:
        """Return the header and the columns."""
        width = max(map(len, self._places), default=0)
        columns = [
            b"\0".join(self._paths),
            b"".join(self._kinds),
            *(column.tobytes() for column in self._numbers),
            b"\0".join(self._targets),
            "".join([place.ljust(width, "\0") for place in self._places]).encode("ascii"),
        ]
        sizes, count = [len(one) for one in columns], len(self._places)
        header = {"width": width, "count": count, "kinds": [*TYPE_BY_CODE], "sizes": sizes, "odd": self._unpackable}
        return header | {"attributes": True}, columns


class Table:
    """The rows of one root by path. `override` overrides some of them."""

    def __init__(self, header: Mapping[str, Any], columns: Sequence[memoryview]) -> None:
        """Wrap columns without copying. Raises ValueError if their lengths differ."""
        self._kinds: list[str] = header["kinds"]
        self._columns, self._width = columns, header["width"]
        self._knows_attributes: bool = header.get("attributes", False)  # the rows in columns have none
        self._numbers = [columns[_FIRST + place].cast(code) for place, code in enumerate(_NUMBERS)]
        self._count: int = header["count"]
        self._targets: list[bytes] | None = None
        self._places: dict[bytes, int] | None = None  # of the paths in the columns
        self._text: bytes | None = None  # the paths, with a NUL on both sides of each
        self._found: dict[bytes, int | None] = {}  # the places of paths that were searched without an index
        self._rows: dict[bytes, Row | bytes] = {os.fsencode(str(row[PATH])): row for row in header["odd"]}
        self._hidden: set[bytes] = set()  # paths that were overridden: their rows in the columns do not count
        if any(len(one) != self._count for one in (columns[KIND], *self._numbers)):
            raise ValueError("columns have different lengths")

    @property
    def _at(self) -> dict[bytes, int]:
        """The places of paths in the columns."""
        if self._places is None:
            self._text = None
            paths = self._split(PATH) if self._count else []
            self._places = dict(zip(paths, range(self._count), strict=True))
            for path in self._hidden:
                self._places.pop(path, None)
        return self._places

    def _place(self, path: bytes) -> int | None:
        """Return the place of a path in the columns; None if it has none."""
        if path in self._hidden:
            return None
        if self._places is None:
            if path in self._found:
                return self._found[path]
            if len(self._found) < _MAX_SEARCHES:
                found = self._found[path] = self._search(path)
                return found
        return self._at.get(path)

    def _search(self, path: bytes) -> int | None:
        if not self._count:
            return None
        if self._text is None:
            self._text = b"\0%b\0" % bytes(self._columns[PATH])
        found = self._text.find(b"\0%b\0" % path)
        return self._text.count(b"\0", 0, found) if found >= 0 else None

    def release_index(self) -> None:
        """Free the memory of what finds paths: a later search makes it again."""
        self._places = self._targets = self._text = None
        self._found = {}

    def _split(self, column: int) -> list[bytes]:
        return bytes(self._columns[column]).split(b"\0")

    def _target(self, at: int) -> bytes:
        if self._targets is None:
            self._targets = self._split(TARGET)
        return self._targets[at]

    def __contains__(self, path: object) -> bool:
        return path in self._rows or (isinstance(path, bytes) and self._place(path) is not None)

    def existing(self, paths: Collection[bytes]) -> set[bytes]:
        """Return those of some paths that have a row, without an index if there is none yet."""
        if self._places is not None:
            return {path for path in paths if path in self}
        found = {path for path in paths if path in self._rows}
        others = {path for path in paths if path not in self._hidden}
        return found.union(others.intersection(match.group() for match in _NAMES.finditer(self._columns[PATH])))

    def __iter__(self) -> Iterator[bytes]:
        yield from self._at
        yield from self._rows

    def __len__(self) -> int:
        return len(self._at) + len(self._rows)

    def row(self, path: bytes) -> Row:
        """Return the row of a path. Raises KeyError."""
        at = self._place(path)
        if at is None:
            return _decoded(self._rows[path])
        numbers = [one[at] for one in self._numbers]
        target = os.fsdecode(self._target(at))
        kind = self._kinds[self._columns[KIND][at]]
        return [os.fsdecode(path), kind, *numbers, target, self.content_location(path), *([[]] if self._knows_attributes else ())]

    def fields(self, path: bytes) -> tuple[str, tuple[int, ...], bytes] | None:
        """Return the type, the numbers and the target of a row in columns, in half the time of `row`; None for another path."""
        at = self._place(path)
        if at is None:
            return None
        mode, size, inode, mtime, ctime, links = self._numbers  # one by one: a loop takes twice as long
        numbers = (mode[at], size[at], inode[at], mtime[at], ctime[at], links[at])
        return self._kinds[self._columns[KIND][at]], numbers, self._target(at)

    def knows_attributes(self, path: bytes) -> bool:
        """Return whether the row of a path has its extended attributes."""
        if path in self._rows:
            return len(self.row(path)) > ATTRIBUTES
        return self._knows_attributes and self._place(path) is not None

    def links(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the paths and targets of symbolic links."""
        if _LINK in self._kinds:
            link = self._kinds.index(_LINK)
            found = [at for at, kind in enumerate(self._columns[KIND]) if kind == link]
            yield from ((path, self._target(at)) for path, at in self._named(found))
        yield from ((path, os.fsencode(str(row[TARGET]))) for path, row in self._own_rows() if row[KIND] == _LINK)

    def files_of_sizes(self, sizes: Collection[int]) -> Iterator[tuple[bytes, int]]:
        """Yield the paths and sizes of regular files of some sizes."""
        if _FILE in self._kinds:
            file, kinds, column = self._kinds.index(_FILE), self._columns[KIND], self._numbers[SIZE - _FIRST]
            found = [at for at, size in enumerate(column) if size in sizes and kinds[at] == file]
            yield from ((path, column[at]) for path, at in self._named(found))
        for path, row in self._own_rows():
            size = row[SIZE]
            if row[KIND] == _FILE and isinstance(size, int) and size in sizes:
                yield path, size

    def stored_paths(self) -> Iterator[bytes]:
        """Yield the paths whose content the snapshot stores itself: few, so no path is searched."""
        places, width = self._columns[STORED], self._width
        stored = [at for at in range(self._count) if places[at * width] not in b"\0@"] if width else []
        yield from (path for path, _ in self._named(stored))
        yield from (path for path, row in self._own_rows() if str(row[STORED])[:1] not in ("", "@"))

    def _named(self, places: Sequence[int]) -> Iterator[tuple[bytes, int]]:
        """Yield the paths at some places in the columns, and the places."""
        paths = self._split(PATH) if places else []
        return ((paths[at], at) for at in places if paths[at] not in self._hidden)

    def content_location(self, path: bytes) -> str:
        """Return the content location of a path; "" if there is none or the path is unknown."""
        at = self._place(path)
        if at is None:
            return str(self.row(path)[STORED]) if path in self._rows else ""
        return bytes(self._columns[STORED][at * self._width : (at + 1) * self._width]).rstrip(b"\0").decode("ascii")

    def _own_rows(self) -> Iterator[tuple[bytes, Row]]:
        """Yield the rows that are not in columns."""
        return ((path, _decoded(row)) for path, row in self._rows.items())

    def differing_paths(self, other: "Table") -> Iterator[bytes]:
        """Yield the paths whose row another table does not have, or has with another inode or ctime, as any change causes."""
        known = set(map(hash, other.identities()))  # of hundreds of thousands, the tuples would take four times the memory
        yield from (one[0] for one in self.identities() if hash(one) not in known)

    def identities(self) -> Iterator[tuple[bytes, object, object]]:
        """Yield the path, the inode and the ctime of each row."""
        if self._count:
            rows = zip(self._split(PATH), self._numbers[INODE - _FIRST], self._numbers[CTIME - _FIRST], strict=True)
            yield from (one for one in rows if one[0] not in self._hidden)
        yield from ((path, row[INODE], row[CTIME]) for path, row in self._own_rows())

    def override(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Override the rows of some paths, given as JSON; null removes a path."""
        self.release_index()
        for name, row in rows:
            path = os.fsencode(name)
            self._hidden.add(path)
            self._rows.pop(path, None)
            if row != raw_json.NULL:
                self._rows[path] = row


def _decoded(row: Row | bytes) -> Row:
    """Return a row; those of merges are decoded when they are read."""
    decoded: Any = fast_json.loads(row) if isinstance(row, bytes) else row
    return decoded  # type: ignore[no-any-return]


def unpack(header: Mapping[str, Any], data: memoryview) -> tuple[Table, memoryview]:
    """Unpack the table at the start of `data`; return it and the remaining bytes. Raises ValueError if `data` is too short."""
    columns, at = [], 0
    for size in header["sizes"]:
        columns.append(data[at : at + size])
        at += size
    if at > len(data):
        raise ValueError("truncated table")
    return Table(header, columns), data[at:]


def table_of(recorded: Iterable[RecordedPath]) -> Table:
    """Return recorded paths as a table."""
    header, columns = pack(recorded)
    return unpack(header, memoryview(b"".join(columns)))[0]
