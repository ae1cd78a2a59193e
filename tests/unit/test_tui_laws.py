"""Laws of the merge screen's state over random keys: its numbers are true, and nothing merges by accident."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.diff.hunks import blocks
from agent_dev.diff.partial import Side, block_of
from agent_dev.overlay.changes import ChangeSet, Kind
from agent_dev.overlay.selection import NOTHING
from tests.unit.tui_states import AFTER, BEFORE, RISK, after, change, changes, key
from tui.effects import Apply, Effect, Finish, Load
from tui.events import (
    NO,
    YES,
    AllToggled,
    Answered,
    AnswerMoved,
    ApplyAsked,
    Asking,
    Backed,
    BlockMoved,
    ChangeMoved,
    ContextChanged,
    Counted,
    DiffShown,
    Entered,
    Escaped,
    Event,
    GivenUp,
    HelpAsked,
    KindToggled,
    LeaveAsked,
    LineAsked,
    Moved,
    MovedTo,
    NothingChosen,
    Opened,
    Pane,
    PaneSwapped,
    Redone,
    Resized,
    Reviewed,
    RiskMoved,
    Shifted,
    Switch,
    Switched,
    TabTurned,
    Toggled,
    Typed,
    TypedOut,
    Undone,
)
from tui.model import diff, totals
from tui.model.tabs import Entry, Tab
from tui.model.totals import Count
from tui.state import Face, State
from tui.update.dispatch import begin, update

TABS = {
    Tab.COMMITS: (Entry("bbbb two", ("by Ada", "1 file"), id="bbbb"), Entry("stash: x")),
    Tab.COMMANDS: (Entry("sh -c " + "long " * 40, ("in: /src", "ended with 7")), Entry("true")),
}
EVENTS = st.one_of(
    st.integers(-5, 5).map(Moved),
    st.builds(MovedTo, st.integers(-1, 12), st.sampled_from([None, Pane.LIST, Pane.DIFF])),
    st.sampled_from([ChangeMoved(1), ChangeMoved(-1), BlockMoved(1), BlockMoved(-1), Shifted(8), Shifted(-8)]),
    st.sampled_from([Entered(), Opened(), Backed(), Escaped(), PaneSwapped(), Toggled(), Toggled(), AllToggled()]),
    st.sampled_from([ApplyAsked(), LeaveAsked(), HelpAsked(), AnswerMoved(), Answered(), Answered(NO)]),
    st.sampled_from([Resized(60), Resized(120), Undone(), Redone(), NothingChosen(), KindToggled(), Reviewed(), RiskMoved(1)]),
    st.sampled_from([Switched(switch) for switch in Switch]),
    st.sampled_from([ContextChanged(3), Moved(1, is_range=True), GivenUp(), *map(TabTurned, Tab)]),
    st.sampled_from([LineAsked(Asking.FILTER), LineAsked(Asking.SEARCH), Typed("d"), Typed(""), TypedOut(is_meant=True)]),
    st.builds(Counted, st.dictionaries(st.sampled_from(["a", "d", "d/x"]).map(key), st.builds(Count, *[st.integers(0, 9)] * 3))),
)
PATHS = ["a", "b", "d", "d/x", "d/y", "d/e/z", "f"]


@st.composite
def change_sets(draw: st.DrawFn) -> ChangeSet:
    """Return changes with every property, and requirements among them."""
    return changes(
        *(
            change(
                path,
                draw(st.sampled_from([Kind.ADDED, Kind.EDITED, Kind.DELETED])),
                ignored=draw(st.booleans()),
                risks=draw(st.sampled_from([(), (), RISK])),
                conflict=draw(st.sampled_from([None, None, "it was changed meanwhile"])),
                requires=tuple(key(one) for one in draw(st.lists(st.sampled_from(PATHS), max_size=2))),
            )
            for path in draw(st.lists(st.sampled_from(PATHS), unique=True))
        )
    )


def shown(state: State, asked: Sequence[Effect]) -> State:
    """Answer each wish to read with a diff of real bytes."""
    for effect in asked:
        if isinstance(effect, Load):
            one = state.changes.by_key()[effect.key]
            sides = (BEFORE if one.before else None, AFTER if one.after else None)
            state = after(state, DiffShown(diff.document(one, (), sides, effect.look)))
    return state


def recount(state: State) -> totals.Totals:
    """Count what is chosen from nothing but the selection."""
    parts = {}
    for one, choice in state.selection.choices.items():
        change_of = state.changes.by_key()[one]
        sides = (BEFORE if change_of.before else b"", AFTER if change_of.after else b"")
        found = blocks(*sides)
        whole = [found[index] for index in choice.blocks]
        touched = {block_of(found, Side.OLD, n) for n in choice.old} | {block_of(found, Side.NEW, n) for n in choice.new}
        came, went = sum(b.new_lines for b in whole) + len(choice.new), sum(b.old_lines for b in whole) + len(choice.old)
        parts[one] = Count(len(whole) + len(touched), came, went)
    chosen = [one for one in state.changes.changes if one.key in state.selection]
    return totals.count(chosen, state.counts, parts)


@settings(max_examples=300)
@given(change_sets(), st.lists(EVENTS, max_size=40))
def test_the_numbers_always_equal_a_recount(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*begin(some, tabs=TABS))
    for event in events:
        state = shown(*update(state, event))
        assert state.chosen == recount(state)
        assert state.whole == totals.count(some.changes, state.counts, {})
        assert state.parts.keys() == state.selection.choices.keys()
        assert state.selection.choices.keys() <= state.selection.keys
        groups = state.listing.groups
        assert state.chosen_in == tuple(sum(one in state.selection for one in group.keys) for group in groups)


@settings(max_examples=200)
@given(change_sets(), st.lists(EVENTS, max_size=40))
def test_taking_everything_back_returns_to_nothing_and_making_it_again_to_the_same(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*begin(some, tabs=TABS))
    for event in events:
        state = shown(*update(state, event))
    state = after(state, GivenUp(), TypedOut(is_meant=True), TabTurned(Tab.CHANGES))
    if state.face is not Face.REVIEW:
        return
    count, back = len(state.past), state
    for _ in range(count):
        back = after(back, Undone())
    assert back.selection == NOTHING
    assert back.chosen == totals.NONE
    for _ in range(count):
        back = after(back, Redone())
    assert (back.selection, back.parts, back.chosen) == (state.selection, state.parts, state.chosen)


@settings(max_examples=300)
@given(change_sets(), st.lists(EVENTS, max_size=40))
def test_whatever_is_pressed_the_cursors_are_on_rows_and_the_choice_can_be_merged(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*begin(some, tabs=TABS))
    table = some.by_key()
    for event in events:
        state = shown(*update(state, event))
        assert 0 <= state.cursor < max(1, state.length)
        assert 0 <= state.diff.cursor < max(1, state.diff.length)
        assert state.diff.key == (state.change.key if state.change else None)
        assert state.pane is Pane.LIST or state.change or state.entry
        assert all(table[one].is_clean for one in state.selection.keys)
        assert all(need in state.selection for one in state.selection.keys for need in table[one].requires if need in table)


@settings(max_examples=200)
@given(change_sets(), st.lists(EVENTS, max_size=30))
def test_nothing_finishes_but_a_yes_or_leaving_without_a_choice(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*begin(some, tabs=TABS))
    for event in events:
        old = state
        state, asked = update(state, event)
        finished = [effect for effect in asked if isinstance(effect, Finish)]
        if finished:
            is_leaving = isinstance(event, LeaveAsked | Escaped) and not old.selection.keys
            is_yes = isinstance(event, Answered) and event.answer is None and old.answer and old.face is Face.LEAVE
            assert is_leaving or is_yes
        if any(isinstance(effect, Apply) for effect in asked):
            assert isinstance(event, Answered)
            assert (old.face, old.answer) == (Face.SUMMARY, YES)
        state = shown(state, asked)


@settings(max_examples=100)
@given(change_sets())
def test_all_never_takes_what_is_not_safe(some: ChangeSet) -> None:
    state = after(begin(some)[0], AllToggled())
    assert all(one.is_clean and not one.risks and not one.ignored for one in some.changes if one.key in state.selection)
