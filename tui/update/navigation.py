"""Update the focus: open and close directories, the diff and tabs; the Escape key."""

from typing import assert_never

from agent_dev.quick_dataclass import replace
from tui.effects import LoadEntries, Quit
from tui.events import NO, EnterPressed, EscapePressed, Navigation, Pane, PaneSwitched, StepIn, StepOut, TabSelected
from tui.model import change_list
from tui.model.change_list import ChangeRow, HeadingRow, NoteRow, ProblemRow
from tui.model.tabs import Tab
from tui.state import ScreenPage, State, Transition
from tui.update import cursor, display, selection


def navigate(state: State, event: Navigation) -> Transition:
    """Handle a navigation event."""
    match event:
        case PaneSwitched():
            return cursor.focus_pane(state, Pane.DIFF if state.pane is Pane.LIST else Pane.LIST), ()
        case StepOut():
            return _back(state)
        case EscapePressed():
            return _escape(state)
        case TabSelected(tab):
            return _switch_tab(state, tab)
        case EnterPressed():
            return _enter(state)
        case StepIn():
            return (state, ()) if state.pane is Pane.DIFF else _open(state)
        case _:
            assert_never(event)


def _enter(state: State) -> Transition:
    if state.pane is Pane.DIFF:
        return _select_and_advance(state) if state.tab in (Tab.CHANGES, Tab.COMMITS) else _back(state)
    is_open = isinstance(state.row, HeadingRow) and state.row.group not in state.listing.closed
    return (_fold(state, closed=True), ()) if is_open else _open(state)


def _select_and_advance(state: State) -> Transition:
    """Select the hunk (or the commit) under the cursor and move to the next one; after the last hunk, to the next change."""
    selected, effects = selection.select_at_cursor(state)
    advanced = cursor.move_to_hunk(selected, 1)
    if advanced.diff.cursor != selected.diff.cursor and state.tab is Tab.CHANGES:
        return replace(advanced, message=selected.message), effects
    advanced, more = cursor.move_to_change(cursor.focus_pane(selected, Pane.LIST), 1)
    return replace(advanced, message=selected.message or advanced.message), (*effects, *more)


def _open(state: State) -> Transition:
    if state.entry is not None and state.tab is not Tab.CHANGES:
        return _to_entry(state)
    match state.row:
        case ChangeRow():
            return cursor.focus_pane(state, Pane.DIFF), ()
        case HeadingRow(group) if group in state.listing.closed:
            return _fold(state, closed=False), ()
        case HeadingRow():
            return cursor.move_list_to(state, min(state.cursor + 1, state.row_count - 1))
        case ProblemRow() | NoteRow() | None:
            return state, ()
        case _:
            assert_never(state.row)


def _to_entry(state: State) -> Transition:
    """Move from an entry to its change, or to its details."""
    key = state.entry.key if state.entry else None
    if key is None:
        return cursor.focus_pane(state, Pane.DIFF), ()
    new, effects = _switch_tab(state, Tab.CHANGES)
    row = new.listing.row_of(key)
    if row < 0:
        new = display.with_filter(new, "")
        row = new.listing.row_of(key)
    if not isinstance(new.listing.rows[row], ChangeRow):
        new = replace(new, listing=change_list.with_group_closed(new.listing, new.listing.group_of[key], closed=False))
        row = new.listing.row_of(key)
    moved, more = cursor.move_list_to(new, max(row, 0))
    return replace(cursor.focus_pane(moved, Pane.DIFF), returns_to=state.tab), (*effects, *more)


def _back(state: State) -> Transition:
    if state.pane is Pane.DIFF:
        return cursor.focus_pane(state, Pane.LIST), ()
    match state.row:
        case ChangeRow(group):
            return cursor.move_list_to(state, state.listing.heading_row(group))
        case HeadingRow(group) if group in state.listing.closed and state.listing.groups[group].parent >= 0:
            return cursor.move_list_to(state, state.listing.heading_row(state.listing.groups[group].parent))
        case HeadingRow():
            return _fold(state, closed=True), ()
        case ProblemRow() | NoteRow() | None:
            return state, ()
        case _:
            assert_never(state.row)


def _fold(state: State, *, closed: bool) -> State:
    if not isinstance(state.row, HeadingRow):
        return state
    listing = change_list.with_group_closed(state.listing, state.row.group, closed=closed)
    return replace(state, listing=listing, list_anchor=-1)


def _escape(state: State) -> Transition:
    """Cancel a range, else a search; else leave the change opened from a tab, the diff, the tab or the filter; else quit."""
    if state.list_anchor >= 0 or state.diff.anchor >= 0:
        return replace(state, list_anchor=-1, diff=replace(state.diff, anchor=-1)), ()
    if state.search:
        return replace(state, search="", message="search ended"), ()
    return _leave(state)


def _leave(state: State) -> Transition:
    if state.returns_to is not None:
        return _switch_tab(state, state.returns_to)
    if state.pane is Pane.DIFF:
        return _back(state)
    if state.tab is not Tab.CHANGES:
        return _switch_tab(state, Tab.CHANGES)
    if state.listing.filter.text:
        return cursor.load_current(display.with_filter(state, ""))
    return quit_review(state)


def quit_review(state: State) -> Transition:
    """Quit, after a question if something is selected."""
    if not (state.selection.keys or state.selected_commits):
        return state, (Quit(),)
    return replace(state, page=ScreenPage.QUIT, focused_answer=NO, message=""), ()


def _switch_tab(state: State, tab: Tab) -> Transition:
    if tab is state.tab:
        return state, ()
    if tab is not Tab.CHANGES and not state.tabs.get(tab):
        return replace(state, message=f"no {'connections' if tab is Tab.NETWORK else tab}"), ()
    cursors = {**state.tab_cursors, state.tab: state.cursor}
    new = replace(cursor.focus_pane(state, Pane.LIST), tab=tab, cursor=0, tab_cursors=cursors, list_anchor=-1, returns_to=None)
    new = replace(new, cursor=max(0, min(cursors.get(tab, 0), new.row_count - 1)))
    if tab is Tab.CHANGES:
        first = next((row for row, one in enumerate(new.listing.rows) if isinstance(one, ChangeRow)), 0)
        return cursor.move_list_to(new, new.cursor if tab in cursors else first)
    shown, effects = cursor.load_current(new)
    return shown, ((*effects, LoadEntries(tab)) if tab is Tab.COMMITS and not state.has_commit_details else effects)
