"""The list of changes: boxes, signs, names, and at the right edge how many lines or why not."""

from collections.abc import Iterable, Sequence

from agent_dev.core.changes import Change, Kind
from tui import words
from tui.cells import clean, crop, crop_start
from tui.document import Tone
from tui.events import Pane
from tui.rows import ChangeRow, Group, HeadRow, NoteRow, ProblemRow
from tui.state import State
from tui.widgets.paint import Piece, row
from tui.widgets.row_view import RowView

BOX = range(1, 4)  # the columns that a click toggles in
_CURSOR, _IDLE = "▌", "▏"  # the keys go here; they go to the diff
_TONES = {
    Kind.ADDED: Tone.ADDED,
    Kind.EDITED: Tone.CHANGED,
    Kind.DELETED: Tone.REMOVED,
    Kind.RETYPED: Tone.CHANGED,
    Kind.METADATA: Tone.CHANGED,
}


class ChangeList(RowView):
    """Draws the state's listing."""

    def __init__(self, state: State, roots: Sequence[str]) -> None:
        super().__init__(id="changes")
        self._state, self._roots = state, roots

    def show(self, state: State) -> None:
        """Draw another state."""
        self._state = state
        self.show_rows(len(state.listing.rows))
        self.reveal(state.cursor)

    def look(self, index: int) -> tuple[str, ...]:
        """Tint the row under the cursor."""
        if index != self._state.cursor:
            return ()
        return ("cursor",) if self._state.pane is Pane.LIST else ("idle",)

    def draw(self, index: int, cells: int) -> Iterable[Piece]:
        """Draw a heading, a change or a problem."""
        mark = _CURSOR if self._state.pane is Pane.LIST else _IDLE
        cursor = Piece(mark if index == self._state.cursor else " ", "cursor")
        match self._state.listing.rows[index]:
            case HeadRow(group):
                return [cursor, *self._head(group, cells - 1)]
            case ChangeRow(group, change):
                return [cursor, *self._change(self._state.listing.groups[group], change, cells - 1)]
            case ProblemRow(text):
                return [cursor, Piece(f" {words.BLOCKED}  not read: {text}", Tone.WRONG)]
            case NoteRow(text):
                return [cursor, Piece(f"    note: {text}", Tone.DIM)]

    def _head(self, number: int, cells: int) -> list[Piece]:
        group = self._state.listing.groups[number]
        chosen = self._state.chosen_in[number]
        right = f" {chosen:,} of {len(group.changes):,} " if chosen else f" {len(group.changes):,} "
        mark = "▸" if number in self._state.listing.closed else "▾"
        box = _box(is_possible=group.possible > 0, is_all=chosen == group.possible, is_some=chosen > 0)
        name = crop_start(clean(self._title(group)), cells - 6 - len(right))
        return row([box, Piece(f" {mark} ", Tone.DIM), Piece(name, Tone.STRONG)], [Piece(right, Tone.DIM)], cells)

    def _title(self, group: Group) -> str:
        if group.path is None:
            return "ignored by git"
        inside = words.text(group.path) + "/" if group.path else ""
        if group.root == 0 or group.root >= len(self._roots):
            return inside or "./"
        return f"{self._roots[group.root].rstrip('/')}/{inside}"

    def _change(self, group: Group, change: Change, cells: int) -> list[Piece]:
        is_chosen = change.key in self._state.selection
        box = _box(is_possible=change.is_clean, is_all=is_chosen, is_some=is_chosen)
        sign = Piece(f"   {words.SIGNS[change.kind]}", _TONES[change.kind])
        risk = Piece(words.RISK if change.risks else " ", Tone.RISK)
        right = _right(change, cells)
        room = cells - 9 - sum(len(piece.text) for piece in right)
        name = _label(group, change, room)
        return row([box, sign, risk, Piece(" "), Piece(name, Tone.PLAIN if change.is_clean else Tone.DIM)], right, cells)


def _label(group: Group, change: Change, room: int) -> str:
    path = words.text(change.key.path)
    return crop_start(clean(path if group.is_ignored else path.rpartition("/")[2]), room)


def _right(change: Change, cells: int) -> list[Piece]:
    why = change.obstacle or change.conflict
    if why:
        return [Piece(" " + crop(clean(why), cells // 2) + " ", Tone.WRONG)]
    pieces = [Piece(" with yours", Tone.CHANGED)] if change.is_merged else []
    pieces += [Piece(f" +{change.insertions:,}", Tone.ADDED)] if change.insertions else []
    pieces += [Piece(f" -{change.deletions:,}", Tone.REMOVED)] if change.deletions else []
    return [*pieces, Piece(" ")] if pieces else []


def _box(*, is_possible: bool, is_all: bool, is_some: bool) -> Piece:
    if not is_possible:
        return Piece(f" {words.BLOCKED} ", Tone.WRONG)
    if not is_some:
        return Piece("[ ]", Tone.DIM)
    return Piece("[x]", "chosen") if is_all else Piece("[~]", Tone.CHANGED)
