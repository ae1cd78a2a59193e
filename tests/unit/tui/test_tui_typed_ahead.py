"""Keys typed before a worker's result is there wait for it: they do what they do with the result."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.diff.merge3 import ConflictSide, merge_lines
from agent_dev.overlay.changes import ChangeSet
from tests.unit.tui.test_tui_laws import EVENTS, TABS, change_sets, shown
from tests.unit.tui.tui_states import AFTER, BEFORE, after, change, changes, effects, key, loads, names, row
from tui.effects import Effect, LoadDiff, Quit, Resolve
from tui.events import (
    ApplyRequested,
    ChangeMoved,
    ChangeUpdated,
    ConflictResolved,
    CursorMoved,
    CursorMovedTo,
    DiffLoaded,
    EnterPressed,
    EscapePressed,
    Event,
    HunkMoved,
    Pane,
    PromptClosed,
    PromptEdited,
    PromptKind,
    PromptOpened,
    QuitRequested,
    ResolutionFailed,
    Result,
    TabSelected,
    Toggled,
)
from tui.model import conflict, diff
from tui.model.document import DiffOptions
from tui.model.tabs import Tab, TabEntry
from tui.state import ScreenPage, State
from tui.update.dispatch import initial_state, update

AGENT = ConflictSide.AGENT
ONE, TWO = (change(path, conflict="both") for path in ("a", "b"))
MERGED = merge_lines(b"1\n", b"yours\n", b"agent\n")


def conflict_loaded(path: str) -> DiffLoaded:
    one = change(path, conflict="both")
    return DiffLoaded(conflict.conflict_document(one, (), MERGED, (), DiffOptions()))


def resolved(path: str) -> ChangeUpdated:
    return ChangeUpdated(change(path), is_selected=True)


def edit_loaded(path: str) -> DiffLoaded:
    return DiffLoaded(diff.diff_document(change(path), (), (BEFORE, AFTER), DiffOptions()))


def visible(state: State) -> tuple[object, ...]:
    """Return what the user sees and decided, without the diff's cursor in a pane that is not open."""
    where = state.diff.cursor if state.pane is Pane.DIFF else None
    decided = (state.selection, state.parts, state.reviewed, state.notes, state.resolutions)
    return (state.page, state.tab, state.pane, state.cursor, state.diff.key, where, *decided)


@settings(max_examples=500)
@given(change_sets(), st.lists(st.tuples(EVENTS, st.booleans()), max_size=40))
def test_diffs_that_arrive_late_change_nothing(some: ChangeSet, events: list[tuple[Event, bool]]) -> None:
    state, asked = initial_state(some, tabs=TABS)
    prompt, late = shown(state, asked), state
    owed: tuple[Effect, ...] = asked
    for event, is_answered in events:
        is_new_page = late.page is not ScreenPage.REVIEW
        is_special = isinstance(event, (Result, QuitRequested)) or (late.typed_ahead[-1:] == (event,) == (EscapePressed(),))
        if is_new_page or is_special or is_answered:  # a page that opens drops what was typed for the review
            late, owed = arrived(late, owed)
        prompt = shown(*update(prompt, event))
        late, more = update(late, event)
        owed = (*owed, *more)
    late, owed = arrived(late, owed)
    assert not late.typed_ahead
    if prompt.page is ScreenPage.REVIEW and late.page is ScreenPage.REVIEW:
        assert visible(late) == visible(prompt)


def arrived(state: State, owed: tuple[Effect, ...]) -> tuple[State, tuple[Effect, ...]]:
    """Answer the last of the requested diffs, and those that the events which waited for it request."""
    while requested := [effect for effect in owed if isinstance(effect, LoadDiff)]:
        one = state.changes.by_key()[requested[-1].key]
        sides = (BEFORE if one.before else None, AFTER if one.after else None)
        state, owed = update(state, DiffLoaded(diff.diff_document(one, (), sides, requested[-1].options)))
    return state, ()


def test_conflicts_are_resolved_one_after_the_other() -> None:
    state = initial_state(changes(ONE, TWO))[0]
    state = after(state, ConflictResolved(AGENT), ConflictResolved(AGENT))
    assert (state.resolutions, state.message) == ({}, "still working: keys wait (esc twice: drop them)")

    state = after(state, conflict_loaded("a"))
    assert state.resolutions == {key("a"): (AGENT,)}
    state = after(state, resolved("a"))  # moves to the next conflict, whose diff is requested
    assert (state.diff.key, state.resolutions) == (key("b"), {key("a"): (AGENT,)})

    state, asked = update(state, conflict_loaded("b"))
    assert Resolve(key("b"), (AGENT,)) in asked
    state = after(state, resolved("b"))
    assert (names(state), state.typed_ahead) == ({"a", "b"}, ())


def test_applying_waits_for_a_conflict_that_is_being_resolved() -> None:
    state = after(initial_state(changes(ONE, change("c")))[0], conflict_loaded("a"), ConflictResolved(AGENT), ApplyRequested())
    assert state.page is ScreenPage.REVIEW
    state = after(state, resolved("a"))
    assert (state.page, names(state)) == (ScreenPage.SUMMARY, {"a"})


def test_a_conflict_that_could_not_be_resolved_ends_the_wait() -> None:
    state = after(initial_state(changes(ONE, TWO))[0], conflict_loaded("a"), ConflictResolved(AGENT), CursorMoved(1))
    assert (state.awaits_resolution, state.diff.key) == (True, key("a"))
    failed = after(state, ResolutionFailed("cannot be combined"))
    assert (failed.awaits_resolution, failed.typed_ahead, failed.diff.key) == (False, (), key("b"))


def test_a_selected_hunk_is_not_the_whole_file() -> None:
    state = after(initial_state(changes(change("f"), change("g")))[0], EnterPressed(), HunkMoved(1), Toggled())
    assert names(state) == set()
    state = after(state, edit_loaded("f"))
    assert state.selection.partial[key("f")].hunks == {1}


def test_the_next_match_may_be_in_a_diff_that_is_not_loaded() -> None:
    searched = after(initial_state(changes(change("f"), change("g")))[0], edit_loaded("f"), *search("three"))
    state = after(searched, CursorMovedTo(row(searched, "g"), Pane.LIST), ChangeMoved(1))
    assert state.pane is Pane.LIST
    state = after(state, edit_loaded("g"))
    assert (state.pane, state.diff.key, state.diff.cursor > 0) == (Pane.DIFF, key("g"), True)


def search(text: str) -> list[Event]:
    return [PromptOpened(PromptKind.SEARCH), PromptEdited(text), PromptClosed(is_accepted=True)]


def test_moves_wait_for_a_conflict_that_is_being_resolved() -> None:
    state = after(
        initial_state(changes(ONE, TWO, change("c")))[0], conflict_loaded("a"), ConflictResolved(AGENT), CursorMoved(-1)
    )
    assert state.diff.key == key("a")
    state = after(state, resolved("a"))  # the cursor goes to b, which is the first in the list now
    assert state.diff.key is None
    assert state.listing.rows[state.cursor] == state.listing.rows[0]


def test_moves_in_the_list_do_not_wait() -> None:
    state = after(initial_state(changes(change("f"), change("g")))[0], CursorMoved(1))
    assert (state.diff.key, state.diff.is_loaded) == (key("g"), False)
    assert after(state, Toggled()).selection.keys == {key("g")}


def test_quitting_does_not_wait() -> None:
    state = after(initial_state(changes(change("f")))[0], EnterPressed(), Toggled())
    assert effects(state, QuitRequested()) == (Quit(),)
    selected = after(state, EscapePressed(), EscapePressed(), EscapePressed(), Toggled())
    asked = after(selected, EnterPressed(), HunkMoved(1), QuitRequested())
    assert (asked.page, asked.typed_ahead) == (ScreenPage.QUIT, ())


def test_the_second_escape_drops_what_waits() -> None:
    state = after(initial_state(changes(change("f"), change("g")))[0], EnterPressed(), Toggled(), EscapePressed())
    assert state.typed_ahead == (Toggled(), EscapePressed())
    state = after(state, EscapePressed())
    assert (state.typed_ahead, state.pane, state.message) == ((), Pane.DIFF, "keys dropped")
    state = after(state, EscapePressed(), CursorMoved(1))  # neither waits any more
    assert (state.pane, state.diff.key, names(state)) == (Pane.LIST, key("g"), set())


def test_keys_keep_their_order() -> None:
    state = after(initial_state(changes(change("f"), change("g")))[0], EnterPressed(), Toggled(), EscapePressed(), CursorMoved(1))
    assert (state.pane, state.diff.key) == (Pane.DIFF, key("f"))
    state = after(state, edit_loaded("f"))
    assert (state.pane, state.diff.key) == (Pane.LIST, key("g"))
    assert state.selection.partial.keys() == {key("f")}


def test_keys_after_one_that_opens_a_page_are_dropped() -> None:
    state = after(initial_state(changes(change("f")))[0], EnterPressed(), Toggled(), ApplyRequested(), EscapePressed())
    state = after(state, edit_loaded("f"))
    assert (state.page, state.pane, state.typed_ahead) == (ScreenPage.SUMMARY, Pane.DIFF, ())


def test_a_note_is_about_the_line_under_the_cursor() -> None:
    state = after(initial_state(changes(change("f")))[0], EnterPressed(), PromptOpened(PromptKind.NOTE))
    assert state.prompt is None
    state = after(state, edit_loaded("f"))
    assert state.prompt is not None


def test_a_change_opened_from_a_tab_is_loaded_although_it_was_under_the_cursor() -> None:
    tabs = {Tab.RISKS: (TabEntry("f: script", key=key("f")),)}
    state = after(initial_state(changes(change("f")), tabs=tabs)[0], edit_loaded("f"), TabSelected(Tab.RISKS))
    state, asked = update(state, EnterPressed())
    assert loads(asked) == [key("f")]
    assert after(state, edit_loaded("f")).diff.document.rows
