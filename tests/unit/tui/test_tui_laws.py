"""Laws of the review screen's state over random keys: its totals are correct, and nothing is merged by accident."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.diff.hunks import find_hunks
from agent_dev.diff.partial_selection import DiffSide, find_hunk_index
from agent_dev.overlay.changes import ChangeKind, ChangeSet
from agent_dev.overlay.selection import EMPTY_SELECTION
from tests.unit.tui.tui_states import AFTER, BEFORE, RISK, after, change, changes, key
from tui.effects import Apply, Effect, LoadDiff, Quit
from tui.events import (
    NO,
    YES,
    AllDeselected,
    AllToggled,
    Answered,
    AnswerFocusMoved,
    ApplyRequested,
    Cancelled,
    ChangeMoved,
    ContextChanged,
    CursorMoved,
    CursorMovedTo,
    DiffLoaded,
    DisplayOption,
    DisplayOptionToggled,
    EnterPressed,
    EscapePressed,
    Event,
    HelpRequested,
    HunkMoved,
    KindToggled,
    LinesCounted,
    Pane,
    PaneSwitched,
    PromptClosed,
    PromptEdited,
    PromptKind,
    PromptOpened,
    QuitRequested,
    Resized,
    ReviewedToggled,
    RiskMoved,
    ScrolledHorizontally,
    SelectionRedone,
    SelectionUndone,
    SendBackRequested,
    StepIn,
    StepOut,
    TabSelected,
    Toggled,
)
from tui.model import diff, totals
from tui.model.tabs import Tab, TabEntry
from tui.model.totals import LineCount
from tui.state import ScreenPage, State
from tui.update.dispatch import initial_state, update

TABS = {
    Tab.COMMITS: (TabEntry("bbbb two", ("by Ada", "1 file"), id="bbbb"), TabEntry("stash: x")),
    Tab.COMMANDS: (TabEntry("sh -c " + "long " * 40, ("in: /src", "ended with 7")), TabEntry("true")),
}
EVENTS = st.one_of(
    st.integers(-5, 5).map(CursorMoved),
    st.builds(CursorMovedTo, st.integers(-1, 12), st.sampled_from([None, Pane.LIST, Pane.DIFF])),
    st.sampled_from(
        [ChangeMoved(1), ChangeMoved(-1), HunkMoved(1), HunkMoved(-1), ScrolledHorizontally(8), ScrolledHorizontally(-8)]
    ),
    st.sampled_from([EnterPressed(), StepIn(), StepOut(), EscapePressed(), PaneSwitched(), Toggled(), Toggled(), AllToggled()]),
    st.sampled_from([ApplyRequested(), QuitRequested(), HelpRequested(), AnswerFocusMoved(), Answered(), Answered(NO)]),
    st.sampled_from(
        [
            Resized(60),
            Resized(120),
            SelectionUndone(),
            SelectionRedone(),
            AllDeselected(),
            KindToggled(),
            ReviewedToggled(),
            RiskMoved(1),
        ]
    ),
    st.sampled_from([DisplayOptionToggled(switch) for switch in DisplayOption]),
    st.sampled_from([ContextChanged(3), CursorMoved(1, extends_range=True), Cancelled(), *map(TabSelected, Tab)]),
    st.sampled_from(
        [
            PromptOpened(PromptKind.FILTER),
            PromptOpened(PromptKind.SEARCH),
            PromptOpened(PromptKind.NOTE),
            SendBackRequested(),
            PromptEdited("d"),
            PromptEdited(""),
            PromptClosed(is_accepted=True),
        ]
    ),
    st.builds(
        LinesCounted, st.dictionaries(st.sampled_from(["a", "d", "d/x"]).map(key), st.builds(LineCount, *[st.integers(0, 9)] * 3))
    ),
)
PATHS = ["a", "b", "d", "d/x", "d/y", "d/e/z", "f"]


@st.composite
def change_sets(draw: st.DrawFn) -> ChangeSet:
    """Draw changes with random properties and requirements."""
    return changes(
        *(
            change(
                path,
                draw(st.sampled_from([ChangeKind.ADDED, ChangeKind.EDITED, ChangeKind.DELETED])),
                is_ignored=draw(st.booleans()),
                risks=draw(st.sampled_from([(), (), RISK])),
                conflict=draw(st.sampled_from([None, None, "it was changed meanwhile"])),
                requires=tuple(key(one) for one in draw(st.lists(st.sampled_from(PATHS), max_size=2))),
            )
            for path in draw(st.lists(st.sampled_from(PATHS), unique=True))
        )
    )


def shown(state: State, asked: Sequence[Effect]) -> State:
    """Answer each requested diff with one of real content."""
    for effect in asked:
        if isinstance(effect, LoadDiff):
            one = state.changes.by_key()[effect.key]
            sides = (BEFORE if one.before else None, AFTER if one.after else None)
            state = after(state, DiffLoaded(diff.diff_document(one, (), sides, effect.options)))
    return state


def recount(state: State) -> totals.Totals:
    """Count the selected changes and lines from the selection alone."""
    parts = {}
    for one, choice in state.selection.partial.items():
        change_of = state.changes.by_key()[one]
        sides = (BEFORE if change_of.before else b"", AFTER if change_of.after else b"")
        found = find_hunks(*sides)
        whole = [found[index] for index in choice.hunks]
        touched = {find_hunk_index(found, DiffSide.OLD, n) for n in choice.old_lines} | {
            find_hunk_index(found, DiffSide.NEW, n) for n in choice.new_lines
        }
        came, went = (
            sum(b.new_lines for b in whole) + len(choice.new_lines),
            sum(b.old_lines for b in whole) + len(choice.old_lines),
        )
        parts[one] = LineCount(len(whole) + len(touched), came, went)
    selected = [one for one in state.changes.changes if one.key in state.selection]
    return totals.sum_changes(selected, state.counts, parts)


@settings(max_examples=300)
@given(change_sets(), st.lists(EVENTS, max_size=40))
def test_the_totals_always_equal_a_recount(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*initial_state(some, tabs=TABS))
    for event in events:
        state = shown(*update(state, event))
        assert state.selected_totals == recount(state)
        assert state.totals == totals.sum_changes(some.changes, state.counts, {})
        assert state.parts.keys() == state.selection.partial.keys()
        assert state.selection.partial.keys() <= state.selection.keys
        groups = state.listing.groups
        assert state.selected_per_group == tuple(sum(one in state.selection for one in group.keys) for group in groups)


@settings(max_examples=200)
@given(change_sets(), st.lists(EVENTS, max_size=40))
def test_undoing_all_selections_is_empty_and_redoing_restores_them(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*initial_state(some, tabs=TABS))
    for event in events:
        state = shown(*update(state, event))
    state = after(state, Cancelled(), PromptClosed(is_accepted=True), TabSelected(Tab.CHANGES))
    if state.page is not ScreenPage.REVIEW:
        return
    count, back = len(state.undo_steps), state
    for _ in range(count):
        back = after(back, SelectionUndone())
    assert back.selection == EMPTY_SELECTION
    assert back.selected_totals == totals.ZERO
    for _ in range(count):
        back = after(back, SelectionRedone())
    assert (back.selection, back.parts, back.selected_totals) == (state.selection, state.parts, state.selected_totals)


@settings(max_examples=300)
@given(change_sets(), st.lists(EVENTS, max_size=40))
def test_after_any_keys_cursors_are_on_rows_and_the_selection_is_mergeable(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*initial_state(some, tabs=TABS))
    table = some.by_key()
    for event in events:
        state = shown(*update(state, event))
        assert 0 <= state.cursor < max(1, state.row_count)
        assert 0 <= state.diff.cursor < max(1, state.diff.row_count)
        assert state.diff.key == (state.change.key if state.change else None)
        assert state.pane is Pane.LIST or state.change or state.entry
        assert all(table[one].is_clean for one in state.selection.keys)
        assert all(need in state.selection for one in state.selection.keys for need in table[one].requires if need in table)


@settings(max_examples=200)
@given(change_sets(), st.lists(EVENTS, max_size=30))
def test_only_a_yes_or_quitting_without_a_selection_closes_the_screen(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*initial_state(some, tabs=TABS))
    for event in events:
        old = state
        state, asked = update(state, event)
        finished = [effect for effect in asked if isinstance(effect, Quit)]
        if finished:
            is_leaving = isinstance(event, QuitRequested | EscapePressed) and not old.selection.keys
            is_question = old.page in (ScreenPage.QUIT, ScreenPage.SEND_BACK)
            is_yes = isinstance(event, Answered) and event.answer is None and old.focused_answer == YES and is_question
            assert is_leaving or is_yes
        if any(isinstance(effect, Apply) for effect in asked):
            assert isinstance(event, Answered)
            assert (old.page, old.focused_answer) == (ScreenPage.SUMMARY, YES)
        state = shown(state, asked)


@settings(max_examples=100)
@given(change_sets())
def test_all_never_selects_unsafe_changes(some: ChangeSet) -> None:
    state = after(initial_state(some)[0], AllToggled())
    assert all(one.is_clean and not one.risks and not one.is_ignored for one in some.changes if one.key in state.selection)
