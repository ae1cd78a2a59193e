"""Notes to the agent in a diff: each below its line; notes about the whole file are at the top."""

from collections.abc import Sequence

from agent_dev.diff.review_note import ReviewNote
from agent_dev.quick_dataclass import replace
from tui.model.document import DiffRow, Document, RowKind, Tone
from tui.text.cells import clean_text, wrap

NOTE_SIGN = "✎"
_INDENT = 4  # columns


def with_notes(document: Document, notes: Sequence[ReviewNote]) -> Document:
    """Return a document with the notes as rows; a note whose line is not shown goes to the top, with its line number."""
    if not notes or not document.rows:
        return document
    below: dict[int, list[DiffRow]] = {}
    for note in notes:
        at = _row_of(document.rows, note)
        below.setdefault(at, []).extend(_note_rows(note, document, at))
    rows: list[DiffRow] = []
    new_places: list[int] = []  # of each old row
    for index, row in enumerate(document.rows):
        new_places.append(len(rows))
        rows += [row, *below.get(index, ())]
    return replace(document, rows=tuple(rows), hunk_rows=tuple(new_places[row] for row in document.hunk_rows))


def _row_of(rows: Sequence[DiffRow], note: ReviewNote) -> int:
    """Return the row that a note belongs below: the last one of its line, or the first row."""
    wanted = note.line - 1
    found = 0
    for index, row in enumerate(rows):
        number = row.old_line if note.is_old else row.new_line
        if note.line and number == wanted and row.kind is not RowKind.HEADING:
            found = index
    return found


def _note_rows(note: ReviewNote, document: Document, at: int) -> list[DiffRow]:
    row = document.rows[at]
    prefix = f"line {note.line}: " if note.line and not at else ""
    parts = wrap(clean_text(prefix + note.text), max(10, document.options.columns - _INDENT - 2))
    return [
        replace(
            row, kind=RowKind.TEXT, tone=Tone.HEADING, text=f"  {' ' if index else NOTE_SIGN} {part}", wrap_index=0, part=None
        )
        for index, part in enumerate(parts)
    ]
