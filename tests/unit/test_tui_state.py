"""The merge screen's state: what keys make of it, and that its numbers are always true."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.core.blocks import blocks
from agent_dev.core.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from agent_dev.core.choice import Side, block_of
from agent_dev.core.selection import NOTHING, all_of, is_safe
from tui import diff, totals
from tui.document import Document, Look, Row, RowKind
from tui.effects import Apply, Effect, Finish, Load, Seek
from tui.entries import Tab
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
    Finished,
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
from tui.rows import ChangeRow, HeadRow, NoteRow, ProblemRow, Section, listing
from tui.state import Face, State
from tui.totals import Count
from tui.update import begin, update

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
    """Return the screen on the shop, at README.md."""
    state = begin(SHOP)[0]
    return after(state, MovedTo(row(state, "README.md")))


def row(state: State, path: str) -> int:
    """Return the row of a change."""
    return next(at for at, one in enumerate(state.listing.rows) if isinstance(one, ChangeRow) and one.key == key(path))


def head(state: State, what: bytes | Section) -> int:
    """Return the row of a heading: a directory's, or a section's."""

    def is_meant(group: int) -> bool:
        one = state.listing.groups[group]
        return one.section is what or (one.section is Section.FOLDER and one.path == what)

    return next(at for at, one in enumerate(state.listing.rows) if isinstance(one, HeadRow) and is_meant(one.group))


def rows(count: int, starts: tuple[int, ...] = (), path: str = "README.md") -> DiffShown:
    """Return the fact that a diff of so many rows is there."""
    return DiffShown(Document(key(path), (Row(RowKind.WORDS),) * count, starts, 200))


def loads(asked: Sequence[Effect]) -> list[Key]:
    """Return what is to be read."""
    return [effect.key for effect in asked if isinstance(effect, Load)]


def names(state: State) -> set[str]:
    """Return the chosen paths."""
    return {one.path.decode() for one in state.selection.keys}


# The rows


def test_rows_begin_with_what_wants_a_look_then_directories_and_what_git_ignores_comes_last_behind_one() -> None:
    groups = shop().listing.groups
    shown = [
        (groups[one.group].section, groups[one.group].path) if isinstance(one, HeadRow) else one.key.path.decode()
        for one in shop().listing.rows
        if not isinstance(one, ProblemRow | NoteRow)
    ]
    assert shown == [
        (Section.RISKY, b""), "run/socket", "src/hook", "src/mine.py",
        (Section.FOLDER, b""), "README.md", (Section.FOLDER, b"src"), "src/a.py", "src/b.py", (Section.FOLDED, b""),
    ]  # fmt: skip


def test_lock_files_come_behind_directories_and_generated_files_are_folded() -> None:
    state = begin(changes(change("uv.lock"), change("zoo"), change("node_modules/x.js", Kind.ADDED)))[0]
    assert [group.section for group in state.listing.groups] == [Section.FOLDER, Section.LOCKS, Section.FOLDED]


def test_a_tree_nests_directories_and_counts_what_is_below() -> None:
    some = changes(change("a/b/c"), change("a/d"), change("e"), change("a.b/x"))
    state = after(begin(some)[0], Switched(Switch.TREE))
    shown = [(group.depth, group.path, len(group.keys)) for group in state.listing.groups]
    assert shown == [(0, b"", 4), (1, b"a", 2), (2, b"a/b", 1), (1, b"a.b", 1)]
    chosen = after(state, Toggled(head(state, b"a")))
    assert names(chosen) == {"a/b/c", "a/d"}
    assert chosen.chosen_in == (2, 2, 1, 0)


def test_a_closed_directory_hides_all_below_it() -> None:
    state = after(begin(changes(change("a/b/c"), change("a/d"), change("e")))[0], Switched(Switch.TREE))
    closed = after(state, MovedTo(head(state, b"a")), Backed())
    shown = [one.key.path for one in closed.listing.rows if isinstance(one, ChangeRow)]
    assert shown == [b"e"]
    assert after(closed, Opened()).listing == state.listing


def test_every_change_has_exactly_one_row_when_all_is_open() -> None:
    state = after(shop(), MovedTo(-1), Opened())
    shown = [one.key for one in state.listing.rows if isinstance(one, ChangeRow)]
    assert sorted(shown) == [one.key for one in SHOP.changes]


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
    assert state.change == SHOP.by_key()[key("run/socket")]
    assert loads(asked) == [key("run/socket")]


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
    assert loads(effects(state, MovedTo(row(state, "src/a.py")))) == [key("src/a.py")]


def test_enter_opens_the_diff_and_escape_comes_back() -> None:
    state = after(shop(), Entered())
    assert state.pane is Pane.DIFF
    assert after(state, Escaped()).pane is Pane.LIST


def test_in_the_diff_the_cursor_of_the_list_stays() -> None:
    state = after(shop(), rows(50), Entered(), Moved(3))
    assert (state.cursor, state.diff.cursor) == (shop().cursor, 3)


def test_blocks_are_walked_in_order_and_the_last_one_says_so() -> None:
    state = after(shop(), rows(50, (4, 20, 33)), BlockMoved(1), BlockMoved(1))
    assert state.diff.cursor == 20
    assert after(state, BlockMoved(-1)).diff.cursor == 4
    assert "last block" in after(state, BlockMoved(1), BlockMoved(1)).word


def test_next_change_skips_headings_and_keeps_the_diff_open() -> None:
    state = after(shop(), Entered(), ChangeMoved(1))
    assert state.change is not None
    assert state.change.key == key("src/a.py")
    assert state.pane is Pane.DIFF


def test_a_diff_that_comes_too_late_is_not_shown() -> None:
    state = after(shop(), ChangeMoved(1))
    assert after(state, rows(99)) == state


def test_left_goes_to_the_heading_and_then_closes_it() -> None:
    state = after(shop(), MovedTo(row(shop(), "src/b.py")), Backed())
    assert state.cursor == head(state, b"src")
    closed = after(state, Backed())
    assert len(closed.listing.rows) == len(state.listing.rows) - 2
    assert after(closed, Opened()) == state


def test_a_heading_gives_the_diff_no_keys() -> None:
    assert after(shop(), MovedTo(0), PaneSwapped()).pane is Pane.LIST


def test_another_width_reads_again_for_the_notes_to_be_broken_anew() -> None:
    assert loads(effects(shop(), Resized(120))) == [key("README.md")]
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


def test_a_directory_takes_what_is_in_it() -> None:
    state = after(shop(), Toggled(head(shop(), b"src")))
    assert names(state) == {"src/a.py", "src/b.py"}
    assert after(state, Toggled(head(state, b"src"))).selection == NOTHING


def test_what_wants_a_look_is_not_taken_all_at_once() -> None:
    state = after(shop(), Toggled(head(shop(), Section.RISKY)))
    assert state.selection == NOTHING
    assert "choose one by one" in state.word


def test_the_row_of_ignored_changes_takes_them_all() -> None:
    assert names(after(shop(), Toggled(head(shop(), Section.FOLDED)))) == {"node_modules/x", "node_modules/y"}


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
    state = begin(broken)[0]
    state = after(state, Toggled(row(state, "d")))
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
    assert (state.face, state.answer) == (Face.SUMMARY, NO)


@pytest.mark.parametrize("event", [ApplyAsked(), LeaveAsked(), HelpAsked(), Toggled(), AllToggled(), Entered(), Escaped()])
def test_keys_of_the_review_do_nothing_to_a_question(event: Event) -> None:
    state = after(shop(), Toggled(), ApplyAsked())
    assert update(state, event) == (state, ())


def test_enter_on_the_question_means_no() -> None:
    asked = after(shop(), Toggled(), ApplyAsked())
    back, done = update(asked, Answered())
    assert (back.face, done) == (Face.REVIEW, ())
    assert names(back) == {"README.md"}


def test_yes_merges_the_selection() -> None:
    state = after(shop(), Toggled(), ApplyAsked())
    assert effects(state, Answered(YES)) == (Apply(state.selection),)
    assert effects(state, AnswerMoved(), Answered()) == (Apply(state.selection),)


def test_each_risky_change_is_asked_about_and_no_leaves_it_out() -> None:
    some = changes(change("a", risks=RISK), change("b", risks=RISK), change("c"))
    state = begin(some)[0]
    state = after(state, AllToggled(), Toggled(row(state, "a")), Toggled(row(state, "b")), ApplyAsked())
    assert (state.face, state.asked, state.answer) == (Face.RISK, (key("a"), key("b")), NO)
    state = after(state, Answered())
    assert (state.face, state.asked, names(state)) == (Face.RISK, (key("b"),), {"b", "c"})
    state = after(state, Answered(YES))
    assert (state.face, names(state)) == (Face.SUMMARY, {"b", "c"})


def test_escape_from_the_question_about_a_risk_goes_back_and_keeps_the_choice() -> None:
    state = begin(changes(change("a", risks=RISK)))[0]
    state = after(state, Toggled(), ApplyAsked(), GivenUp())
    assert (state.face, names(state)) == (Face.REVIEW, {"a"})


def test_no_key_stops_a_merge_that_has_begun() -> None:
    state = after(shop(), Toggled(), ApplyAsked(), Answered(YES))
    for event in (Answered(YES), GivenUp(), Escaped(), LeaveAsked(), Toggled()):
        assert update(state, event) == (state, ())
    done = after(state, Finished(("1 change merged",), 0))
    assert (done.face, effects(done, GivenUp())) == (Face.RESULT, (Finish(is_kept=False),))


def test_the_focus_is_on_no_again_the_next_time() -> None:
    assert not after(shop(), Toggled(), ApplyAsked(), AnswerMoved(), Answered(NO), ApplyAsked()).answer


def test_leaving_with_nothing_chosen_leaves() -> None:
    assert effects(shop(), LeaveAsked()) == (Finish(),)
    assert effects(shop(), Escaped()) == (Finish(),)


def test_leaving_with_something_chosen_asks_and_merges_nothing() -> None:
    state = after(shop(), Toggled(), LeaveAsked())
    assert (state.face, state.answer) == (Face.LEAVE, NO)
    assert effects(state, Answered(YES)) == (Finish(),)


@pytest.mark.parametrize("answer", [Answered(), Answered(YES), Answered(NO)])
def test_no_answer_to_help_does_anything(answer: Answered) -> None:
    assert update(after(shop(), Toggled(), HelpAsked()), answer) == (after(shop(), Toggled()), ())


@pytest.mark.parametrize("answer", [Answered(YES), AnswerMoved()])
def test_an_answer_without_a_question_does_nothing(answer: Event) -> None:
    state = after(shop(), Toggled())
    assert update(state, answer) == (state, ())


# Blocks, lines, parts

BEFORE = b"".join(b"line %d\n" % number for number in range(40))
AFTER = (
    BEFORE.replace(b"line 3\n", b"three\n").replace(b"line 20\nline 21\n", b"twenty\n").replace(b"line 39\n", b"line 39\nend\n")
)
EDIT = change("f")
SCRIPT = Change(key("g"), Kind.EDITED, FILE, Entry(FileType.FILE, mode=0o755))
NEW = change("n", Kind.ADDED)
GONE = change("o", Kind.DELETED)


def on(one: Change, before: bytes | None = BEFORE, new: bytes | None = AFTER, **looks: Any) -> State:
    """Return the screen with the diff of one change open and its lines counted."""
    state = begin(changes(one, change("z")))[0]
    shown = diff.document(one, (), (before, new), Look(**looks))
    count = Count(len(shown.blocks), sum(b.new_lines for b in shown.blocks), sum(b.old_lines for b in shown.blocks))
    counts = {one.key: count, key("z"): Count(1, 1, 1)}
    return after(state, MovedTo(row(state, one.key.path.decode())), DiffShown(shown), Counted(counts), Entered())


def at(state: State, block: int) -> MovedTo:
    """Return the way to a block."""
    return MovedTo(state.diff.document.starts[block])


def part(state: State) -> tuple[list[int], list[int], list[int], bool]:
    """Return the chosen blocks and lines of the one change that is chosen in part."""
    (choice,) = state.selection.choices.values()
    return sorted(choice.blocks), sorted(choice.old), sorted(choice.new), choice.mode


def test_enter_puts_the_cursor_on_the_first_block_and_space_takes_it() -> None:
    state = after(on(EDIT), Toggled())
    assert part(state) == ([0], [], [], True)
    assert (state.chosen.blocks, state.chosen.lines) == (1, 2)
    assert after(state, Toggled()).selection == NOTHING


def test_enter_takes_a_block_and_goes_on_to_the_next_and_then_to_the_next_change() -> None:
    state = after(on(EDIT), Entered(), Entered())
    assert part(state)[0] == [0, 1]
    last = after(state, Entered())
    assert (last.selection.choices, names(last)) == ({}, {"f"})
    assert last.change == change("z")


def test_every_block_by_itself_is_the_whole() -> None:
    state = on(EDIT)
    for block in (2, 0, 1):
        state = after(state, at(state, block), Toggled())
    assert (names(state), state.selection.choices) == ({"f"}, {})


def test_lines_can_be_taken_one_by_one() -> None:
    state = on(EDIT)
    state = after(state, Switched(Switch.LINES), at(state, 1), Toggled(), Moved(2), Toggled())
    assert part(state) == ([], [20], [20], True)
    assert (state.chosen.blocks, state.chosen.lines) == (1, 2)


def test_a_range_takes_its_lines_and_is_over_then() -> None:
    state = on(EDIT)
    state = after(state, at(state, 1), Moved(1, is_range=True), Toggled())
    assert part(state) == ([], [20, 21], [], True)
    assert state.diff.anchor == -1
    assert after(state, Switched(Switch.RANGE), Moved(1), Escaped()).diff.anchor == -1


def test_side_by_side_a_row_is_taken_with_both_its_sides() -> None:
    state = on(EDIT, is_split=True)
    state = after(state, Switched(Switch.LINES), at(state, 1), Toggled())
    assert part(state) == ([], [20], [20], True)


def test_a_row_without_anything_to_choose_says_so() -> None:
    state = after(on(EDIT), MovedTo(0), Toggled())
    assert (state.selection, state.word.startswith("nothing to choose on this row")) == (NOTHING, True)


def test_the_mode_is_a_row_of_its_own() -> None:
    state = on(SCRIPT)
    mode = next(number for number, one in enumerate(state.diff.document.rows) if one.part)
    only_mode = after(state, MovedTo(mode), Toggled())
    assert part(only_mode) == ([], [], [], True)
    lines = after(state, at(state, 0), Toggled())
    assert part(lines) == ([0], [], [], False)
    both = after(lines, MovedTo(mode), Toggled())
    assert part(both) == ([0], [], [], True)


def test_lines_of_a_new_file_create_it_with_a_word() -> None:
    state = on(NEW, None, b"a\nb\n")
    state = after(state, Switched(Switch.LINES), at(state, 0), Toggled())
    assert (part(state), state.word) == (([], [], [0], True), "the file is created with these lines")
    assert after(state, Toggled()).selection == NOTHING


def test_a_deletion_of_which_a_line_is_left_is_an_edit_with_a_word() -> None:
    state = on(GONE, b"a\nb\n", None)
    state = after(state, Switched(Switch.LINES), at(state, 0), Toggled())
    assert (part(state), state.word) == (([], [0], [], True), "the file stays, without these lines")
    assert state.chosen.deletions == 0
    whole = after(state, Moved(1), Toggled())
    assert (whole.selection.choices, whole.chosen.deletions) == ({}, 1)


def test_space_in_the_list_makes_a_part_the_whole() -> None:
    state = after(on(EDIT), Toggled(), PaneSwapped(), Toggled())
    assert (names(state), state.selection.choices, state.parts) == ({"f"}, {}, {})
    assert state.chosen.blocks == 3


def test_choices_are_taken_back_one_by_one_and_made_again() -> None:
    first = after(on(EDIT), Toggled())
    second = after(first, PaneSwapped(), AllToggled())
    back = after(second, Undone())
    assert (back.selection, back.chosen, back.parts) == (first.selection, first.chosen, first.parts)
    assert after(back, Undone()).selection == NOTHING
    again = after(back, Undone(), Redone(), Redone())
    assert (again.selection, again.chosen) == (second.selection, second.chosen)


def test_all_of_a_kind_is_taken_and_left() -> None:
    some = changes(change("a", Kind.ADDED), change("b", Kind.ADDED), change("c"), change("d", Kind.ADDED, risks=RISK))
    state = begin(some)[0]
    state = after(state, MovedTo(row(state, "a")), KindToggled())
    assert names(state) == {"a", "b"}
    assert after(state, KindToggled()).selection == NOTHING


def test_nothing_is_one_key_and_can_be_taken_back() -> None:
    state = after(shop(), AllToggled(), NothingChosen())
    assert state.selection == NOTHING
    assert after(state, Undone()).selection == all_of(SHOP)


# Views, filters, tabs


def test_what_was_looked_at_can_be_left_out_of_the_list() -> None:
    state = after(shop(), Reviewed(), Switched(Switch.UNREVIEWED))
    assert key("README.md") not in state.listing.group_of
    assert after(state, Switched(Switch.UNREVIEWED)).listing.group_of.keys() == shop().listing.group_of.keys()


def test_a_filter_works_with_every_letter_and_escape_gives_it_up() -> None:
    state = after(shop(), LineAsked(Asking.FILTER), Typed("SRC/a"))
    assert [one.path for one in state.listing.group_of] == [b"src/a.py"]
    assert after(state, TypedOut(is_meant=False)).listing.group_of.keys() == shop().listing.group_of.keys()
    kept = after(state, TypedOut(is_meant=True))
    assert len(kept.listing.group_of) == 1
    assert len(after(kept, Escaped()).listing.group_of) == len(SHOP.changes)


def test_what_is_typed_is_never_a_key() -> None:
    state = after(shop(), LineAsked(Asking.FILTER))
    for event in (Toggled(), AllToggled(), ApplyAsked(), LeaveAsked(), Entered()):
        assert update(state, event) == (state, ())


def test_a_search_finds_in_this_diff_and_then_asks_for_the_others() -> None:
    state = after(on(EDIT), LineAsked(Asking.SEARCH), Typed("TWENTY"), TypedOut(is_meant=True))
    assert state.diff.document.rows[state.diff.cursor].new == 20
    state, asked = update(state, ChangeMoved(1))
    assert [one.keys for one in asked if hasattr(one, "keys")] == [(key("z"), key("f"))]


def test_a_search_in_an_empty_list_finds_nothing() -> None:
    state = after(shop(), LineAsked(Asking.FILTER), Typed("nowhere"), TypedOut(is_meant=True))
    state = after(state, LineAsked(Asking.SEARCH), Typed("x"), TypedOut(is_meant=True))
    for by in (1, -1):
        assert [one.keys for one in effects(state, ChangeMoved(by)) if isinstance(one, Seek)] == [()]


def test_risks_are_jumped_to_round_and_round() -> None:
    state = after(shop(), RiskMoved(1))
    found = []
    for _ in range(3):
        assert state.change is not None
        found.append(state.change.key.path)
        state = after(state, RiskMoved(1))
    assert sorted(found) == [b"run/socket", b"src/hook", b"src/mine.py"]


def test_a_tab_without_anything_is_not_turned_to() -> None:
    assert after(shop(), TabTurned(Tab.COMMANDS)).tab is Tab.CHANGES


def test_while_the_agent_works_nothing_can_be_chosen_or_merged() -> None:
    state = begin(SHOP, is_running=True)[0]
    for event in (Toggled(), AllToggled(), ApplyAsked()):
        made = after(state, event)
        assert (made.selection, made.face) == (NOTHING, Face.REVIEW)
        assert "still working" in made.word


# Laws over random keys

EVENTS = st.one_of(
    st.integers(-5, 5).map(Moved),
    st.builds(MovedTo, st.integers(-1, 12), st.sampled_from([None, Pane.LIST, Pane.DIFF])),
    st.sampled_from([ChangeMoved(1), ChangeMoved(-1), BlockMoved(1), BlockMoved(-1), Shifted(8), Shifted(-8)]),
    st.sampled_from([Entered(), Opened(), Backed(), Escaped(), PaneSwapped(), Toggled(), Toggled(), AllToggled()]),
    st.sampled_from([ApplyAsked(), LeaveAsked(), HelpAsked(), AnswerMoved(), Answered(), Answered(NO)]),
    st.sampled_from([Resized(60), Resized(120), Undone(), Redone(), NothingChosen(), KindToggled(), Reviewed(), RiskMoved(1)]),
    st.sampled_from([Switched(switch) for switch in Switch]),
    st.sampled_from([ContextChanged(3), Moved(1, is_range=True), GivenUp(), TabTurned(Tab.RISKS), TabTurned(Tab.CHANGES)]),
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
    state = shown(*begin(some))
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
    state = shown(*begin(some))
    for event in events:
        state = shown(*update(state, event))
    state = after(state, GivenUp(), TypedOut(is_meant=True))
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
    state = shown(*begin(some))
    table = some.by_key()
    for event in events:
        state = shown(*update(state, event))
        assert 0 <= state.cursor < max(1, state.length)
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
    assert all(is_safe(one) and not one.ignored for one in some.changes if one.key in state.selection)
