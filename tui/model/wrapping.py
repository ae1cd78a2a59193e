"""Long lines broken over several rows, when that is wished."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tui.model.document import TAB, Look, Row, RowKind
from tui.text.cells import clean, width

GUTTER = 8  # cells of cursor, box and sign, and the blanks between
_MOST = 200  # rows of one line; past that it is cut
_LONG = 20_000  # bytes of a line that are measured
_LINES = (RowKind.SAME, RowKind.OLD, RowKind.NEW, RowKind.PAIR)


def text_cells(look: Look, digits: int) -> int:
    """Return how many cells a line's text gets; side by side each half."""
    if look.is_split:
        return max(8, (look.columns - 1) // 2 - digits - GUTTER)
    return max(8, look.columns - digits - GUTTER)


def turned(rows: Sequence[Row], old: Sequence[bytes], new: Sequence[bytes], look: Look) -> tuple[Row, ...]:
    """Return the rows with a row more for each turn that a line takes."""
    if not look.is_wrapped:
        return tuple(rows)
    cells = text_cells(look, len(str(max(len(old), len(new)))))
    return tuple(_turns(rows, old, new, cells))


def _turns(rows: Sequence[Row], old: Sequence[bytes], new: Sequence[bytes], cells: int) -> Iterator[Row]:
    for row in rows:
        yield row
        if row.kind not in _LINES:
            continue
        sides = [lines[number] for lines, number in ((old, row.old), (new, row.new)) if number >= 0]
        most = max(_cells(line) for line in sides)
        for turn in range(1, min(-(-most // cells), _MOST)):
            yield replace(row, turn=turn)


def _cells(line: bytes) -> int:
    text = line[:_LONG].rstrip(b"\n")
    if text.isascii() and b"\t" not in text:
        return len(text)
    return width(clean(text, " " * TAB))
