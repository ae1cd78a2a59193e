"""What is taken: changes, directories, blocks, lines, parts; taken back and made again; looked at; conflicts settled."""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from agent_dev.diff.merge3 import Side
from agent_dev.diff.partial import Choice as Part
from agent_dev.overlay import selection as core
from agent_dev.overlay.changes import Change, Key
from agent_dev.overlay.selection import NOTHING, Selection
from tui.effects import Answers, Edit, Settle
from tui.events import AllToggled, Choice, EditAsked, KindToggled, NothingChosen, Pane, Redone, Reviewed, Settled, Toggled, Undone
from tui.model.change_list import ChangeRow, HeadRow, Row
from tui.model.document import Document, RowKind
from tui.model.tabs import Tab
from tui.model.totals import Count
from tui.state import Before, State, Step, with_selection
from tui.update import cursor as moving
from tui.update import line_selection as picking
from tui.update import toggle as choices
from tui.update import view as viewing

_MOST = 500  # choices that can be taken back
_LOOK_ONLY = "the agent is still working: this is for looking; choose when it has ended"


def choose(state: State, event: Choice) -> Step:
    """Take or leave."""
    match event:
        case Reviewed():
            return _reviewed(state)
        case _ if state.is_running:
            return replace(state, word=_LOOK_ONLY), ()
        case Settled(how):
            return _settle(state, how)
        case EditAsked():
            return _edit(state)
        case _ if state.tab is Tab.COMMITS:
            return _pick_commits(state, event), ()
        case _:
            return _select(state, event), ()


def _pick_commits(state: State, event: Choice) -> State:
    """Choose on the commits tab: one, all or none of them."""
    every = frozenset(one.id for one in state.tabs.get(Tab.COMMITS, ()) if one.id)
    match event:
        case Toggled(row, pane):
            entries = state.tabs[Tab.COMMITS]
            at = state.cursor if row is None or pane is Pane.DIFF else row
            picked = state.picked ^ {entries[at].id} if at < len(entries) and entries[at].id else state.picked
        case AllToggled():
            picked = frozenset() if every <= state.picked else every
        case NothingChosen():
            picked = frozenset[str]()
        case _:
            return replace(state, word="space chooses a commit, A all of them; c brings them home")
    return replace(state, picked=picked)


def _select(state: State, event: Toggled | AllToggled | NothingChosen | KindToggled | Undone | Redone) -> State:
    match event:
        case Toggled(row, pane):
            return _toggle(state, row, pane or state.pane)
        case AllToggled():
            return _made(state, choices.all_safe(state.selection, state.changes))
        case NothingChosen():
            return _made(state, (NOTHING, "nothing is chosen; u takes that back"))
        case KindToggled():
            change = state.change
            return _made(state, choices.of_kind(state.selection, change.kind, state.changes)) if change else state
        case Undone():
            return _back(state)
        case Redone():
            return _again(state)
        case _:
            assert_never(event)


def _toggle(state: State, row: int | None, pane: Pane) -> State:
    if state.tab is not Tab.CHANGES:
        return replace(state, word="enter goes to the change: it is chosen there")
    if pane is Pane.DIFF:
        return _pick(state, row)
    return _toggle_row(state, state.row if row is None else state.listing.rows[row])


def _toggle_row(state: State, row: Row | None) -> State:
    match row:
        case ChangeRow(_, key):
            return _made(state, choices.one(state.selection, state.changes.by_key()[key], state.changes))
        case HeadRow(group):
            return _made(state, choices.some(state.selection, state.listing.groups[group].keys, state.changes))
        case _:
            return state


def _pick(state: State, row: int | None) -> State:
    """Take or leave what the marked rows of the diff stand for."""
    document, change = state.diff.document, state.change
    if change is None:
        return state
    if not change.is_clean or not document.has_lines:
        return _toggle_row(_unmarked(state), state.row)
    marked = range(row, row + 1) if row is not None else state.diff.marked
    rows = [document.rows[at] for at in marked if at < len(document.rows)]
    if not any(one.block >= 0 or one.part for one in rows):
        return replace(state, word="nothing to choose on this row: ] goes on, space in the list takes all of it")
    is_lines = state.looks.is_lines or len(marked) > 1
    choice = picking.toggled(picking.choice_of(state.selection, document), rows, document, is_lines=is_lines)
    return _with_choice(_unmarked(state), change, document, choice)


def _unmarked(state: State) -> State:
    return replace(state, diff=replace(state.diff, anchor=-1)) if state.diff.anchor >= 0 else state


def _with_choice(state: State, change: Change, document: Document, choice: Part) -> State:
    wish, word = picking.settled(choice, change, document)
    keys, parts = frozenset((change.key,)), dict(state.parts)
    parts.pop(change.key, None)
    if isinstance(wish, bool):
        new = core.take(state.selection, keys, state.changes) if wish else core.leave(state.selection, keys, state.changes)
    else:
        new = core.take_part(state.selection, change.key, wish, state.changes)
        parts[change.key] = picking.count(wish, document)
    if change.key not in new and wish is not False:
        return replace(state, word="this cannot be taken: something it needs cannot be merged")
    return _made(state, (new, word), parts)


# Made, taken back, made again


def _made(state: State, made: tuple[Selection, str], parts: Mapping[Key, Count] | None = None) -> State:
    """Set a selection that can be taken back."""
    new = with_selection(state, made[0], made[1], parts)
    if new.selection == state.selection:
        return new
    return replace(new, past=(*state.past, _difference(state, new))[-_MOST:], future=())


def _difference(old: State, new: State) -> Before:
    came, went = new.selection.keys - old.selection.keys, old.selection.keys - new.selection.keys
    return Before(came, went, old.selection.choices, old.parts)


def _back(state: State) -> State:
    if not state.past:
        return replace(state, word="there is no choice to take back")
    new = _restored(state, state.past[-1], "the last choice is taken back")
    return replace(new, past=state.past[:-1], future=(*state.future, _difference(state, new)))


def _again(state: State) -> State:
    if not state.future:
        return replace(state, word="there is no choice to make again")
    new = _restored(state, state.future[-1], "the choice is made again")
    return replace(new, past=(*state.past, _difference(state, new)), future=state.future[:-1])


def _restored(state: State, one: Before, word: str) -> State:
    keys = (state.selection.keys - one.came) | one.went
    return with_selection(state, Selection(keys, one.choices), word, one.parts)


# Looked at


def _reviewed(state: State) -> Step:
    match state.row:
        case ChangeRow(_, key):
            keys = frozenset((key,))
        case HeadRow(group):
            keys = frozenset(state.listing.groups[group].keys)
        case _:
            return state, ()
    is_done = keys <= state.reviewed
    reviewed = state.reviewed - keys if is_done else state.reviewed | keys
    left = len(state.changes.changes) - len(reviewed)
    word = "not looked at yet" if is_done else f"looked at; {left:,} still to see"
    made = replace(state, reviewed=reviewed, word=word)
    if not state.looks.is_unreviewed:
        return made, ()
    return moving.shown(viewing.listed(made))


# Conflicts


def _settle(state: State, how: Side) -> Step:
    """Settle the conflict under the cursor; when all of a change are settled, the change."""
    change, document = state.change, state.diff.document
    if change is None or document.conflicts < 0:
        return replace(state, word="there is no conflict here"), ()
    if not document.conflicts:
        return _asked(state, change.key, (how,))
    answers = [*state.answers.get(change.key, ())]
    answers += [None] * (document.conflicts - len(answers))
    here = document.rows[state.diff.cursor] if state.diff.length else None
    is_on = here is not None and here.kind in (RowKind.CONFLICT, RowKind.HUNK) and here.block >= 0 and state.pane is Pane.DIFF
    number = here.block if is_on and here is not None else next((at for at, one in enumerate(answers) if one is None), 0)
    answers[number] = how
    return _asked(state, change.key, tuple(answers))


def _asked(state: State, key: Key, answers: Answers) -> Step:
    left = sum(answer is None for answer in answers)
    made = replace(state, answers={**state.answers, key: answers}, word=f"{left} more to settle" if left else "")
    again, effects = moving.reloaded(made)
    return again, (effects if left else (Settle(key, answers), *effects))


def _edit(state: State) -> Step:
    if state.change is None or state.diff.document.conflicts <= 0:
        return replace(state, word="there are no lines in conflict here"), ()
    return state, (Edit(state.change.key),)
