"""Cursors: by rows, to changes, blocks, risks and matches; and the diff that belongs beside the list."""

from dataclasses import replace
from typing import assert_never

from agent_dev.overlay.changes import Key
from tui.effects import Effect, Load, Seek
from tui.events import BlockMoved, ChangeMoved, Moved, MovedTo, Movement, Pane, RiskMoved, Shifted
from tui.model.change_list import ChangeRow, HeadRow
from tui.model.diff import FOLLOWING, overview
from tui.model.document import Document
from tui.model.tabs import Tab
from tui.state import Diff, State, Step
from tui.update import tabs as telling


def move(state: State, event: Movement) -> Step:
    """Move a cursor."""
    match event:
        case Moved(by, is_range):
            return to(_with_anchor(state, is_range=is_range), cursor(state) + by)
        case MovedTo(row, pane):
            there = on_pane(state, pane or state.pane)
            return to(there, row if row >= 0 else length(there) - 1)
        case ChangeMoved(by):
            return _to_match(state, by) if state.search else to_change(state, by)
        case RiskMoved(by):
            return _to_risk(state, by)
        case BlockMoved(by):
            return to_block(state, by), ()
        case Shifted(by):
            shift = max(0, min(state.diff.shift + by, state.diff.document.longest - 1))
            return replace(state, diff=replace(state.diff, shift=shift)), ()
        case _:
            assert_never(event)


def _with_anchor(state: State, *, is_range: bool) -> State:
    if not is_range or state.pane is Pane.LIST or state.diff.anchor >= 0:
        return state
    return replace(state, diff=replace(state.diff, anchor=state.diff.cursor))


def cursor(state: State) -> int:
    """Return where the cursor of the pane with the keys is."""
    return state.cursor if state.pane is Pane.LIST else state.diff.cursor


def length(state: State) -> int:
    """Return how many rows that pane has."""
    return state.length if state.pane is Pane.LIST else state.diff.length


def to(state: State, row: int) -> Step:
    """Put the cursor of the pane with the keys on a row."""
    target = max(0, min(row, length(state) - 1))
    if state.pane is Pane.LIST:
        return at(state, target)
    return replace(state, diff=replace(state.diff, cursor=target)), ()


def at(state: State, row: int) -> Step:
    """Put the list's cursor on a row, and ask for the diff that then belongs beside it."""
    return shown(replace(state, cursor=row))


def shown(state: State) -> Step:
    """Ask for the diff of what is under the cursor, unless it is there already."""
    change = state.change
    if change is None:
        return replace(state, diff=Diff(document=_about(state))), ()
    if change.key == state.diff.key:
        return state, ()
    return replace(state, diff=Diff(change.key, Document(change.key))), (load(state, change.key),)


def _about(state: State) -> Document:
    """Return what stands beside a heading, or an entry of another tab."""
    if state.entry is not None and state.tab is not Tab.CHANGES:
        return Document(None, telling.told(state.entry, state.look.columns))
    if isinstance(state.row, HeadRow):
        group, table = state.listing.groups[state.row.group], state.changes.by_key()
        return overview(group.section, [table[key] for key in group.keys[:FOLLOWING]], len(group.keys))
    return Document(None)


def load(state: State, key: Key) -> Effect:
    """Ask for a diff as things are to be shown now."""
    return Load(key, state.look, state.answers.get(key, ()))


def reloaded(state: State) -> Step:
    """Ask for the diff again, as it is to be shown now; what is told of an entry is made here."""
    if state.entry is not None and state.tab is not Tab.CHANGES:
        return replace(state, diff=replace(state.diff, document=_about(state))), ()
    return state, ((load(state, state.diff.key),) if state.diff.key else ())


def to_change(state: State, by: int) -> Step:
    """Go to the next change, or the previous one."""
    if state.tab is not Tab.CHANGES:
        return at(state, max(0, min(state.cursor + by, state.length - 1)))
    ahead = range(state.cursor + 1, len(state.listing.rows)) if by > 0 else range(state.cursor - 1, -1, -1)
    found = next((row for row in ahead if isinstance(state.listing.rows[row], ChangeRow)), None)
    if found is None:
        return replace(state, word="this is the last change" if by > 0 else "this is the first change"), ()
    return at(state, found)


def _to_risk(state: State, by: int) -> Step:
    if state.tab is not Tab.CHANGES:
        return _to_entry(state, telling.risky(state, by), "nothing here wants a look")
    rows, table = state.listing.rows, state.changes.by_key()
    ahead = [*range(state.cursor + 1, len(rows)), *range(state.cursor)]
    for row in ahead if by > 0 else reversed(ahead):
        one = rows[row]
        if isinstance(one, ChangeRow) and (table[one.key].risks or not table[one.key].is_clean):
            return at(state, row)
    return replace(state, word="nothing here is risky or in conflict"), ()


def _to_entry(state: State, row: int | None, none: str) -> Step:
    return (replace(state, word=none), ()) if row is None else at(state, row)


def to_block(state: State, by: int) -> State:
    """Go to the next block of the diff, or the previous one."""
    here, starts = state.diff.cursor, state.diff.document.starts
    wanted = [start for start in starts if start > here][:1] if by > 0 else [start for start in starts if start < here][-1:]
    if not wanted:
        last = "this is the last block: n goes to the next change" if by > 0 else "this is the first block"
        return replace(state, word=last if starts else "there are no blocks here")
    return replace(state, diff=replace(state.diff, cursor=wanted[0]))


def on_pane(state: State, pane: Pane) -> State:
    """Give a pane the keys; the diff only when there is one, or when an entry of another tab is told there."""
    if pane is Pane.DIFF and state.change is None and (state.tab is Tab.CHANGES or state.entry is None):
        pane = Pane.LIST
    if pane is state.pane:
        return state
    diff = replace(state.diff, anchor=-1)
    if pane is Pane.DIFF and not diff.cursor:
        diff = replace(diff, cursor=_first_choice(diff.document))
    return replace(state, pane=pane, diff=diff)


def _first_choice(document: Document) -> int:
    """Return the first row that a key can take: a newcomer presses space there."""
    first = document.starts[0] if document.starts else 0
    return next((row for row, one in enumerate(document.rows[:first]) if one.part is not None), first)


# Matches of a search


def _to_match(state: State, by: int) -> Step:
    """Go to the next match in this diff, else look for one in the changes behind."""
    if state.tab is not Tab.CHANGES:
        return seek(state, by)
    rows, needle = state.diff.document.rows, state.search
    ahead = range(state.diff.cursor + 1, len(rows)) if by > 0 else range(state.diff.cursor - 1, -1, -1)
    for row in ahead:
        if holds(state.diff.document, row, needle):
            there = on_pane(state, Pane.DIFF)
            return replace(there, diff=replace(there.diff, cursor=row)), ()
    return seek(state, by)


def seek(state: State, by: int) -> Step:
    """Look for a match in the changes behind the cursor, or before it, once around; on another tab in its entries."""
    if state.tab is not Tab.CHANGES:
        return _to_entry(state, telling.holding(state, by), f"nothing here holds {state.search}")
    rows = state.listing.rows
    order = [*range(state.cursor + 1, len(rows)), *range(min(state.cursor + 1, len(rows)))]
    if by < 0:
        order = [*range(state.cursor - 1, -1, -1), *range(len(rows) - 1, state.cursor - 1, -1)]
    keys = tuple(one.key for one in map(rows.__getitem__, order) if isinstance(one, ChangeRow))
    return replace(state, word=f"looking for {state.search} …"), (Seek(state.search, keys),)


def holds(document: Document, row: int, needle: str) -> bool:
    """Whether a row's text holds what is searched; small letters match large ones, as in less -i."""
    one = document.rows[row]
    texts: list[str | bytes] = [one.text, *(cell for cell in one.cells if cell)]
    texts += [document.old[one.old]] if one.old >= 0 else []
    texts += [document.new[one.new]] if one.new >= 0 and one.new < len(document.new) else []
    return any(telling.matches(text, needle) for text in texts)
