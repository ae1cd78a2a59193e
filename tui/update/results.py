"""What the screen learns: sizes, diffs, colours, numbers, what became of conflicts, searches and merges."""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from agent_dev.overlay import selection as core
from agent_dev.overlay.changes import Change, ChangeSet, Key
from agent_dev.overlay.selection import Selection
from tui.events import (
    Changed,
    Coloured,
    Counted,
    DiffShown,
    EntriesRead,
    Fact,
    Finished,
    Pane,
    Progressed,
    Refreshed,
    Resized,
    Said,
    Sought,
)
from tui.model import change_list as rows
from tui.model import totals
from tui.model.change_list import ChangeRow
from tui.model.document import Document
from tui.model.totals import Count
from tui.state import Face, State, Step, with_selection
from tui.update import cursor as moving
from tui.update import view as viewing


def learn(state: State, fact: Fact) -> Step:
    """Take in a fact."""
    match fact:
        case DiffShown() | Coloured() | Sought():
            return _of_diff(state, fact)
        case Counted() | Changed() | Refreshed():
            return _of_changes(state, fact)
        case Progressed() | Finished() | EntriesRead():
            return _of_work(state, fact)
        case Resized(columns):
            made = replace(state, columns=columns)
            return moving.reloaded(made) if columns != state.columns else (made, ())
        case Said(word):
            return replace(state, word=word), ()
        case _:
            assert_never(fact)


def _of_work(state: State, fact: Progressed | Finished | EntriesRead) -> Step:
    match fact:
        case Progressed(done, whole):
            return replace(state, progress=(done, whole)), ()
        case Finished(lines, code, is_done, conflicts):
            made = replace(state, face=Face.CLASH if conflicts else Face.RESULT, result=lines, is_done=is_done)
            return (replace(made, code=code) if is_done else made), ()
        case EntriesRead(tab, entries):
            made = replace(state, tabs={**state.tabs, tab: entries}, is_told=True)
            return moving.shown(made) if state.tab is tab else (made, ())
        case _:
            assert_never(fact)


def _of_diff(state: State, fact: DiffShown | Coloured | Sought) -> Step:
    match fact:
        case DiffShown(document):
            return _shown(state, document), ()
        case Coloured(key, colours):
            is_meant = state.diff.key == key
            return (replace(state, diff=replace(state.diff, colours=colours)) if is_meant else state), ()
        case Sought(key, line):
            return _sought(state, key, line)
        case _:
            assert_never(fact)


def _of_changes(state: State, fact: Counted | Changed | Refreshed) -> Step:
    match fact:
        case Counted(counts):
            return _counted(state, counts), ()
        case Changed(change, word, is_taken, is_edited):
            answers = {key: given for key, given in state.answers.items() if not (is_edited and key == change.key)}
            return _changed(replace(state, answers=answers), change, word, is_taken=is_taken)
        case Refreshed(changes):
            return _refreshed(state, changes)
        case _:
            assert_never(fact)


def _shown(state: State, document: Document) -> State:
    """Take a diff in; the cursor stays on its line where the rows were made anew."""
    diff = state.diff
    if diff.key != document.key:
        return state  # it comes too late: the cursor has moved on
    cursor = _same_place(diff.document, diff.cursor, document)
    return replace(state, diff=replace(diff, document=document, cursor=cursor, anchor=-1))


def _same_place(old: Document, at: int, new: Document) -> int:
    here = old.rows[at] if at < len(old.rows) else None
    if here is None or not at or old.key != new.key:
        return max(0, min(at, len(new.rows) - 1))
    wanted = (here.old, here.new)
    for row, one in enumerate(new.rows):
        if wanted != (-1, -1) and ((one.old, one.new) == wanted or (one.old >= 0 and one.old == here.old)):
            return row
    if 0 <= here.block < len(new.starts):
        return new.starts[here.block]
    return max(0, min(at, len(new.rows) - 1))


def _counted(state: State, counts: Mapping[Key, Count]) -> State:
    """Add what was counted to both sums."""
    table = state.changes.by_key()
    fresh = {key: count for key, count in counts.items() if key in table}
    touched = [table[key] for key in fresh]
    every = state.counts.plus(fresh)
    whole = state.whole - totals.count(touched, state.counts, {}) + totals.count(touched, every, {})
    ours = [change for change in touched if change.key in state.selection]
    chosen = state.chosen - totals.count(ours, state.counts, state.parts) + totals.count(ours, every, state.parts)
    return replace(state, counts=every, whole=whole, chosen=chosen)


def _with_changes(state: State, changes: ChangeSet) -> State:
    """Show other changes; what is chosen stays chosen where it can."""
    table = changes.by_key()
    keys = frozenset(key for key in state.selection.keys if key in table and table[key].is_clean)
    chosen = Selection(keys, {key: part for key, part in state.selection.choices.items() if key in keys})
    parts = {key: count for key, count in state.parts.items() if key in chosen.choices}
    made = replace(
        state,
        changes=changes,
        selection=chosen,
        parts=parts,
        whole=totals.count(changes.changes, state.counts, {}),
        chosen=totals.count((table[key] for key in keys), state.counts, parts),
        past=(),
        future=(),
    )
    return viewing.listed(made)


def _changed(state: State, change: Change, word: str, *, is_taken: bool) -> Step:
    at = state.change.key if state.change else None
    some = tuple(change if one.key == change.key else one for one in state.changes.changes)
    left = sum(not one.is_clean for one in some) if state.is_settling else 0
    word += f"; {left} more to settle: ! goes to the next" if left else ""
    made = replace(_with_changes(state, replace(state.changes, changes=some)), word=word)
    if is_taken and change.is_clean and change.key not in made.selection:
        made = with_selection(made, core.take(made.selection, frozenset((change.key,)), made.changes), word)
    row = made.listing.row_of(at) if at else -1
    made = replace(made, cursor=row) if row >= 0 else made
    return moving.reloaded(made) if made.diff.key == at else moving.shown(made)


def _refreshed(state: State, changes: ChangeSet) -> Step:
    if changes == state.changes:
        return state, ()
    made = _with_changes(state, changes)
    gone = made.diff.key is not None and made.change is not None and made.change.key == made.diff.key
    return moving.reloaded(made) if gone else moving.shown(made)


def _sought(state: State, key: Key | None, line: int) -> Step:
    """Go to a match that was found; the row follows when its diff is there."""
    if key is None:
        return replace(state, word=f"nothing holds {state.search}", search=""), ()
    row = state.listing.row_of(key)
    if row < 0:
        return state, ()
    if not isinstance(state.listing.rows[row], ChangeRow):
        opened = rows.with_closed(state.listing, state.listing.group_of[key], closed=False)
        state = replace(state, listing=opened)
        row = opened.row_of(key)
    there, effects = moving.at(replace(state, word="n and N go to the next match"), row)
    there = moving.on_pane(there, Pane.DIFF)
    return replace(there, diff=replace(there.diff, cursor=line)), effects
