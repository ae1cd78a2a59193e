"""The list: checkboxes, signs, names, and line counts or a reason at the right edge; on other tabs, their entries."""

from collections.abc import Iterable

from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.labels import BLOCKED_SIGN, RISK_SIGN, SIGNS, origin_name, path_text
from tui.events import Pane
from tui.model import outcome
from tui.model.change_list import ChangeRow, Group, HeadingRow, NoteRow, ProblemRow, Section
from tui.model.document import Tone
from tui.model.note_rows import NOTE_SIGN
from tui.model.tabs import Tab
from tui.source import ReviewedSession
from tui.state import State
from tui.text.cells import clean_text, crop_start, crop_words, width
from tui.widgets.paint import Piece, align_row
from tui.widgets.row_view import RowView

CHECKBOX_COLUMNS = range(1, 4)  # columns of the checkbox after the indent
_CURSOR, _IDLE = "▌", "▏"  # with and without focus
_TONES = {
    ChangeKind.ADDED: Tone.ADDED,
    ChangeKind.EDITED: Tone.CHANGED,
    ChangeKind.RENAMED: Tone.CHANGED,
    ChangeKind.DELETED: Tone.REMOVED,
    ChangeKind.RETYPED: Tone.CHANGED,
    ChangeKind.METADATA: Tone.CHANGED,
}
_DISPLAYED = (
    *("listing", "changes", "selection", "parts", "selected_per_group", "counts", "resolutions", "reviewed", "notes"),
    *("change_commits", "tab", "tabs", "selected_commits", "pane", "cursor", "list_anchor"),
)
_CURSOR_ONLY = {"cursor", "pane"}  # these affect only the row under the cursor
_MIN_TITLE = 12  # cells for the name of a group before its numbers are shortened
_SHORT_ID = 7
_MIN_ORIGIN = 10  # cells for the old path of a renamed file
_TITLES = {
    Section.RISKY: "Needs review",
    Section.LOCK_FILES: "Lock files",
    Section.FOLDED: "Ignored or generated",
}


class ChangeList(RowView):
    """The list of changes, or of the entries of another tab."""

    def __init__(self, state: State, source: ReviewedSession) -> None:
        super().__init__(id="changes")
        self._state, self._source = state, source

    def show(self, state: State) -> None:
        """Draw a new state, unless everything displayed here is unchanged."""
        old, self._state = self._state, state
        changed = {name for name in _DISPLAYED if getattr(old, name) is not getattr(state, name)}
        if self.is_drawn and not changed:
            return
        self.set_row_count(state.row_count)
        self.reveal(state.cursor)
        has_range = max(old.list_anchor, state.list_anchor) >= 0
        self.update_rows({old.cursor, state.cursor} if changed <= _CURSOR_ONLY and not has_range else None)

    def row_classes(self, index: int) -> tuple[str, ...]:
        """Return the style classes of a row: the row under the cursor and the marked range are tinted."""
        if index != self._state.cursor:
            return ("idle",) if self._state.list_anchor >= 0 and index in self._state.marked_rows else ()
        return ("cursor",) if self._state.pane is Pane.LIST else ("idle",)

    def row_pieces(self, index: int, cells: int) -> Iterable[Piece]:
        """Return the pieces of a heading, a change, a problem or a note; on other tabs, of an entry."""
        mark = _CURSOR if self._state.pane is Pane.LIST else _IDLE
        cursor = Piece(mark if index == self._state.cursor else " ", "cursor")
        if self._state.tab is not Tab.CHANGES:
            entry = self._state.tabs[self._state.tab][index]
            risk = Piece(f"{RISK_SIGN if entry.is_risky else ' '} ", Tone.RISK)
            is_selected = entry.id in self._state.selected_commits
            box = [_box(is_possible=True, is_all=is_selected, is_some=is_selected), Piece(" ")] if entry.id else []
            return [cursor, *box, risk, Piece(entry.title)]
        match self._state.listing.rows[index]:
            case HeadingRow(group):
                return [cursor, *self._head(group, cells - 1)]
            case ChangeRow(group, key):
                change = self._state.changes.by_key()[key]
                return [cursor, *self._change(self._state.listing.groups[group], change, cells - 1)]
            case ProblemRow(text):
                return [cursor, Piece(f" {BLOCKED_SIGN}  unreadable: {text}", Tone.ERROR)]
            case NoteRow(text):
                return [cursor, Piece(f"    note: {text}", Tone.DIM)]

    def _head(self, number: int, cells: int) -> list[Piece]:
        group = self._state.listing.groups[number]
        selected = self._state.selected_per_group[number]
        mark = "▸" if number in self._state.listing.closed else "▾"
        partial = filter(self._is_part, (*self._state.parts, *self._state.resolutions))
        is_part = any(number in self._state.listing.groups_of(key) for key in partial)
        is_all = (
            selected == group.mergeable_count and not is_part and all(key in self._state.selection for key in group.held_back)
        )
        box = _box(is_possible=group.mergeable_count > 0, is_all=is_all, is_some=selected > 0)
        indent, title = "  " * group.depth, clean_text(self._title(group))
        right = self._numbers(group, selected, cells - 8 - len(indent) - min(width(title), _MIN_TITLE))
        name = crop_start(title, cells - 6 - sum(width(piece.text) for piece in right) - len(indent))
        tone = Tone.RISK if group.section is Section.RISKY else Tone.STRONG
        return align_row([Piece(indent), box, Piece(f" {mark} ", Tone.DIM), Piece(name, tone)], right, cells)

    def _numbers(self, group: Group, selected: int, cells: int) -> list[Piece]:
        """Return the number of changes of a group; of a renamed directory also its lines, and how many files need review."""
        count = len(group.every_key)
        number = f" {selected:,} of {count:,}" if selected else f" {count:,}"
        if group.section is not Section.RENAMED:
            return [Piece(f"{number} ", Tone.DIM)]
        known = [self._state.counts[key] for key in group.keys if key in self._state.counts]
        inserted, deleted = sum(one.insertions for one in known), sum(one.deletions for one in known)
        first = [Piece(f"{number} file{'s' * (count != 1)}", Tone.DIM)]
        lines = [Piece(f" +{inserted:,}", Tone.ADDED)] if inserted else []
        lines += [Piece(f" -{deleted:,}", Tone.REMOVED)] if deleted else []
        held = len(group.held_back)
        need = [Piece(f" {RISK_SIGN} {held:,} need{'s' * (held == 1)} review", Tone.RISK)] if held else []
        short = [Piece(f" {RISK_SIGN} {held:,}", Tone.RISK)] if held else []
        variants = [[*first, *lines, *need], [*first, *lines, *short], [*first, *short]]
        fitting = (pieces for pieces in variants if sum(width(piece.text) for piece in pieces) < cells)
        return [*next(fitting, variants[-1]), Piece(" ")]

    def _title(self, group: Group) -> str:
        if group.section in _TITLES:
            return _TITLES[group.section]
        path = path_text(group.path)
        if group.section is Section.RENAMED:
            return f"{path_text(group.origin)}/ → {path or '.'}/"
        if group.parent >= 0:
            return path.rpartition("/")[2] + "/"
        directory = path + "/" if path else ""
        roots = self._source.roots
        if group.root == 0 or group.root >= len(roots):
            return directory or "./"
        return f"{roots[group.root].rstrip('/')}/{directory}"

    def _change(self, group: Group, change: Change, cells: int) -> list[Piece]:
        is_selected = change.key in self._state.selection
        is_possible = change.is_clean and not self._blocked_by(change)
        box = _box(is_possible=is_possible, is_all=is_selected and not self._is_part(change.key), is_some=is_selected)
        indent = "  " * group.depth
        sign = Piece(f" {'✓' if change.key in self._state.reviewed else ' '} {SIGNS[change.kind]}", _TONES[change.kind])
        risk = Piece(RISK_SIGN if change.risks else " ", Tone.RISK)
        label, space = clean_text(_label(group, change)), cells - 9 - len(indent)
        right = self._right(change, max(10, space - 2 - width(label)))
        left = space - sum(width(piece.text) for piece in right)
        name = crop_start(label, left)
        tone = Tone.PLAIN if change.is_clean else Tone.DIM
        commit = self._commit(change)
        if commit and width(name) + sum(width(piece.text) for piece in (*commit, *right)) < space:
            right = [*commit, *right] if right else [*commit, Piece(" ")]
            left = space - sum(width(piece.text) for piece in right)
        origin = [] if group.section is Section.RENAMED else _origin(change, left - width(name))
        return align_row([Piece(indent), box, sign, risk, Piece(" "), Piece(name, tone), *origin], right, cells)

    def _is_part(self, key: Key) -> bool:
        return is_partly_selected(self._state, self._source, key)

    def _commit(self, change: Change) -> list[Piece]:
        """Return the short id of a change's commit; nothing if the session has no commits."""
        commit = self._state.change_commits.get(change.key)
        return [] if commit is None else [Piece(f" {commit[:_SHORT_ID] or 'uncommitted'}", Tone.DIM)]

    def _blocked_by(self, change: Change) -> str:
        """Return a message about the change to resolve first, such as the other half of a rename; "" for none."""
        table = self._state.changes.by_key()
        blocker = next((key for key in change.requires if key in table and not table[key].is_clean), None)
        return f"requires {path_text(blocker.path)}, see there" if blocker is not None else ""

    def _right(self, change: Change, cells: int) -> list[Piece]:
        reason = change.obstacle or change.conflict or self._blocked_by(change)
        if reason:
            return [Piece(" " + crop_words(clean_text(reason), cells) + " ", Tone.ERROR)]
        label = outcome.outcome_of(change)
        has_note = any((note.root, note.path) == (change.key.root, change.key.path) for note in self._state.notes)
        pieces = [Piece(f" {NOTE_SIGN}", "accent")] if has_note else []
        pieces += [Piece(f" {label}", Tone.CHANGED)] if change.is_combined else []
        count = self._state.counts.get(change.key)
        if count is None:
            return [*pieces, Piece(" ")] if pieces else []
        pieces += [Piece(f" +{count.insertions:,}", Tone.ADDED)] if count.insertions else []
        pieces += [Piece(f" -{count.deletions:,}", Tone.REMOVED)] if count.deletions else []
        return [*pieces, Piece(" ")] if pieces else []


def is_partly_selected(state: State, source: ReviewedSession, key: Key) -> bool:
    """Return whether only a part of a change is selected: some lines, or a resolution without some of the agent's edits."""
    answers = state.resolutions.get(key, ())
    is_left_out = bool(answers) and outcome.has_left_out(source.line_merge(key), answers)
    return key in state.selection and (key in state.selection.partial or is_left_out)


def _label(group: Group, change: Change) -> str:
    path = path_text(change.key.path)
    if group.section is Section.RENAMED:
        return path[len(path_text(group.path)) :].lstrip("/")
    return path.rpartition("/")[2] if group.section is Section.DIRECTORY else path


def _origin(change: Change, cells: int) -> list[Piece]:
    """Return which file was renamed or copied, if there is space for it."""
    origin, sign = clean_text(origin_name(change)), " copied from " if change.copied_from else " ← "
    is_shown = bool(origin) and cells - len(sign) >= _MIN_ORIGIN - 3
    return [Piece(f"{sign}{crop_start(origin, cells - len(sign))}", Tone.DIM)] if is_shown else []


def _box(*, is_possible: bool, is_all: bool, is_some: bool) -> Piece:
    if not is_possible:
        return Piece(f" {BLOCKED_SIGN} ", Tone.ERROR)
    if not is_some:
        return Piece("[ ]", Tone.DIM)
    return Piece("[x]", "selected") if is_all else Piece("[~]", Tone.CHANGED)
