"""Choosing changes on the merge screen: one, a directory, all, and what a choice pulls along."""

import pytest

from agent_dev.overlay.changes import Kind
from agent_dev.overlay.selection import NOTHING, all_of
from tests.unit.tui_states import RISK, SHOP, after, change, changes, head, key, names, row, shop
from tui.events import AllToggled, Moved, Toggled
from tui.model.change_list import Section
from tui.update.dispatch import begin


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
