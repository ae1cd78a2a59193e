"""The list at the left: boxes, signs, names, and at the right edge how many lines or why not; on other tabs their entries."""

from collections.abc import Iterable, Sequence

from agent_dev.overlay.changes import Change, Kind
from tui.events import Pane
from tui.model import outcome
from tui.model.change_list import ChangeRow, Group, HeadRow, NoteRow, ProblemRow, Section
from tui.model.document import Tone
from tui.model.tabs import Tab
from tui.state import State
from tui.text import labels as words
from tui.text.cells import clean, crop_start, crop_words, width
from tui.widgets.paint import Piece, row
from tui.widgets.row_view import RowView

BOX = range(1, 4)  # the columns that a click toggles in, behind the indent of a nested list
_CURSOR, _IDLE = "▌", "▏"  # the keys go here; they go to the diff
_TONES = {
    Kind.ADDED: Tone.ADDED,
    Kind.EDITED: Tone.CHANGED,
    Kind.DELETED: Tone.REMOVED,
    Kind.RETYPED: Tone.CHANGED,
    Kind.METADATA: Tone.CHANGED,
}
_SEEN = (
    *("listing", "changes", "selection", "parts", "chosen_in", "counts", "answers", "reviewed"),
    *("tab", "tabs", "picked", "pane", "cursor"),
)
_CURSORS = {"cursor", "pane"}  # only the row under the cursor looks otherwise by these
_TITLES = {
    Section.RISKY: "look at these: risky, or in conflict",
    Section.LOCKS: "lock files",
    Section.FOLDED: "ignored by git, or generated",
}


class ChangeList(RowView):
    """Draws the state's listing."""

    def __init__(self, state: State, roots: Sequence[str]) -> None:
        super().__init__(id="changes")
        self._state, self._roots = state, roots

    def show(self, state: State) -> None:
        """Draw another state, unless all that is seen of it here is the same."""
        old, self._state = self._state, state
        other = {name for name in _SEEN if getattr(old, name) is not getattr(state, name)}
        if self.is_drawn and not other:
            return
        self.have_rows(state.length)
        self.reveal(state.cursor)
        self.show_rows({old.cursor, state.cursor} if other <= _CURSORS else None)

    def look(self, index: int) -> tuple[str, ...]:
        """Tint the row under the cursor."""
        if index != self._state.cursor:
            return ()
        return ("cursor",) if self._state.pane is Pane.LIST else ("idle",)

    def draw(self, index: int, cells: int) -> Iterable[Piece]:
        """Draw a heading, a change or a problem; on another tab an entry."""
        mark = _CURSOR if self._state.pane is Pane.LIST else _IDLE
        cursor = Piece(mark if index == self._state.cursor else " ", "cursor")
        if self._state.tab is not Tab.CHANGES:
            entry = self._state.tabs[self._state.tab][index]
            risk = Piece(f"{words.RISK if entry.is_risky else ' '} ", Tone.RISK)
            is_picked = entry.id in self._state.picked
            box = [_box(is_possible=True, is_all=is_picked, is_some=is_picked), Piece(" ")] if entry.id else []
            return [cursor, *box, risk, Piece(entry.line)]
        match self._state.listing.rows[index]:
            case HeadRow(group):
                return [cursor, *self._head(group, cells - 1)]
            case ChangeRow(group, key):
                change = self._state.changes.by_key()[key]
                return [cursor, *self._change(self._state.listing.groups[group], change, cells - 1)]
            case ProblemRow(text):
                return [cursor, Piece(f" {words.BLOCKED}  not read: {text}", Tone.WRONG)]
            case NoteRow(text):
                return [cursor, Piece(f"    note: {text}", Tone.DIM)]

    def _head(self, number: int, cells: int) -> list[Piece]:
        group = self._state.listing.groups[number]
        chosen = self._state.chosen_in[number]
        right = f" {chosen:,} of {len(group.keys):,} " if chosen else f" {len(group.keys):,} "
        mark = "▸" if number in self._state.listing.closed else "▾"
        is_part = bool(self._state.parts) and any(key in self._state.parts for key in group.keys)
        box = _box(is_possible=group.possible > 0, is_all=chosen == group.possible and not is_part, is_some=chosen > 0)
        indent = "  " * group.depth
        name = crop_start(clean(self._title(group)), cells - 6 - len(right) - len(indent))
        tone = Tone.RISK if group.section is Section.RISKY else Tone.STRONG
        return row([Piece(indent), box, Piece(f" {mark} ", Tone.DIM), Piece(name, tone)], [Piece(right, Tone.DIM)], cells)

    def _title(self, group: Group) -> str:
        if group.section in _TITLES:
            return _TITLES[group.section]
        path = words.text(group.path)
        if group.parent >= 0:
            return path.rpartition("/")[2] + "/"
        inside = path + "/" if path else ""
        if group.root == 0 or group.root >= len(self._roots):
            return inside or "./"
        return f"{self._roots[group.root].rstrip('/')}/{inside}"

    def _change(self, group: Group, change: Change, cells: int) -> list[Piece]:
        is_chosen = change.key in self._state.selection
        is_part = change.key in self._state.selection.choices
        box = _box(is_possible=change.is_clean, is_all=is_chosen and not is_part, is_some=is_chosen)
        indent = "  " * group.depth
        sign = Piece(f" {'✓' if change.key in self._state.reviewed else ' '} {words.SIGNS[change.kind]}", _TONES[change.kind])
        risk = Piece(words.RISK if change.risks else " ", Tone.RISK)
        label, space = clean(_label(group, change)), cells - 9 - len(indent)
        right = self._right(change, max(10, space - 2 - width(label)))
        name = crop_start(label, space - sum(width(piece.text) for piece in right))
        tone = Tone.PLAIN if change.is_clean else Tone.DIM
        return row([Piece(indent), box, sign, risk, Piece(" "), Piece(name, tone)], right, cells)

    def _right(self, change: Change, room: int) -> list[Piece]:
        why = change.obstacle or change.conflict
        if why:
            return [Piece(" " + crop_words(clean(why), room) + " ", Tone.WRONG)]
        how = outcome.of(change, self._state.answers.get(change.key, ()))
        pieces = [Piece(f" {how}", Tone.CHANGED)] if change.has_yours else []
        count = self._state.counts.get(change.key)
        if count is None:
            return [*pieces, Piece(" ")] if pieces else []
        pieces += [Piece(f" +{count.insertions:,}", Tone.ADDED)] if count.insertions else []
        pieces += [Piece(f" -{count.deletions:,}", Tone.REMOVED)] if count.deletions else []
        return [*pieces, Piece(" ")] if pieces else []


def _label(group: Group, change: Change) -> str:
    path = words.text(change.key.path)
    return path.rpartition("/")[2] if group.section is Section.FOLDER else path


def _box(*, is_possible: bool, is_all: bool, is_some: bool) -> Piece:
    if not is_possible:
        return Piece(f" {words.BLOCKED} ", Tone.WRONG)
    if not is_some:
        return Piece("[ ]", Tone.DIM)
    return Piece("[x]", "chosen") if is_all else Piece("[~]", Tone.CHANGED)
