"""The rows of the merge screen's list: their order, what is folded, and where it opens."""

from typing import Any

import pytest

from agent_dev.overlay.changes import ChangeSet, Kind
from agent_dev.overlay.selection import NOTHING
from tests.unit.tui_states import RISK, SHOP, after, change, changes, head, key, loads, names, shop
from tui.events import Backed, BlockMoved, Entered, Moved, MovedTo, Opened, PaneSwapped, Switch, Switched, Toggled
from tui.model.change_list import ChangeRow, HeadRow, NoteRow, ProblemRow, Section, listing
from tui.update.dispatch import begin


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
