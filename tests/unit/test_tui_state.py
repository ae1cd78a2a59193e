"""The merge screen's state: what keys make of it, and that its numbers are always true."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.core.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from agent_dev.core.selection import NOTHING, all_of, is_safe
from tui import totals
from tui.events import (
    AllToggled,
    Answered,
    AnswerMoved,
    ApplyAsked,
    Backed,
    BlockMoved,
    ChangeMoved,
    DiffShown,
    Effect,
    Entered,
    Escaped,
    Event,
    Finish,
    HelpAsked,
    LeaveAsked,
    Load,
    Moved,
    MovedTo,
    Opened,
    Pane,
    PaneSwapped,
    Resized,
    Shifted,
    Toggled,
)
from tui.rows import ChangeRow, HeadRow, NoteRow, ProblemRow, listing
from tui.state import Face, State, begin, update

FILE = Entry(FileType.FILE)
RISK = (Risk("hook", "runs at the next commit"),)


def key(path: str, root: int = 0) -> Key:
    """Return a path's key."""
    return Key(root, path.encode())


def change(path: str, kind: Kind = Kind.EDITED, **more: Any) -> Change:
    """Return a change of a file."""
    before = None if kind is Kind.ADDED else FILE
    after = None if kind is Kind.DELETED else FILE
    return Change(key(path), kind, before, after, **more)


def changes(*some: Change, problems: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> ChangeSet:
    """Return a sorted change set."""
    return ChangeSet(tuple(sorted(some, key=lambda one: one.key)), problems, notes)


SHOP = changes(
    change("README.md"),
    change("src/a.py"),
    change("src/b.py", Kind.DELETED),
    change("src/hook", Kind.ADDED, risks=RISK),
    change("src/mine.py", conflict="it was changed meanwhile"),
    change("node_modules/x", Kind.ADDED, ignored=True),
    change("node_modules/y", Kind.ADDED, ignored=True),
    change("run/socket", Kind.ADDED, obstacle="a socket cannot be merged"),
)


def after(state: State, *events: Event) -> State:
    """Return the state after events."""
    for event in events:
        state, _ = update(state, event)
    return state


def effects(state: State, *events: Event) -> tuple[Effect, ...]:
    """Return what the last of some events asks for."""
    found: tuple[Effect, ...] = ()
    for event in events:
        state, found = update(state, event)
    return found


def shop() -> State:
    """Return the screen as it opens on the shop."""
    return begin(SHOP)[0]


def row(state: State, path: str) -> int:
    """Return the row of a change."""
    return next(at for at, one in enumerate(state.listing.rows) if isinstance(one, ChangeRow) and one.change.key == key(path))


def head(state: State, path: bytes | None) -> int:
    """Return the row of a heading."""
    return next(
        at
        for at, one in enumerate(state.listing.rows)
        if isinstance(one, HeadRow) and state.listing.groups[one.group].path == path
    )


def names(state: State) -> set[str]:
    """Return the chosen paths."""
    return {one.path.decode() for one in state.selection.keys}


# The rows


def test_rows_are_grouped_by_directory_and_what_git_ignores_comes_last_behind_one() -> None:
    shown = [
        shop().listing.groups[one.group].path if isinstance(one, HeadRow) else one.change.key.path.decode()
        for one in shop().listing.rows
        if not isinstance(one, ProblemRow | NoteRow)
    ]
    assert shown == [
        b"", "README.md", b"run", "run/socket", b"src", "src/a.py", "src/b.py", "src/hook", "src/mine.py", None,
    ]  # fmt: skip


def test_every_change_has_exactly_one_row_when_all_is_open() -> None:
    state = after(shop(), MovedTo(-1), Opened())
    shown = [one.change for one in state.listing.rows if isinstance(one, ChangeRow)]
    assert sorted(shown, key=lambda one: one.key) == list(SHOP.changes)


@pytest.mark.parametrize("more", [{"risks": RISK}, {"conflict": "it is there already"}, {"obstacle": "a fifo"}])
def test_an_ignored_change_that_wants_a_look_does_not_hide(more: dict[str, Any]) -> None:
    state = begin(changes(change("build/x", ignored=True, **more)))[0]
    assert state.change is not None


def test_what_could_not_be_read_is_a_row() -> None:
    made = listing(changes(change("a"), problems=("b: permission denied",)))
    assert made.rows[-1] == ProblemRow("b: permission denied")


def test_a_note_is_the_last_row() -> None:
    made = listing(changes(change("a"), problems=("b: permission denied",), notes=("the base was cut",)))
    assert made.rows[-1] == NoteRow("the base was cut")


def test_it_opens_on_the_first_change_with_nothing_chosen_and_reads_it() -> None:
    state, asked = begin(SHOP)
    assert state.selection == NOTHING
    assert state.change == change("README.md")
    assert asked == (Load(key("README.md")),)


def test_without_changes_every_key_does_nothing() -> None:
    state = begin(ChangeSet(()))[0]
    for event in (Moved(1), Toggled(), Entered(), Opened(), Backed(), BlockMoved(1), PaneSwapped(), MovedTo(-1)):
        assert after(state, event).selection == NOTHING


# Moving


def test_the_cursor_stops_at_both_ends() -> None:
    assert after(shop(), Moved(-99)).cursor == 0
    assert after(shop(), Moved(99)).cursor == len(shop().listing.rows) - 1


def test_moving_to_another_change_reads_it() -> None:
    state = shop()
    assert effects(state, MovedTo(row(state, "src/a.py"))) == (Load(key("src/a.py")),)


def test_enter_opens_the_diff_and_escape_comes_back() -> None:
    state = after(shop(), Entered())
    assert state.pane is Pane.DIFF
    assert after(state, Escaped()).pane is Pane.LIST


def test_in_the_diff_the_cursor_of_the_list_stays() -> None:
    state = after(shop(), DiffShown(key("README.md"), 50), Entered(), Moved(3))
    assert (state.cursor, state.diff.cursor) == (shop().cursor, 3)


def test_blocks_are_walked_in_order_and_the_last_one_says_so() -> None:
    state = after(shop(), DiffShown(key("README.md"), 50, (4, 20, 33)), BlockMoved(1), BlockMoved(1))
    assert state.diff.cursor == 20
    assert after(state, BlockMoved(-1)).diff.cursor == 4
    assert "last block" in after(state, BlockMoved(1), BlockMoved(1)).word


def test_next_change_skips_headings_and_keeps_the_diff_open() -> None:
    state = after(shop(), Entered(), ChangeMoved(1))
    assert state.change is not None
    assert state.change.key == key("run/socket")
    assert state.pane is Pane.DIFF


def test_a_diff_that_comes_too_late_is_not_shown() -> None:
    state = after(shop(), ChangeMoved(1))
    assert after(state, DiffShown(key("README.md"), 99)) == state


def test_left_goes_to_the_heading_and_then_closes_it() -> None:
    state = after(shop(), MovedTo(row(shop(), "src/b.py")), Backed())
    assert state.cursor == head(state, b"src")
    closed = after(state, Backed())
    assert len(closed.listing.rows) == len(state.listing.rows) - 4
    assert after(closed, Opened()) == state


def test_a_heading_gives_the_diff_no_keys() -> None:
    assert after(shop(), MovedTo(0), PaneSwapped()).pane is Pane.LIST


def test_another_width_reads_again_for_the_notes_to_be_broken_anew() -> None:
    assert effects(shop(), Resized(120)) == (Load(key("README.md")),)
    assert effects(shop(), Resized(80)) == ()


# Choosing


def test_space_takes_and_leaves() -> None:
    assert names(after(shop(), Toggled())) == {"README.md"}
    assert after(shop(), Toggled(), Toggled()).selection == NOTHING


@pytest.mark.parametrize("path", ["src/mine.py", "run/socket"])
def test_what_cannot_be_merged_cannot_be_taken_and_says_why(path: str) -> None:
    state = after(shop(), Toggled(row(shop(), path)))
    assert state.selection == NOTHING
    assert state.word.startswith("cannot be merged: ")


def test_a_directory_takes_what_is_safe_in_it_and_names_the_rest() -> None:
    state = after(shop(), Toggled(head(shop(), b"src")))
    assert names(state) == {"src/a.py", "src/b.py"}
    assert state.word == "1 risky change not taken: choose one by one"
    assert after(state, Toggled(head(state, b"src"))).selection == NOTHING


def test_a_taken_directory_is_left_with_its_risky_ones() -> None:
    state = after(shop(), Toggled(row(shop(), "src/hook")), Toggled(head(shop(), b"src")))
    assert names(state) == {"src/a.py", "src/b.py", "src/hook"}
    assert after(state, Toggled(head(state, b"src"))).selection == NOTHING


def test_a_directory_without_anything_safe_says_so() -> None:
    state = after(shop(), Toggled(head(shop(), b"run")))
    assert state.selection == NOTHING
    assert "choose one by one" in state.word


def test_the_row_of_ignored_changes_takes_them_all() -> None:
    assert names(after(shop(), Toggled(head(shop(), None)))) == {"node_modules/x", "node_modules/y"}


def test_all_takes_what_is_safe_and_says_what_it_did_not_take() -> None:
    state = after(shop(), AllToggled())
    assert state.selection == all_of(SHOP)
    assert state.word == ("all that is safe is chosen; not taken: 1 risky change, 2 ignored by git, 2 that cannot be merged")


def test_all_keeps_what_was_chosen_one_by_one_and_the_second_time_leaves_everything() -> None:
    state = after(shop(), Toggled(row(shop(), "src/hook")), AllToggled())
    assert names(state) == {"README.md", "src/a.py", "src/b.py", "src/hook"}
    assert after(state, AllToggled()).selection == NOTHING


CHAIN = changes(change("d", Kind.RETYPED, requires=(key("d/x"),)), change("d/x", Kind.DELETED), change("e"))


def test_what_a_choice_pulls_along_is_said() -> None:
    state = after(begin(CHAIN)[0], Toggled())
    assert names(state) == {"d", "d/x"}
    assert state.word == "taken with what it needs: d/x"


def test_what_leaving_pulls_along_is_said() -> None:
    state = begin(CHAIN)[0]
    state = after(state, Toggled(), Toggled(row(state, "d/x")))
    assert state.selection == NOTHING
    assert state.word == "left, and with it what needs it: d"


def test_what_needs_something_unmergeable_cannot_be_taken_and_says_what() -> None:
    broken = changes(change("d", requires=(key("d/x"),)), change("d/x", conflict="it was changed meanwhile"))
    state = after(begin(broken)[0], Toggled())
    assert state.selection == NOTHING
    assert state.word == "cannot be taken without d/x, which cannot be merged"


def test_a_safe_change_that_needs_a_risky_one_is_not_taken_with_its_directory() -> None:
    some = changes(change("a", requires=(key("b"),)), change("b", risks=RISK), change("c"))
    state = begin(some)[0]
    assert names(after(state, Toggled(head(state, b"")))) == {"c"}


def test_the_word_is_gone_with_the_next_key() -> None:
    assert after(shop(), AllToggled(), Moved(1)).word == ""


# Asking


def test_apply_with_nothing_chosen_only_says_so() -> None:
    state = after(shop(), ApplyAsked())
    assert state.face is Face.REVIEW
    assert state.word.startswith("nothing is chosen")


def test_apply_asks_with_no_in_focus() -> None:
    state = after(shop(), Toggled(), ApplyAsked())
    assert (state.face, state.is_yes) == (Face.SUMMARY, False)


@pytest.mark.parametrize("event", [ApplyAsked(), LeaveAsked(), HelpAsked(), Toggled(), AllToggled(), Entered(), Escaped()])
def test_keys_of_the_review_do_nothing_to_a_question(event: Event) -> None:
    state = after(shop(), Toggled(), ApplyAsked())
    assert update(state, event) == (state, ())


def test_enter_on_the_question_means_no() -> None:
    asked = after(shop(), Toggled(), ApplyAsked())
    back, done = update(asked, Answered())
    assert (back.face, done) == (Face.REVIEW, ())
    assert names(back) == {"README.md"}


def test_yes_finishes_with_the_selection() -> None:
    state = after(shop(), Toggled(), ApplyAsked())
    assert effects(state, Answered(is_yes=True)) == (Finish(state.selection),)
    assert effects(state, AnswerMoved(), Answered()) == (Finish(state.selection),)


def test_the_focus_is_on_no_again_the_next_time() -> None:
    assert not after(shop(), Toggled(), ApplyAsked(), AnswerMoved(), Answered(is_yes=False), ApplyAsked()).is_yes


def test_leaving_with_nothing_chosen_leaves() -> None:
    assert effects(shop(), LeaveAsked()) == (Finish(None),)
    assert effects(shop(), Escaped()) == (Finish(None),)


def test_leaving_with_something_chosen_asks_and_merges_nothing() -> None:
    state = after(shop(), Toggled(), LeaveAsked())
    assert (state.face, state.is_yes) == (Face.LEAVE, False)
    assert effects(state, Answered(is_yes=True)) == (Finish(None),)


@pytest.mark.parametrize("answer", [Answered(), Answered(is_yes=True), Answered(is_yes=False)])
def test_no_answer_to_help_does_anything(answer: Answered) -> None:
    assert update(after(shop(), Toggled(), HelpAsked()), answer) == (after(shop(), Toggled()), ())


@pytest.mark.parametrize("answer", [Answered(is_yes=True), AnswerMoved()])
def test_an_answer_without_a_question_does_nothing(answer: Event) -> None:
    state = after(shop(), Toggled())
    assert update(state, answer) == (state, ())


# Laws over random keys

EVENTS = st.one_of(
    st.integers(-5, 5).map(Moved),
    st.builds(MovedTo, st.integers(-1, 12), st.sampled_from([None, Pane.LIST, Pane.DIFF])),
    st.sampled_from([ChangeMoved(1), ChangeMoved(-1), BlockMoved(1), BlockMoved(-1), Shifted(8), Shifted(-8)]),
    st.sampled_from([Entered(), Opened(), Backed(), Escaped(), PaneSwapped(), Toggled(), Toggled(), AllToggled()]),
    st.sampled_from([ApplyAsked(), LeaveAsked(), HelpAsked(), AnswerMoved(), Answered(), Answered(is_yes=False)]),
    st.sampled_from([Resized(60), Resized(120)]),
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
    """Answer each wish to read."""
    for effect in asked:
        if isinstance(effect, Load):
            state = after(state, DiffShown(effect.key, 40, (3, 9, 30), 200))
    return state


@settings(max_examples=300)
@given(change_sets(), st.lists(EVENTS, max_size=40))
def test_the_numbers_always_equal_a_recount(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*begin(some))
    for event in events:
        state = shown(*update(state, event))
        chosen = [one for one in some.changes if one.key in state.selection]
        assert state.chosen == totals.count(chosen)
        assert len(chosen) == len(state.selection)
        groups = state.listing.groups
        assert state.chosen_in == tuple(sum(one.key in state.selection for one in group.changes) for group in groups)


@settings(max_examples=300)
@given(change_sets(), st.lists(EVENTS, max_size=40))
def test_whatever_is_pressed_the_cursors_are_on_rows_and_the_choice_can_be_merged(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*begin(some))
    table = some.by_key()
    for event in events:
        state = shown(*update(state, event))
        assert 0 <= state.cursor < max(1, len(state.listing.rows))
        assert 0 <= state.diff.cursor < max(1, state.diff.length)
        assert state.diff.key == (state.change.key if state.change else None)
        assert state.pane is Pane.LIST or state.change
        assert all(table[one].is_clean for one in state.selection.keys)
        assert all(need in state.selection for one in state.selection.keys for need in table[one].requires if need in table)


@settings(max_examples=200)
@given(change_sets(), st.lists(EVENTS, max_size=30))
def test_nothing_finishes_but_a_yes_or_leaving_without_a_choice(some: ChangeSet, events: list[Event]) -> None:
    state = shown(*begin(some))
    for event in events:
        old = state
        state, asked = update(state, event)
        finished = [effect for effect in asked if isinstance(effect, Finish)]
        if finished:
            is_leaving = isinstance(event, LeaveAsked | Escaped) and not old.selection.keys
            is_yes = isinstance(event, Answered) and event.is_yes is None and old.is_yes
            assert is_leaving or is_yes
            assert finished[0].selection is None or old.face is Face.SUMMARY
        state = shown(state, asked)


@settings(max_examples=100)
@given(change_sets())
def test_all_never_takes_what_is_not_safe(some: ChangeSet) -> None:
    state = after(begin(some)[0], AllToggled())
    assert all(is_safe(one) and not one.ignored for one in some.changes if one.key in state.selection)
