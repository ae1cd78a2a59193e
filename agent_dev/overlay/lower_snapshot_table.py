"""What a root held as bytes, a column for each field: of tens of thousands of paths only those that are asked for are read."""

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Literal

    _Code = Literal["I", "q", "Q"]

Row = list[object]  # path, type, mode, size, inode, mtime, ctime, links, target, where its bytes are (base_walk.Placed)
# Type codes of `array` for mode to links; of a size that is the same wherever this runs.
_NUMBERS: "tuple[_Code, ...]" = ("I", "q", "Q", "q", "q", "Q")
_FIRST = 2  # of the numbers in a row
_PATH, _KIND, _TARGET, _STORED = 0, 1, 8, 9


def packed(rows: Sequence[Row]) -> tuple[dict[str, object], list[bytes]]:
    """Return rows as a header for JSON and columns of bytes; one with a number beyond 64 bits stands in the header as it is."""
    try:
        return _packed(rows, ())
    except OverflowError:  # of a time past the year 2262: a file system may hold it
        odd = [row for row in rows if not _fits(row)]
        return _packed([row for row in rows if _fits(row)], odd)


def _packed(rows: Sequence[Row], odd: Sequence[Row]) -> tuple[dict[str, object], list[bytes]]:
    fields: tuple[Any, ...] = tuple(zip(*rows, strict=True)) or ((),) * (_STORED + 1)
    kinds = sorted(set(fields[_KIND]))
    numbers = dict(zip(kinds, range(len(kinds)), strict=True))
    width = max(map(len, fields[_STORED]), default=0)
    columns = [
        _joined(fields[_PATH]),
        bytes(map(numbers.__getitem__, fields[_KIND])),
        *(array(code, fields[_FIRST + place]).tobytes() for place, code in enumerate(_NUMBERS)),
        _joined(fields[_TARGET]),
        "".join([place.ljust(width, "\0") for place in fields[_STORED]]).encode("ascii"),
    ]
    return {"width": width, "count": len(rows), "kinds": kinds, "sizes": [len(one) for one in columns], "odd": list(odd)}, columns


def _joined(texts: Iterable[str]) -> bytes:
    return "\0".join(texts).encode("utf-8", "surrogateescape")


def _fits(row: Row) -> bool:
    numbers: Any = row[_FIRST:_TARGET]
    try:
        [array(code, [number]) for code, number in zip(_NUMBERS, numbers, strict=True)]
    except OverflowError:
        return False
    return True


class Table:
    """The rows of one root by path. `set_over` puts others over some of them."""

    def __init__(self, header: Mapping[str, Any], columns: Sequence[memoryview]) -> None:
        """Take columns as they are. Raises ValueError when they are not of one length."""
        self._kinds: list[str] = header["kinds"]
        self._columns, self._width = columns, header["width"]
        self._numbers = [columns[_FIRST + place].cast(code) for place, code in enumerate(_NUMBERS)]
        self._texts: dict[int, list[bytes]] = {}
        paths = self._split(_PATH) if header["count"] else []
        self._at = dict(zip(paths, range(header["count"]), strict=True))
        self._rows: dict[bytes, Row] = {os.fsencode(str(row[_PATH])): row for row in header["odd"]}
        if any(len(one) != len(paths) for one in (columns[_KIND], *self._numbers)):
            raise ValueError("columns of several lengths")

    def _split(self, column: int) -> list[bytes]:
        if column not in self._texts:
            self._texts[column] = bytes(self._columns[column]).split(b"\0")
        return self._texts[column]

    def __contains__(self, path: object) -> bool:
        return path in self._at or path in self._rows

    def __iter__(self) -> Iterator[bytes]:
        yield from self._at
        yield from self._rows

    def __len__(self) -> int:
        return len(self._at) + len(self._rows)

    def row(self, path: bytes) -> Row:
        """Return the row of a path. Raises KeyError."""
        at = self._at.get(path)
        if at is None:
            return self._rows[path]
        numbers = [one[at] for one in self._numbers]
        target = os.fsdecode(self._split(_TARGET)[at])
        kind = self._kinds[self._columns[_KIND][at]]
        return [os.fsdecode(path), kind, *numbers, target, self.stored(path)]

    def stored(self, path: bytes) -> str:
        """Return where a path's bytes are, "" for nowhere and for one that is not there."""
        at = self._at.get(path)
        if at is None:
            return str(self._rows[path][_STORED]) if path in self._rows else ""
        return bytes(self._columns[_STORED][at * self._width : (at + 1) * self._width]).rstrip(b"\0").decode("ascii")

    def set_over(self, rows: Mapping[str, Row | None]) -> None:
        """Put rows in place of those of some paths, None: it is not there."""
        for name, row in rows.items():
            path = os.fsencode(name)
            self._at.pop(path, None)
            self._rows.pop(path, None)
            if row is not None:
                self._rows[path] = row


def unpacked(header: Mapping[str, Any], data: memoryview) -> tuple[Table, memoryview]:
    """Return the table of a header from the beginning of bytes, and what comes behind it. Raises ValueError for too few."""
    columns, at = [], 0
    for size in header["sizes"]:
        columns.append(data[at : at + size])
        at += size
    if at > len(data):
        raise ValueError("too short")
    return Table(header, columns), data[at:]


def of_rows(rows: Sequence[Row]) -> Table:
    """Return rows as a table."""
    header, columns = packed(rows)
    return unpacked(header, memoryview(b"".join(columns)))[0]
