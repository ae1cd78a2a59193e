"""Update the cursors (by rows, or to changes, hunks, risks and matches), and the diff of the current change."""

from typing import assert_never

from agent_dev.fs.entry import Key
from agent_dev.quick_dataclass import replace
from tui.effects import Effect, LoadDiff, Search
from tui.events import ChangeMoved, CursorMoved, CursorMovedTo, HunkMoved, Movement, Pane, RiskMoved, ScrolledHorizontally
from tui.model.change_list import ChangeRow, HeadingRow
from tui.model.diff import MAX_LISTED_NAMES, heading_document
from tui.model.document import Document
from tui.model.tabs import Tab
from tui.state import DiffPane, State, Transition
from tui.update import tabs


def update_cursor(state: State, event: Movement) -> Transition:
    """Move a cursor."""
    match event:
        case CursorMoved(by, is_range):
            return move_to(_with_anchor(state, is_range=is_range), cursor_row(state) + by)
        case CursorMovedTo(row, pane):
            focused = focus_pane(state, pane or state.pane)
            return move_to(focused, row if row >= 0 else row_count(focused) - 1)
        case ChangeMoved(by):
            return _to_match(state, by) if state.search else move_to_change(state, by)
        case RiskMoved(by):
            return _to_risk(state, by)
        case HunkMoved(by):
            return move_to_hunk(state, by), ()
        case ScrolledHorizontally(by):
            shift = max(0, min(state.diff.horizontal_offset + by, state.diff.document.max_width - 1))
            return replace(state, diff=replace(state.diff, horizontal_offset=shift)), ()
        case _:
            assert_never(event)


def _with_anchor(state: State, *, is_range: bool) -> State:
    if is_range and state.pane is Pane.LIST and state.tab is Tab.CHANGES and state.list_anchor < 0:
        return replace(state, list_anchor=state.cursor)
    if not is_range or state.pane is Pane.LIST or state.diff.anchor >= 0:
        return state
    return replace(state, diff=replace(state.diff, anchor=state.diff.cursor))


def cursor_row(state: State) -> int:
    """Return the cursor of the focused pane."""
    return state.cursor if state.pane is Pane.LIST else state.diff.cursor


def row_count(state: State) -> int:
    """Return the number of rows of the focused pane."""
    return state.row_count if state.pane is Pane.LIST else state.diff.row_count


def move_to(state: State, row: int) -> Transition:
    """Move the cursor of the focused pane to a row."""
    target = max(0, min(row, row_count(state) - 1))
    if state.pane is Pane.LIST:
        return move_list_to(state, target)
    return replace(state, diff=replace(state.diff, cursor=target)), ()


def move_list_to(state: State, row: int) -> Transition:
    """Move the list's cursor to a row, and load its diff."""
    return load_current(replace(state, cursor=row))


def load_current(state: State) -> Transition:
    """Load the diff of the item under the cursor, unless it is shown already."""
    change = state.change
    if change is None:
        return replace(focus_pane(state, state.pane), diff=DiffPane(document=_description(state))), ()
    if change.key == state.diff.key:
        return state, ()
    return replace(state, diff=DiffPane(change.key, Document(change.key), is_loaded=False)), (load_effect(state, change.key),)


def _description(state: State) -> Document:
    """Return the document of a heading, or of an entry of another tab."""
    if state.entry is not None and state.tab is not Tab.CHANGES:
        return tabs.entry_document(state.entry, state.diff_options.columns, is_selected=state.entry.id in state.selected_commits)
    if isinstance(state.row, HeadingRow):
        group, table = state.listing.groups[state.row.group], state.changes.by_key()
        return heading_document(group.section, [table[key] for key in group.keys[:MAX_LISTED_NAMES]], len(group.keys))
    return Document(None)


def load_effect(state: State, key: Key) -> Effect:
    """Return the effect that loads a diff with the current options."""
    notes = tuple(note for note in state.notes if (note.root, note.path) == (key.root, key.path))
    return LoadDiff(key, state.diff_options, state.resolutions.get(key, ()), notes)


def reload_current(state: State) -> Transition:
    """Load the diff again with the current options; the details of an entry are rebuilt here."""
    if state.entry is not None and state.tab is not Tab.CHANGES:
        return replace(state, diff=replace(state.diff, document=_description(state))), ()
    return state, ((load_effect(state, state.diff.key),) if state.diff.key else ())


def move_to_change(state: State, by: int) -> Transition:
    """Move to the next or previous change."""
    if state.tab is not Tab.CHANGES:
        return move_list_to(state, max(0, min(state.cursor + by, state.row_count - 1)))
    ahead = range(state.cursor + 1, len(state.listing.rows)) if by > 0 else range(state.cursor - 1, -1, -1)
    target = next((row for row in ahead if isinstance(state.listing.rows[row], ChangeRow)), None)
    if target is None:
        return replace(state, message="last change" if by > 0 else "first change"), ()
    return move_list_to(state, target)


def _to_risk(state: State, by: int) -> Transition:
    if state.tab is not Tab.CHANGES:
        return _to_entry(state, tabs.next_risky_row(state, by), "no risky entries")
    rows, table = state.listing.rows, state.changes.by_key()
    ahead = [*range(state.cursor + 1, len(rows)), *range(state.cursor)]
    for row in ahead if by > 0 else reversed(ahead):
        one = rows[row]
        if isinstance(one, ChangeRow) and (table[one.key].risks or not table[one.key].is_clean):
            return move_list_to(state, row)
    return replace(state, message="no risky changes or conflicts"), ()


def _to_entry(state: State, row: int | None, message: str) -> Transition:
    return (replace(state, message=message), ()) if row is None else move_list_to(state, row)


def move_to_hunk(state: State, by: int) -> State:
    """Move to the next or previous hunk of the diff."""
    row, starts = state.diff.cursor, state.diff.document.hunk_rows
    targets = [start for start in starts if start > row][:1] if by > 0 else [start for start in starts if start < row][-1:]
    if not targets:
        unit, whole = ("file", "commit") if state.tab is Tab.COMMITS else ("hunk", "change")
        message = f"last {unit} (n: next {whole})" if by > 0 else f"first {unit}"
        return replace(state, message=message if starts else f"no {unit}s")
    return replace(state, diff=replace(state.diff, cursor=targets[0]))


def focus_pane(state: State, pane: Pane) -> State:
    """Focus a pane; the diff pane only if it shows a change or an entry."""
    if pane is Pane.DIFF and state.change is None and (state.tab is Tab.CHANGES or state.entry is None):
        pane = Pane.LIST
    if pane is state.pane:
        return state
    diff = replace(state.diff, anchor=-1)
    if pane is Pane.DIFF and not diff.cursor and diff.document.key is not None:
        diff = replace(diff, cursor=first_selectable_row(diff.document))
    return replace(state, pane=pane, diff=diff, list_anchor=-1)


def first_selectable_row(document: Document) -> int:
    """Return the row at which the diff pane is entered: one that can be selected, or the first hunk."""
    first = document.hunk_rows[0] if document.hunk_rows else 0
    return next((row for row, one in enumerate(document.rows[:first]) if one.part is not None), first)


# Matches of a search


def _to_match(state: State, by: int) -> Transition:
    """Move to the next match in this diff, or else search the next changes."""
    if state.tab is not Tab.CHANGES:
        return search_changes(state, by)
    rows, needle = state.diff.document.rows, state.search
    ahead = range(state.diff.cursor + 1, len(rows)) if by > 0 else range(state.diff.cursor - 1, -1, -1)
    for row in ahead:
        if row_contains(state.diff.document, row, needle):
            focused = focus_pane(state, Pane.DIFF)
            return replace(focused, diff=replace(focused.diff, cursor=row)), ()
    return search_changes(state, by)


def search_changes(state: State, by: int) -> Transition:
    """Search the changes after or before the cursor, with wrap-around; on another tab its entries."""
    if state.tab is not Tab.CHANGES:
        return _to_entry(state, tabs.next_match_row(state, by), f"not found: {state.search}")
    rows = state.listing.rows
    order = [*range(state.cursor + 1, len(rows)), *range(min(state.cursor + 1, len(rows)))]
    if by < 0:
        order = [*range(state.cursor - 1, -1, -1), *range(len(rows) - 1, state.cursor - 1, -1)]
    keys = tuple(one.key for one in map(rows.__getitem__, order) if isinstance(one, ChangeRow))
    return replace(state, message=f"searching for {state.search} …"), (Search(state.search, keys, state.diff_options),)


def row_contains(document: Document, row: int, needle: str) -> bool:
    """Return whether a row contains the searched text, ignoring case. The path above a diff is not searched."""
    one = document.rows[row]
    if one.is_path:
        return False
    texts: list[str | bytes] = [one.text, *(cell for cell in one.cells if cell)]
    texts += [document.old_lines[one.old_line]] if one.old_line >= 0 else []
    texts += [document.new_lines[one.new_line]] if one.new_line >= 0 and one.new_line < len(document.new_lines) else []
    return any(tabs.contains_text(text, needle) for text in texts)
