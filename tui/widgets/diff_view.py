"""The diff of the change under the cursor: numbers, signs, lines, cut at the edge and never folded."""

from collections.abc import Iterable, Iterator

from tui.cells import clean, width
from tui.document import TAB, Document, Line, Tone
from tui.events import Pane
from tui.state import Diff, State
from tui.widgets.paint import Piece
from tui.widgets.row_view import RowView

_CURSOR = "▌"
_ARROW = "→"
_MOST_BYTES = 12  # of one cell: a character of four and two marks of four
_ROWS = {Tone.ADDED: ("added",), Tone.REMOVED: ("removed",)}


class DiffView(RowView):
    """Draws a document, with the state's cursor in it."""

    def __init__(self, state: State, document: Document) -> None:
        super().__init__(id="diff")
        self._state, self._document, self._digits = state, document, 0

    def show(self, state: State, document: Document) -> None:
        """Draw another state; scroll to the cursor when it moved."""
        old, new = self._state.diff, state.diff
        is_other = document is not self._document
        if is_other:
            self._digits = len(str(max((line.number or 0 for line in document.lines), default=0)))
        self._state, self._document = state, document
        self.show_rows(len(document.lines))
        if old.key != new.key or (new.key is None and is_other):
            self.scroll_to(y=0, animate=False, force=True)
        elif old.cursor != new.cursor:
            self.reveal(new.cursor, is_jump=_is_jump(old, new))

    def look(self, index: int) -> tuple[str, ...]:
        """Tint added and removed lines, and the row under the cursor."""
        tint = _ROWS.get(self._document.lines[index].tone, ())
        return (*tint, "cursor") if self._is_cursor(index) else tint

    def _is_cursor(self, index: int) -> bool:
        return self._state.pane is Pane.DIFF and index == self._state.diff.cursor

    def draw(self, index: int, cells: int) -> Iterable[Piece]:
        """Draw a line with its number and sign, or words of ours."""
        line = self._document.lines[index]
        yield Piece(_CURSOR if self._is_cursor(index) else " ", "cursor")
        if line.number is None and isinstance(line.text, str):
            lead = f"{' ' * self._digits} {line.sign} " if line.sign != " " else ""
            yield Piece(lead + line.text, line.tone)
            return
        yield Piece(f"{line.number or '':>{self._digits}} ", Tone.DIM)
        yield Piece(f"{line.sign} ", line.tone)
        yield from self._content(line, cells - self._digits - 4)

    def _content(self, line: Line, cells: int) -> Iterator[Piece]:
        """Yield what is seen of a line between the shift and the edge. A line may be a whole file: only its start is read."""
        shift = self._state.diff.shift
        most = (shift + cells + 1) * _MOST_BYTES
        data = line.text[:most]
        text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
        at = 0
        for part, tone in _parts(text, line.tone):
            end = at + width(part)
            seen = _behind(part, shift - at) if at < shift else part
            if end > shift and seen:
                yield Piece(seen, tone)
            at = end
            if at > shift + cells:
                return


def _parts(text: str, tone: Tone) -> Iterator[tuple[str, Tone]]:
    """Yield clean text with its tabs drawn out to the next stop."""
    at = 0
    for number, piece in enumerate(text.split("\t")):
        if number:
            gap = TAB - at % TAB
            yield _ARROW + " " * (gap - 1), Tone.DIM
            at += gap
        shown = clean(piece)
        yield shown, tone
        at += width(shown)


def _behind(text: str, cells: int) -> str:
    """Return clean text without its first cells; of a wide character that is cut in two a blank stays."""
    for at, character in enumerate(text):
        if cells <= 0:
            return " " * -cells + text[at:]
        cells -= width(character)
    return " " * -cells if cells < 0 else ""


def _is_jump(old: Diff, new: Diff) -> bool:
    return new.cursor in new.starts and abs(new.cursor - old.cursor) > 1
