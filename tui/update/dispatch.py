"""What each event makes of the merge screen, and how it begins."""

from collections.abc import Mapping
from dataclasses import replace

from agent_dev.overlay.changes import ChangeSet
from agent_dev.overlay.selection import Selection
from tui.events import Choice, Event, Fact, Movement, Question, TabTurned, Typing, View, Walk
from tui.model import change_list as rows
from tui.model import totals
from tui.model.change_list import ChangeRow
from tui.model.tabs import Entry, Tab
from tui.source import Draft
from tui.state import Face, State, Step, with_selection
from tui.update import cursor as moving
from tui.update import navigation as walking
from tui.update import prompt as typing
from tui.update import questions as asking
from tui.update import results as learning
from tui.update import selection as choosing
from tui.update import view as viewing

_NO_DRAFT = Draft()


def begin(
    changes: ChangeSet,
    columns: int = 80,
    *,
    draft: Draft = _NO_DRAFT,
    tabs: Mapping[Tab, tuple[Entry, ...]] | None = None,
    is_running: bool = False,
    is_settling: bool = False,
) -> Step:
    """Return the screen as it opens: nothing chosen but what was the last time, the cursor on the first change.

    Where only commits are to be chosen from, it opens with them.
    """
    made = rows.listing(changes)
    state = State(
        changes=changes,
        listing=made,
        whole=totals.count(changes.changes, {}, {}),
        chosen_in=(0,) * len(made.groups),
        columns=columns,
        tabs=tabs or {},
        reviewed=draft.reviewed,
        is_running=is_running,
        is_settling=is_settling,
        answers=draft.answers or {},
    )
    if tabs and Tab.COMMITS in tabs and not (changes.changes or changes.problems):
        return walking.walk(state, TabTurned(Tab.COMMITS))
    if draft.selection.keys:
        state = with_selection(state, _possible(draft.selection, changes), "what you chose the last time is chosen", draft.parts)
    return moving.at(state, _first(state, draft))


def _possible(selection: Selection, changes: ChangeSet) -> Selection:
    table = changes.by_key()
    keys = frozenset(key for key in selection.keys if key in table and table[key].is_clean)
    return Selection(keys, {key: part for key, part in selection.choices.items() if key in keys})


def _first(state: State, draft: Draft) -> int:
    row = state.listing.row_of(draft.at) if draft.at else -1
    if row >= 0:
        return row
    return next((at for at, one in enumerate(state.listing.rows) if isinstance(one, ChangeRow)), 0)


def update(state: State, event: Event) -> Step:
    """Return what an event makes of the screen, and what is then to be done."""
    if isinstance(event, Fact):
        return learning.learn(state, event)
    if isinstance(event, Question):
        return asking.ask(state, event)
    if isinstance(event, Typing):
        is_meant = state.face is Face.PROMPT or (state.face is Face.REVIEW and not state.prompt)
        return typing.write(state, event) if is_meant else (state, ())
    if isinstance(event, Movement) and state.face is Face.PROMPT:
        return typing.chosen(state, getattr(event, "by", 0)), ()
    if state.face is not Face.REVIEW:
        return state, ()
    return _review(replace(state, word=""), event)


def _review(state: State, event: Movement | Walk | Choice | View) -> Step:
    if isinstance(event, Movement):
        return moving.move(state, event)
    if isinstance(event, Walk):
        return walking.walk(state, event)
    if isinstance(event, View):
        return viewing.view(state, event)
    return choosing.choose(state, event)
