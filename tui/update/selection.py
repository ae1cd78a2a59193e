"""Update the selection, its undo and redo, reviewed marks; open files in an editor."""

from collections.abc import Mapping
from typing import assert_never

from agent_dev.diff.partial_selection import LineSelection as Part
from agent_dev.diff.partial_selection import SelectionState
from agent_dev.fs.entry import FileType, Key
from agent_dev.overlay import selection as core
from agent_dev.overlay.changes import Change
from agent_dev.overlay.selection import EMPTY_SELECTION, Selection
from agent_dev.quick_dataclass import replace
from tui.effects import EditConflict, ViewFile
from tui.events import (
    AllDeselected,
    AllToggled,
    ConflictResolved,
    EditRequested,
    KindToggled,
    Pane,
    ReviewedToggled,
    SelectionEvent,
    SelectionRedone,
    SelectionUndone,
    Toggled,
)
from tui.model.change_list import ChangeRow, HeadingRow, ListRow
from tui.model.document import DiffRow, Document
from tui.model.tabs import Tab
from tui.model.totals import LineCount
from tui.state import State, Transition, UndoStep, with_selection
from tui.update import cursor, display, line_selection, resolution
from tui.update import toggle as choices

_MAX_UNDO = 500  # steps
_READ_ONLY = "read-only: the agent is still running"


def update_selection(state: State, event: SelectionEvent) -> Transition:
    """Handle a selection event."""
    match event:
        case ReviewedToggled():
            return _toggle_reviewed(state)
        case EditRequested():
            return _edit(state)
        case _ if state.is_running:
            return replace(state, message=_READ_ONLY), ()
        case ConflictResolved(side):
            return resolution.resolve(state, side)
        case _ if state.tab is Tab.COMMITS:
            return cursor.reload_current(_select_commits(state, event))
        case _:
            return _select(state, event)


def select_at_cursor(state: State) -> Transition:
    """Select the item under the diff's cursor, or those of the marked range; one that is selected, even partly, stays so."""
    if edits := resolution.edits_at(state, None, Pane.DIFF):
        left_out = resolution.left_out(state, edits)
        return resolution.toggle_edits(_unmarked(state), left_out) if left_out else (_unmarked(state), ())
    return (_unmarked(state), ()) if _is_selected_at_cursor(state) else update_selection(state, Toggled())


def _is_selected_at_cursor(state: State) -> bool:
    change, document = state.change, state.diff.document
    if state.tab is Tab.COMMITS:
        return state.entry is not None and state.entry.id in state.selected_commits
    if change is None or not (change.is_clean and document.has_selectable_lines):
        return change is not None and change.key in state.selection
    rows, choice = _selectable_rows(state, None), line_selection.selection_of(state.selection, document)
    is_lines = _selects_lines(state, None)
    states = {line_selection.row_state(row, choice, document, is_lines=is_lines) for row in rows}
    return bool(states) and SelectionState.NONE not in states


def _select_commits(state: State, event: SelectionEvent) -> State:
    """Select or deselect one commit, all or none."""
    every = frozenset(one.id for one in state.tabs.get(Tab.COMMITS, ()) if one.id)
    match event:
        case Toggled(row, pane):
            entries = state.tabs[Tab.COMMITS]
            index = state.cursor if row is None or pane is Pane.DIFF else row
            if index < len(entries) and not entries[index].id:
                is_imported = entries[index].title.endswith("(imported)")
                other = "only commits can be selected here; files on the Changes tab (1)"
                return replace(state, message="imported already" if is_imported else other)
            picked = state.selected_commits ^ {entries[index].id} if index < len(entries) else state.selected_commits
        case AllToggled():
            picked = frozenset() if every <= state.selected_commits else every
        case AllDeselected():
            picked = frozenset[str]()
        case _:
            return replace(state, message="space: select a commit, A: all, c: import")
    return replace(state, selected_commits=picked)


SelectingEvent = Toggled | AllToggled | AllDeselected | KindToggled | SelectionUndone | SelectionRedone


def _select(state: State, event: SelectingEvent) -> Transition:
    if isinstance(event, Toggled) and (edits := resolution.edits_at(state, event.row, event.pane or state.pane)):
        return resolution.toggle_edits(_unmarked(state), edits)
    return _selected(state, event), ()


def _selected(state: State, event: SelectingEvent) -> State:
    match event:
        case Toggled(row, pane):
            return _toggle(state, row, pane or state.pane)
        case AllToggled():
            return _apply(state, choices.toggle_all_safe(state.selection, state.changes, _listed(state)))
        case AllDeselected():
            return _apply(state, (EMPTY_SELECTION, "nothing selected (u: undo)"))
        case KindToggled():
            change, listed = state.change, _listed(state)
            return _apply(state, choices.toggle_kind(state.selection, change.kind, state.changes, listed)) if change else state
        case SelectionUndone():
            return _undo(state)
        case SelectionRedone():
            return _redo(state)
        case _:
            assert_never(event)


def _listed(state: State) -> frozenset[Key] | None:
    """Return the listed changes; None if none are hidden by the filter or as reviewed."""
    listed = state.listing.group_of
    return frozenset(listed) if len(listed) < len(state.changes.changes) else None


def _toggle(state: State, row: int | None, pane: Pane) -> State:
    if state.tab is not Tab.CHANGES:
        return replace(state, message="enter: go to the change and select it there")
    if pane is Pane.DIFF:
        return _toggle_diff_rows(state, row)
    if row is None and state.list_anchor >= 0:
        return _toggle_range(state)
    return _toggle_row(state, state.row if row is None else state.listing.rows[row])


def _toggle_range(state: State) -> State:
    """Select or deselect the changes in the marked range of the list, and those that a closed heading in it hides."""
    keys: set[Key] = set()
    for row in map(state.listing.rows.__getitem__, state.marked_rows):
        if isinstance(row, ChangeRow):
            keys.add(row.key)
        elif isinstance(row, HeadingRow) and row.group in state.listing.closed:
            keys.update(state.listing.groups[row.group].every_key)
    return _apply(replace(state, list_anchor=-1), choices.toggle_changes(state.selection, keys, state.changes))


def _toggle_row(state: State, row: ListRow | None) -> State:
    match row:
        case ChangeRow(_, key):
            return _apply(state, choices.toggle_change(state.selection, state.changes.by_key()[key], state.changes))
        case HeadingRow(group):
            return _apply(state, choices.toggle_changes(state.selection, state.listing.groups[group].every_key, state.changes))
        case _:
            return state


def _toggle_diff_rows(state: State, row: int | None) -> State:
    """Select or deselect the items of the marked rows of the diff."""
    document, change = state.diff.document, state.change
    if change is None:
        return state
    if not change.is_clean or not document.has_selectable_lines:
        return _toggle_row(_unmarked(state), state.row)
    rows = _selectable_rows(state, row)
    if not rows:
        return replace(state, message="nothing to select on this row (]: next hunk)")
    choice, is_lines = line_selection.selection_of(state.selection, document), _selects_lines(state, row)
    toggled = line_selection.toggle_rows(choice, rows, document, is_lines=is_lines)
    return _with_choice(_unmarked(state), change, document, toggled)


def _selectable_rows(state: State, row: int | None) -> list[DiffRow]:
    """Return a row of the diff (None: the marked rows), without those that cannot be selected."""
    marked, rows = range(row, row + 1) if row is not None else state.diff.marked_rows, state.diff.document.rows
    return [rows[index] for index in marked if index < len(rows) and (rows[index].hunk >= 0 or rows[index].part)]


def _selects_lines(state: State, row: int | None) -> bool:
    return state.display_options.selects_lines or (row is None and len(state.diff.marked_rows) > 1)


def _unmarked(state: State) -> State:
    return replace(state, diff=replace(state.diff, anchor=-1)) if state.diff.anchor >= 0 else state


def _with_choice(state: State, change: Change, document: Document, choice: Part) -> State:
    normalized, message = line_selection.normalize(choice, change, document)
    keys, parts = frozenset((change.key,)), dict(state.parts)
    parts.pop(change.key, None)
    if isinstance(normalized, bool):
        update = core.select if normalized else core.deselect
        new = update(state.selection, keys, state.changes)
    else:
        new = core.select_part(state.selection, change.key, normalized, state.changes)
        parts[change.key] = line_selection.count_selected(normalized, document)
    if change.key not in new and normalized is not False:
        return replace(state, message="cannot be selected: a change that it requires cannot be merged")
    return _apply(state, (new, message), parts)


# Undo and redo


def _apply(state: State, result: tuple[Selection, str], parts: Mapping[Key, LineCount] | None = None) -> State:
    """Set the selection and the status message, and record the change for undo."""
    new = with_selection(state, result[0], result[1], parts)
    if new.selection == state.selection:
        return new
    return replace(new, undo_steps=(*state.undo_steps, _difference(state, new))[-_MAX_UNDO:], redo_steps=())


def _difference(old: State, new: State) -> UndoStep:
    added, removed = new.selection.keys - old.selection.keys, old.selection.keys - new.selection.keys
    return UndoStep(added, removed, old.selection.partial, old.parts)


def _undo(state: State) -> State:
    if not state.undo_steps:
        return replace(state, message="nothing to undo")
    new = _restored(state, state.undo_steps[-1], "selection undone")
    return replace(new, undo_steps=state.undo_steps[:-1], redo_steps=(*state.redo_steps, _difference(state, new)))


def _redo(state: State) -> State:
    if not state.redo_steps:
        return replace(state, message="nothing to redo")
    new = _restored(state, state.redo_steps[-1], "selection redone")
    return replace(new, undo_steps=(*state.undo_steps, _difference(state, new)), redo_steps=state.redo_steps[:-1])


def _restored(state: State, one: UndoStep, message: str) -> State:
    keys = (state.selection.keys - one.added) | one.removed
    return with_selection(state, Selection(keys, one.old_choices), message, one.old_parts)


# Reviewed marks


def _toggle_reviewed(state: State) -> Transition:
    match state.row:
        case ChangeRow(_, key):
            keys = frozenset((key,))
        case HeadingRow(group):
            keys = frozenset(state.listing.groups[group].keys)
        case _:
            return state, ()
    was_reviewed = keys <= state.reviewed
    reviewed = state.reviewed - keys if was_reviewed else state.reviewed | keys
    left = len(state.changes.changes) - len(reviewed)
    message = "not reviewed" if was_reviewed else f"reviewed; {left:,} left"
    new = replace(state, reviewed=reviewed, message=message)
    if not state.display_options.hides_reviewed:
        return new, ()
    return cursor.load_current(display.rebuild_list(new))


# Editors


def _edit(state: State) -> Transition:
    """Open the conflict under the cursor in an editor; a file without one is only shown."""
    change, document = state.change, state.diff.document
    if state.tab is not Tab.CHANGES or change is None:
        return replace(state, message="no file here"), ()
    if document.conflict_count > 0:
        return state, (EditConflict(change.key),)
    if change.after is None or change.after.type is not FileType.FILE:
        return replace(state, message="no file of the agent's to open"), ()
    at = state.diff.cursor if state.pane is Pane.DIFF else next(iter(document.hunk_rows), 0)
    rows = [one.new_line for one in document.rows[at:] if one.new_line >= 0]
    return state, (ViewFile(change.key, rows[0] + 1 if rows else 1),)
