"""The diff pane: checkboxes, line numbers, signs and lines; unified, side by side, or three columns of a conflict."""

from collections.abc import Iterable, Iterator, Sequence

from tui.events import Pane
from tui.model import word_diff
from tui.model.document import DiffRow, RowKind, Span, Tone
from tui.model.wrapping import LABEL_WIDTH, stacked_width, text_width
from tui.state import EMPTY_DOCUMENT, DiffPane, State
from tui.update import line_selection
from tui.update.line_selection import SelectionState
from tui.update.tabs import contains_text
from tui.widgets.lines import MarkedSpans, styled_pieces, truncate, visible_pieces, visible_start
from tui.widgets.paint import Piece, fit_pieces
from tui.widgets.row_view import RowView

CHECKBOX_COLUMNS = range(1, 4)  # columns of the checkbox
_CURSOR = "▌"
_TINTS = {RowKind.REMOVED: ("removed",), RowKind.ADDED: ("added",)}
_SIGNS = {RowKind.REMOVED: "-", RowKind.ADDED: "+"}
_BOXES = {
    SelectionState.ALL: ("[x]", "selected"),
    SelectionState.SOME: ("[~]", Tone.CHANGED),
    SelectionState.NONE: ("[ ]", Tone.DIM),
}
_DOTS = {
    SelectionState.ALL: (" x ", "selected"),
    SelectionState.SOME: (" ~ ", Tone.CHANGED),
    SelectionState.NONE: (" · ", Tone.DIM),
}
_DISPLAYED = ("diff", "selection", "display_options", "pane", "search")
_MAX_WORD_DIFF = 4_000  # bytes of a line


class DiffView(RowView):
    """The diff of the change under the cursor, or the details of an entry."""

    def __init__(self, state: State) -> None:
        super().__init__(id="diff")
        self._state, self._digits = state, 0
        self._document, self._hunk_starts = EMPTY_DOCUMENT, frozenset[int]()
        self._set_state(state)

    def _set_state(self, state: State) -> None:
        document = state.diff.document
        if document is not self._document:  # not for every change of the selection: there may be many hunks
            self._document = document
            self._hunk_starts = frozenset(document.hunk_rows) if document.hunks else frozenset()
        self._choice = line_selection.selection_of(state.selection, document)
        last = max(len(document.old_lines), len(document.new_lines))
        self._digits = len(str(last)) if last and state.display_options.shows_line_numbers else 0

    def show(self, state: State) -> None:
        """Draw a new state; scroll to the cursor if it moved."""
        before, self._state = self._state, state
        if self.is_drawn and all(getattr(before, name) is getattr(state, name) for name in _DISPLAYED):
            return
        self._show_changes(before, state)

    def _show_changes(self, before: State, state: State) -> None:
        old, new = before.diff, state.diff
        is_new_document = new.document is not old.document
        if is_new_document or state.selection is not before.selection or state.display_options is not before.display_options:
            self._set_state(state)
        self.set_row_count(len(new.document.rows))
        if old.key != new.key or (new.key is None and is_new_document):
            self.scroll_to(y=0, animate=False, force=True)
            if new.cursor:
                self.reveal(new.cursor, is_jump=True)
        elif old.cursor != new.cursor or is_new_document:
            self.reveal(new.cursor, is_jump=_is_jump(old, new))
        self.update_rows({old.cursor, new.cursor} if _only_cursor_moved(before, state) else None)

    def row_classes(self, index: int) -> tuple[str, ...]:
        """Return the style classes of a row: tints of added and removed lines, a range, the row under the cursor."""
        row = self._document.rows[index]
        tint = () if self._document.options.is_split else _TINTS.get(row.kind, ())
        if self._state.pane is not Pane.DIFF:
            return tint
        if index == self._state.diff.cursor:
            return (*tint, "cursor")
        return (*tint, "idle") if self._state.diff.anchor >= 0 and index in self._state.diff.marked_rows else tint

    def row_pieces(self, index: int, cells: int) -> Iterable[Piece]:
        """Return the pieces of a row."""
        row = self._document.rows[index]
        yield Piece(_CURSOR if self._is_cursor(index) else " ", "cursor")
        match row.kind:
            case RowKind.HEADING if row.is_applied is not None:
                yield Piece(*_BOXES[SelectionState.ALL if row.is_applied else SelectionState.NONE])
                yield from self._marked([Piece(f" {row.text}", row.tone)])
            case RowKind.TEXT | RowKind.HEADING:
                yield from self._marked([Piece(row.text, row.tone)])
            case RowKind.PART | RowKind.WHITESPACE:
                yield self._box(index, row)
                yield Piece(f" {row.text}", row.tone)
            case RowKind.CONFLICT:
                yield from self._three_columns(row, cells - 2)
            case RowKind.STACKED:
                yield from self._stacked(row)
            case _ if self._document.options.is_split:
                yield from self._side_by_side(index, row, cells - 4)
            case _:
                yield from self._unified(index, row, cells - 4)

    def _is_cursor(self, index: int) -> bool:
        return self._state.pane is Pane.DIFF and index == self._state.diff.cursor

    def _box(self, index: int, row: DiffRow) -> Piece:
        """Return the selection mark of a row: a checkbox where a hunk or a part starts, dots on its other lines."""
        if row.part is not None and not self._document.has_selectable_lines:
            key = self._document.key
            is_selected = key is not None and key in self._state.selection
            return Piece(*_BOXES[SelectionState.ALL if is_selected else SelectionState.NONE])
        if row.part is None and (row.hunk < 0 or not self._document.has_selectable_lines):
            return Piece("   ")
        is_start = index in self._hunk_starts or row.part is not None
        is_lines = not is_start or self._state.display_options.selects_lines
        state = line_selection.row_state(row, self._choice, self._document, is_lines=is_lines)
        return Piece(*(_BOXES if is_start else _DOTS)[state])

    # Unified

    def _unified(self, index: int, row: DiffRow, cells: int) -> Iterator[Piece]:
        yield self._box(index, row) if not row.wrap_index else Piece("   ")
        number = row.new_line if row.kind is not RowKind.REMOVED else row.old_line
        yield self._number(number if not row.wrap_index else -1)
        yield Piece(f"{_SIGNS.get(row.kind, ' ') if not row.wrap_index else ' '} ", row.tone)
        yield from self._text(row, cells - self._digits - 4, is_old=row.kind is RowKind.REMOVED)

    def _number(self, number: int) -> Piece:
        if not self._digits:
            return Piece(" ")
        return Piece(f" {number + 1 if number >= 0 else '':>{self._digits}} ", Tone.DIM)

    def _text(self, row: DiffRow, cells: int, *, is_old: bool) -> Iterator[Piece]:
        """Yield the visible part of a line of one side."""
        lines, number = (self._document.old_lines, row.old_line) if is_old else (self._document.new_lines, row.new_line)
        is_wrapped = self._document.options.is_wrapped
        cells = min(cells, text_width(self._document.options, self._digits)) if is_wrapped else cells
        shift = row.wrap_index * cells if is_wrapped else self._state.diff.horizontal_offset
        text = visible_start(lines[number], cells, shift)
        tone = Tone.PLAIN if row.kind is RowKind.CONTEXT else Tone.REMOVED if is_old else Tone.ADDED
        spans, marks = self._spans(number, is_old=is_old), self._marks(row, is_old=is_old)
        visible = visible_pieces(self._marked(styled_pieces(text, tone, spans, marks)), cells, shift)
        yield from truncate(visible, cells) if is_wrapped else visible

    def _spans(self, number: int, *, is_old: bool) -> Sequence[Span]:
        colours = self._state.diff.highlighting
        if colours is None:
            return ()
        return (colours.old if is_old else colours.new).get(number, ())

    def _marks(self, row: DiffRow, *, is_old: bool) -> MarkedSpans:
        """Return the changed words of a line that replaces another or is replaced."""
        if row.hunk < 0 or not self._document.hunks:
            return ()
        block = self._document.hunks[row.hunk]
        step = row.old_line - block.old_start if is_old else row.new_line - block.new_start
        if not step < min(block.old_lines, block.new_lines):
            return ()
        old, new = self._document.old_lines[block.old_start + step], self._document.new_lines[block.new_start + step]
        if max(len(old), len(new)) > _MAX_WORD_DIFF:
            return ()
        removed, added = word_diff.changed_spans(visible_start(old, len(old), 0), visible_start(new, len(new), 0))
        return removed if is_old else added

    def _marked(self, some: Iterable[Piece]) -> Iterator[Piece]:
        """Yield pieces with the matches of the search marked."""
        needle = self._state.search
        for piece in some:
            if needle and contains_text(piece.text, needle):
                yield from _split_matches(piece, needle)
            else:
                yield piece

    # Side by side

    def _side_by_side(self, index: int, row: DiffRow, cells: int) -> Iterator[Piece]:
        half = (cells - 1) // 2
        yield self._box(index, row) if not row.wrap_index else Piece("   ")
        yield from fit_pieces(self._half(row, half, is_old=True), half)
        yield Piece("│", Tone.DIM)
        yield from fit_pieces(self._half(row, cells - half - 1, is_old=False), cells - half - 1)

    def _half(self, row: DiffRow, cells: int, *, is_old: bool) -> Iterator[Piece]:
        number = row.old_line if is_old else row.new_line
        if number < 0:
            return
        yield self._number(number if not row.wrap_index else -1)
        sign = " " if row.kind is RowKind.CONTEXT or row.wrap_index else "-" if is_old else "+"
        yield Piece(f"{sign} ", Tone.REMOVED if is_old and sign != " " else Tone.ADDED if sign != " " else Tone.DIM)
        yield from self._text(row, cells - self._digits - 4, is_old=is_old)

    # Three columns of a conflict

    def _three_columns(self, row: DiffRow, cells: int) -> Iterator[Piece]:
        third = (cells - 2) // 3
        middle = row.tone if row.tone is Tone.DIM else Tone.PLAIN
        tones = (Tone.CHANGED, row.tone, Tone.ADDED) if row.hunk >= 0 else (row.tone, middle, row.tone)
        for column, (cell, tone) in enumerate(zip(row.cells, tones, strict=True)):
            width = third if column < 2 else cells - 2 - 2 * third
            if column:
                yield Piece("│", Tone.DIM)
            shift = self._state.diff.horizontal_offset
            visible = () if cell is None else visible_pieces([Piece(visible_start(cell, width, shift), tone)], width, shift)
            yield from fit_pieces(visible, width)

    def _stacked(self, row: DiffRow) -> Iterator[Piece]:
        yield Piece(f"{row.text:<{LABEL_WIDTH - 1}}│", Tone.DIM)
        free = stacked_width(self._document.options)
        line = next((cell for cell in row.cells if cell is not None), b"")
        shift = row.wrap_index * free if self._document.options.is_wrapped else self._state.diff.horizontal_offset
        pieces = visible_pieces(self._marked([Piece(visible_start(line, free, shift), row.tone)]), free, shift)
        yield from truncate(pieces, free) if self._document.options.is_wrapped else fit_pieces(pieces, free)


def _split_matches(piece: Piece, needle: str) -> Iterator[Piece]:
    text, folded = piece.text, piece.text.lower()
    needle, end = needle.lower(), 0
    while (start := folded.find(needle, end)) >= 0:
        if start > end:
            yield Piece(text[end:start], piece.tone)
        end = start + len(needle)
        yield Piece(text[start:end], "match")
    if end < len(text):
        yield Piece(text[end:], piece.tone)


def _only_cursor_moved(before: State, state: State) -> bool:
    """Return whether only the rows under the old and the new cursor must be redrawn."""
    if any(getattr(before, name) is not getattr(state, name) for name in _DISPLAYED if name not in ("diff", "pane")):
        return False
    old, new = before.diff, state.diff
    is_same = all(getattr(old, name) is getattr(new, name) for name in ("key", "document", "highlighting"))
    return is_same and old.horizontal_offset == new.horizontal_offset and old.anchor < 0 and new.anchor < 0


def _is_jump(old: DiffPane, new: DiffPane) -> bool:
    return new.cursor in new.document.hunk_rows and abs(new.cursor - old.cursor) > 1
