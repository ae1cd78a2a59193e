"""The rows of the review screen's list: their order, folded headings, and the initial position."""

from typing import Any

import pytest

from agent_dev.overlay.changes import ChangeKind, ChangeSet
from agent_dev.overlay.selection import EMPTY_SELECTION
from tests.unit.tui.tui_states import RISK, SHOP, after, change, changes, head, key, loads, names, shop
from tui.events import (
    CursorMoved,
    CursorMovedTo,
    DisplayOption,
    DisplayOptionToggled,
    EnterPressed,
    HunkMoved,
    PaneSwitched,
    StepIn,
    StepOut,
    Toggled,
)
from tui.model.change_list import ChangeRow, HeadingRow, NoteRow, ProblemRow, Section, build_listing
from tui.update.dispatch import initial_state


def test_rows_start_with_needs_review_and_end_with_one_ignored_heading() -> None:
    groups = shop().listing.groups
    shown = [
        (groups[one.group].section, groups[one.group].path) if isinstance(one, HeadingRow) else one.key.path.decode()
        for one in shop().listing.rows
        if not isinstance(one, ProblemRow | NoteRow)
    ]
    assert shown == [
        (Section.RISKY, b""), "run/socket", "src/hook", "src/mine.py",
        (Section.DIRECTORY, b""), "README.md", (Section.DIRECTORY, b"src"), "src/a.py", "src/b.py", (Section.FOLDED, b""),
    ]  # fmt: skip


def test_lock_files_follow_directories_and_generated_files_are_folded() -> None:
    state = initial_state(changes(change("uv.lock"), change("zoo"), change("node_modules/x.js", ChangeKind.ADDED)))[0]
    assert [group.section for group in state.listing.groups] == [Section.DIRECTORY, Section.LOCK_FILES, Section.FOLDED]


def test_a_tree_nests_directories_and_counts_their_changes() -> None:
    some = changes(change("a/b/c"), change("a/d"), change("e"), change("a.b/x"))
    state = after(initial_state(some)[0], DisplayOptionToggled(DisplayOption.TREE))
    shown = [(group.depth, group.path, len(group.keys)) for group in state.listing.groups]
    assert shown == [(0, b"", 4), (1, b"a", 2), (2, b"a/b", 1), (1, b"a.b", 1)]
    selected = after(state, Toggled(head(state, b"a")))
    assert names(selected) == {"a/b/c", "a/d"}
    assert selected.selected_per_group == (2, 2, 1, 0)


def test_a_folded_directory_hides_everything_below_it() -> None:
    state = after(
        initial_state(changes(change("a/b/c"), change("a/d"), change("e")))[0], DisplayOptionToggled(DisplayOption.TREE)
    )
    closed = after(state, CursorMovedTo(head(state, b"a")), StepOut())
    shown = [one.key.path for one in closed.listing.rows if isinstance(one, ChangeRow)]
    assert shown == [b"e"]
    assert after(closed, StepIn()).listing == state.listing


def test_every_change_has_exactly_one_row_when_all_is_unfolded() -> None:
    state = after(shop(), CursorMovedTo(-1), StepIn())
    shown = [one.key for one in state.listing.rows if isinstance(one, ChangeRow)]
    assert sorted(shown) == [one.key for one in SHOP.changes]


@pytest.mark.parametrize("more", [{"risks": RISK}, {"conflict": "it is there already"}, {"obstacle": "a fifo"}])
def test_an_ignored_change_that_needs_review_is_not_hidden(more: dict[str, Any]) -> None:
    state = initial_state(changes(change("build/x", is_ignored=True, **more)))[0]
    assert state.change is not None


def test_an_unreadable_entry_is_a_row() -> None:
    made = build_listing(changes(change("a"), problems=("b: permission denied",)))
    assert made.rows[-1] == ProblemRow("b: permission denied")


def test_a_note_is_the_last_row() -> None:
    made = build_listing(changes(change("a"), problems=("b: permission denied",), notes=("the base was cut",)))
    assert made.rows[-1] == NoteRow("the base was cut")


def test_the_first_change_is_shown_with_nothing_selected() -> None:
    state, asked = initial_state(SHOP)
    assert state.selection == EMPTY_SELECTION
    assert state.change == SHOP.by_key()[key("run/socket")]
    assert loads(asked) == [key("run/socket")]


def test_without_changes_every_key_does_nothing() -> None:
    state = initial_state(ChangeSet(()))[0]
    for event in (
        CursorMoved(1),
        Toggled(),
        EnterPressed(),
        StepIn(),
        StepOut(),
        HunkMoved(1),
        PaneSwitched(),
        CursorMovedTo(-1),
    ):
        assert after(state, event).selection == EMPTY_SELECTION
