"""The diff of the change under the cursor: boxes, numbers, signs, lines; below each other, beside each other, in threes."""

from collections.abc import Iterable, Iterator, Sequence

from tui.events import Pane
from tui.model import word_diff as emphasis
from tui.model.document import Row, RowKind, Span, Tone
from tui.model.wrapping import text_cells
from tui.state import NO_DOCUMENT, Diff, State
from tui.update import line_selection as picking
from tui.update.line_selection import State as Chosen
from tui.update.tabs import matches
from tui.widgets.lines import Marks, cut, laid_out, pieces, seen
from tui.widgets.paint import Piece, fitted
from tui.widgets.row_view import RowView

BOX = range(1, 4)  # the columns that a click toggles in
_CURSOR = "▌"
_TINTS = {RowKind.OLD: ("removed",), RowKind.NEW: ("added",)}
_SIGNS = {RowKind.OLD: "-", RowKind.NEW: "+"}
_BOXES = {Chosen.ALL: ("[x]", "chosen"), Chosen.SOME: ("[~]", Tone.CHANGED), Chosen.NONE: ("[ ]", Tone.DIM)}
_DOTS = {Chosen.ALL: (" x ", "chosen"), Chosen.SOME: (" ~ ", Tone.CHANGED), Chosen.NONE: (" · ", Tone.DIM)}
_SEEN = ("diff", "selection", "looks", "pane", "search")
_LONGEST = 4_000  # bytes of a line in which changed words are looked for


class DiffView(RowView):
    """Draws the state's diff."""

    def __init__(self, state: State) -> None:
        super().__init__(id="diff")
        self._state, self._digits = state, 0
        self._document, self._first = NO_DOCUMENT, frozenset[int]()
        self._learn(state)

    def _learn(self, state: State) -> None:
        document = state.diff.document
        if document is not self._document:  # its starts are many: not again for every choice
            self._document = document
            self._first = frozenset(document.starts) if document.blocks else frozenset()
        self._choice = picking.choice_of(state.selection, document)
        most = max(len(document.old), len(document.new))
        self._digits = len(str(most)) if most and state.looks.has_numbers else 0

    def show(self, state: State) -> None:
        """Draw another state; scroll to the cursor when it moved."""
        before, self._state = self._state, state
        if self.is_drawn and all(getattr(before, name) is getattr(state, name) for name in _SEEN):
            return
        self._show(before, state)

    def _show(self, before: State, state: State) -> None:
        old, new = before.diff, state.diff
        is_other = new.document is not old.document
        if is_other or state.selection is not before.selection or state.looks is not before.looks:
            self._learn(state)
        self.have_rows(len(new.document.rows))
        if old.key != new.key or (new.key is None and is_other):
            self.scroll_to(y=0, animate=False, force=True)
            if new.cursor:
                self.reveal(new.cursor, is_jump=True)
        elif old.cursor != new.cursor or is_other:
            self.reveal(new.cursor, is_jump=_is_jump(old, new))
        self.show_rows({old.cursor, new.cursor} if _is_cursor_alone(before, state) else None)

    def look(self, index: int) -> tuple[str, ...]:
        """Tint added and removed lines, a range, and the row under the cursor."""
        row = self._document.rows[index]
        tint = () if self._document.look.is_split else _TINTS.get(row.kind, ())
        if self._state.pane is not Pane.DIFF:
            return tint
        if index == self._state.diff.cursor:
            return (*tint, "cursor")
        return (*tint, "idle") if self._state.diff.anchor >= 0 and index in self._state.diff.marked else tint

    def draw(self, index: int, cells: int) -> Iterable[Piece]:
        """Draw one row."""
        row = self._document.rows[index]
        yield Piece(_CURSOR if self._is_cursor(index) else " ", "cursor")
        match row.kind:
            case RowKind.WORDS | RowKind.HUNK:
                yield from self._marked([Piece(row.text, row.tone)])
            case RowKind.PART | RowKind.QUIET:
                yield self._box(index, row)
                yield Piece(f" {row.text}", row.tone)
            case RowKind.CONFLICT:
                yield from self._three(row, cells - 1)
            case _ if self._document.look.is_split:
                yield from self._two(index, row, cells - 4)
            case _:
                yield from self._one(index, row, cells - 4)

    def _is_cursor(self, index: int) -> bool:
        return self._state.pane is Pane.DIFF and index == self._state.diff.cursor

    def _box(self, index: int, row: Row) -> Piece:
        """Draw what is chosen: a box where a block or a part starts, dots for the lines below."""
        if row.part is not None and not self._document.has_lines:
            key = self._document.key
            is_chosen = key is not None and key in self._state.selection
            return Piece(*_BOXES[Chosen.ALL if is_chosen else Chosen.NONE])
        if row.part is None and (row.block < 0 or not self._document.has_lines):
            return Piece("   ")
        is_start = index in self._first or row.part is not None
        is_lines = not is_start or self._state.looks.is_lines
        state = picking.state_of(row, self._choice, self._document, is_lines=is_lines)
        return Piece(*(_BOXES if is_start else _DOTS)[state])

    # Below each other

    def _one(self, index: int, row: Row, cells: int) -> Iterator[Piece]:
        yield self._box(index, row) if not row.turn else Piece("   ")
        number = row.new if row.kind is not RowKind.OLD else row.old
        yield self._number(number if not row.turn else -1)
        yield Piece(f"{_SIGNS.get(row.kind, ' ') if not row.turn else ' '} ", row.tone)
        yield from self._text(row, cells - self._digits - 4, is_old=row.kind is RowKind.OLD)

    def _number(self, number: int) -> Piece:
        if not self._digits:
            return Piece(" ")
        return Piece(f" {number + 1 if number >= 0 else '':>{self._digits}} ", Tone.DIM)

    def _text(self, row: Row, cells: int, *, is_old: bool) -> Iterator[Piece]:
        """Yield what is seen of a line of one side."""
        lines, number = (self._document.old, row.old) if is_old else (self._document.new, row.new)
        is_wrapped = self._document.look.is_wrapped
        cells = min(cells, text_cells(self._document.look, self._digits)) if is_wrapped else cells
        shift = row.turn * cells if is_wrapped else self._state.diff.shift
        text = seen(lines[number], cells, shift)
        tone = Tone.PLAIN if row.kind is RowKind.SAME else Tone.REMOVED if is_old else Tone.ADDED
        spans, marks = self._spans(number, is_old=is_old), self._marks(row, is_old=is_old)
        found = laid_out(self._marked(pieces(text, tone, spans, marks)), cells, shift)
        yield from cut(found, cells) if is_wrapped else found

    def _spans(self, number: int, *, is_old: bool) -> Sequence[Span]:
        colours = self._state.diff.colours
        if colours is None:
            return ()
        return (colours.old if is_old else colours.new).get(number, ())

    def _marks(self, row: Row, *, is_old: bool) -> Marks:
        """Return the changed words of a line that takes another's place."""
        if row.block < 0 or not self._document.blocks:
            return ()
        block = self._document.blocks[row.block]
        step = row.old - block.old_start if is_old else row.new - block.new_start
        if not step < min(block.old_lines, block.new_lines):
            return ()
        old, new = self._document.old[block.old_start + step], self._document.new[block.new_start + step]
        if max(len(old), len(new)) > _LONGEST:
            return ()
        found = emphasis.changed(seen(old, len(old), 0), seen(new, len(new), 0))
        return found[0] if is_old else found[1]

    def _marked(self, some: Iterable[Piece]) -> Iterator[Piece]:
        """Mark what is searched for."""
        needle = self._state.search
        for piece in some:
            if needle and matches(piece.text, needle):
                yield from _split(piece, needle)
            else:
                yield piece

    # Beside each other

    def _two(self, index: int, row: Row, cells: int) -> Iterator[Piece]:
        half = (cells - 1) // 2
        yield self._box(index, row) if not row.turn else Piece("   ")
        yield from fitted(self._half(row, half, is_old=True), half)
        yield Piece("│", Tone.DIM)
        yield from fitted(self._half(row, cells - half - 1, is_old=False), cells - half - 1)

    def _half(self, row: Row, cells: int, *, is_old: bool) -> Iterator[Piece]:
        number = row.old if is_old else row.new
        if number < 0:
            return
        yield self._number(number if not row.turn else -1)
        sign = " " if row.kind is RowKind.SAME or row.turn else "-" if is_old else "+"
        yield Piece(f"{sign} ", Tone.REMOVED if is_old and sign != " " else Tone.ADDED if sign != " " else Tone.DIM)
        yield from self._text(row, cells - self._digits - 4, is_old=is_old)

    # In threes

    def _three(self, row: Row, cells: int) -> Iterator[Piece]:
        third = (cells - 2) // 3
        middle = row.tone if row.tone is Tone.DIM else Tone.PLAIN
        tones = (Tone.CHANGED, row.tone, Tone.ADDED) if row.block >= 0 else (row.tone, middle, row.tone)
        for at, (cell, tone) in enumerate(zip(row.cells, tones, strict=True)):
            room = third if at < 2 else cells - 2 - 2 * third
            if at:
                yield Piece("│", Tone.DIM)
            found = (
                []
                if cell is None
                else laid_out([Piece(seen(cell, room, self._state.diff.shift), tone)], room, self._state.diff.shift)
            )
            yield from fitted(found, room)


def _split(piece: Piece, needle: str) -> Iterator[Piece]:
    text, low = piece.text, piece.text.lower()
    small, at = needle.lower(), 0
    while (found := low.find(small, at)) >= 0:
        if found > at:
            yield Piece(text[at:found], piece.tone)
        yield Piece(text[found : found + len(small)], "match")
        at = found + len(small)
    if at < len(text):
        yield Piece(text[at:], piece.tone)


def _is_cursor_alone(before: State, state: State) -> bool:
    """Whether nothing but the row under the cursor is another one."""
    if any(getattr(before, name) is not getattr(state, name) for name in _SEEN if name not in ("diff", "pane")):
        return False
    old, new = before.diff, state.diff
    is_same = all(getattr(old, name) is getattr(new, name) for name in ("key", "document", "colours"))
    return is_same and old.shift == new.shift and old.anchor < 0 and new.anchor < 0


def _is_jump(old: Diff, new: Diff) -> bool:
    return new.cursor in new.document.starts and abs(new.cursor - old.cursor) > 1
