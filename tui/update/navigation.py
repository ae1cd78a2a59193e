"""In and out: directories, the diff, tabs; and what escape gives up, one thing after another."""

from dataclasses import replace
from typing import assert_never

from tui.effects import Finish, ReadEntries
from tui.events import NO, Backed, Entered, Escaped, Opened, Pane, PaneSwapped, TabTurned, Toggled, Walk
from tui.model import change_list as rows
from tui.model.change_list import ChangeRow, HeadRow, NoteRow, ProblemRow
from tui.model.tabs import Tab
from tui.state import Face, State, Step
from tui.update import cursor as moving
from tui.update import selection as choosing
from tui.update import view as viewing


def walk(state: State, event: Walk) -> Step:
    """Go in or out."""
    match event:
        case PaneSwapped():
            return moving.on_pane(state, Pane.DIFF if state.pane is Pane.LIST else Pane.LIST), ()
        case Backed():
            return _back(state)
        case Escaped():
            return _escape(state)
        case TabTurned(tab):
            return _turn(state, tab)
        case Entered():
            return _enter(state)
        case Opened():
            return (state, ()) if state.pane is Pane.DIFF else _open(state)
        case _:
            assert_never(event)


def _enter(state: State) -> Step:
    if state.pane is Pane.DIFF:
        return _choose_and_go_on(state) if state.tab in (Tab.CHANGES, Tab.COMMITS) else _back(state)
    is_open = isinstance(state.row, HeadRow) and state.row.group not in state.listing.closed
    return (_fold(state, closed=True), ()) if is_open else _open(state)


def _choose_and_go_on(state: State) -> Step:
    """Choose the block and go to the next one; behind the last one to the next change."""
    made, effects = choosing.choose(state, Toggled())
    onward = moving.to_block(made, 1)
    if onward.diff.cursor != made.diff.cursor:
        return replace(onward, word=made.word), effects
    there, more = moving.to_change(moving.on_pane(made, Pane.LIST), 1)
    return replace(there, word=made.word or there.word), (*effects, *more)


def _open(state: State) -> Step:
    if state.entry is not None and state.tab is not Tab.CHANGES:
        return _to_entry(state)
    match state.row:
        case ChangeRow():
            return moving.on_pane(state, Pane.DIFF), ()
        case HeadRow(group) if group in state.listing.closed:
            return _fold(state, closed=False), ()
        case HeadRow():
            return moving.at(state, min(state.cursor + 1, state.length - 1))
        case ProblemRow() | NoteRow() | None:
            return state, ()
        case _:
            assert_never(state.row)


def _to_entry(state: State) -> Step:
    """Go from an entry to the change that it is about, or to what is told of it."""
    key = state.entry.key if state.entry else None
    if key is None:
        return moving.on_pane(state, Pane.DIFF), ()
    there, _ = _turn(state, Tab.CHANGES)
    row = there.listing.row_of(key)
    if row < 0:
        there = viewing.filtered(there, "")
        row = there.listing.row_of(key)
    if not isinstance(there.listing.rows[row], ChangeRow):
        there = replace(there, listing=rows.with_closed(there.listing, there.listing.group_of[key], closed=False))
        row = there.listing.row_of(key)
    return moving.at(there, max(row, 0))


def _back(state: State) -> Step:
    if state.pane is Pane.DIFF:
        return moving.on_pane(state, Pane.LIST), ()
    match state.row:
        case ChangeRow(group):
            return moving.at(state, state.listing.head(group))
        case HeadRow(group) if group in state.listing.closed and state.listing.groups[group].parent >= 0:
            return moving.at(state, state.listing.head(state.listing.groups[group].parent))
        case HeadRow():
            return _fold(state, closed=True), ()
        case ProblemRow() | NoteRow() | None:
            return state, ()
        case _:
            assert_never(state.row)


def _fold(state: State, *, closed: bool) -> State:
    if not isinstance(state.row, HeadRow):
        return state
    return replace(state, listing=rows.with_closed(state.listing, state.row.group, closed=closed))


def _escape(state: State) -> Step:
    """Give up a range, then a search, the diff, the tab, a filter; then it is the wish to leave."""
    if state.diff.anchor >= 0:
        return replace(state, diff=replace(state.diff, anchor=-1)), ()
    if state.search:
        return replace(state, search="", word="the search is over"), ()
    if state.pane is Pane.DIFF:
        return _back(state)
    if state.tab is not Tab.CHANGES:
        return _turn(state, Tab.CHANGES)
    if state.listing.sieve.text:
        return moving.shown(viewing.filtered(state, ""))
    return leave(state)


def leave(state: State) -> Step:
    """Leave at once when nothing is chosen, else ask."""
    if not (state.selection.keys or state.picked):
        return state, (Finish(),)
    return replace(state, face=Face.LEAVE, answer=NO, word=""), ()


def _turn(state: State, tab: Tab) -> Step:
    if tab is state.tab:
        return state, ()
    if tab is not Tab.CHANGES and not state.tabs.get(tab):
        return replace(state, word=f"there are no {tab} here"), ()
    there = replace(moving.on_pane(state, Pane.LIST), tab=tab, cursor=0)
    if tab is Tab.CHANGES:
        first = next((row for row, one in enumerate(there.listing.rows) if isinstance(one, ChangeRow)), 0)
        return moving.at(there, first)
    shown, effects = moving.shown(there)
    return shown, ((*effects, ReadEntries(tab)) if tab is Tab.COMMITS and not state.is_told else effects)
