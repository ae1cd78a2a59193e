"""Wrapping of long lines over several rows."""

from collections.abc import Iterator, Sequence

from agent_dev.quick_dataclass import replace
from tui.model.document import TAB_WIDTH, DiffOptions, DiffRow, RowKind
from tui.text.cells import clean_text, width

GUTTER_WIDTH = 8  # cells of cursor, checkbox and sign, with spaces
LABEL_WIDTH = 8  # cells of the label and the line next to a stacked row
_MARGINS = 2  # cells of the cursor and of a scroll bar
_MAX_ROWS = 200  # of one line; the rest is cut
_MAX_MEASURED = 20_000  # bytes of a line
_LINES = (RowKind.CONTEXT, RowKind.REMOVED, RowKind.ADDED, RowKind.PAIR)


def text_width(look: DiffOptions, digits: int) -> int:
    """Return the width of a line's text in cells; side by side, that of one half."""
    if look.is_split:
        return max(8, (look.columns - 1) // 2 - digits - GUTTER_WIDTH)
    return max(8, look.columns - digits - GUTTER_WIDTH)


def stacked_width(look: DiffOptions) -> int:
    """Return the width in cells of a line of a conflict that has the whole row, after its label."""
    return max(8, look.columns - LABEL_WIDTH - _MARGINS)


def wrap_rows(rows: Sequence[DiffRow], old: Sequence[bytes], new: Sequence[bytes], look: DiffOptions) -> tuple[DiffRow, ...]:
    """Return the rows with continuation rows for wrapped lines."""
    if not look.is_wrapped:
        return tuple(rows)
    cells = text_width(look, len(str(max(len(old), len(new)))))
    return tuple(_wrapped(rows, old, new, cells))


def _wrapped(rows: Sequence[DiffRow], old: Sequence[bytes], new: Sequence[bytes], cells: int) -> Iterator[DiffRow]:
    for row in rows:
        yield row
        if row.kind not in _LINES:
            continue
        sides = [lines[number] for lines, number in ((old, row.old_line), (new, row.new_line)) if number >= 0]
        for turn in range(1, max(row_count(line, cells) for line in sides)):
            yield replace(row, wrap_index=turn)


def row_count(line: bytes, cells: int) -> int:
    """Return over how many rows a line is wrapped, at least 1."""
    return max(1, min(-(-line_width(line) // cells), _MAX_ROWS))


def line_width(line: bytes) -> int:
    """Return the width of a line in cells, of at most 20,000 bytes."""
    text = line[:_MAX_MEASURED].rstrip(b"\n")
    if text.isascii() and b"\t" not in text:
        return len(text)
    return width(clean_text(text, " " * TAB_WIDTH))
