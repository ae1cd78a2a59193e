"""Selecting changes on the review screen: one, a directory, all, and required changes."""

import pytest

from agent_dev.overlay.changes import ChangeKind
from agent_dev.overlay.selection import EMPTY_SELECTION, select_all
from tests.unit.tui.tui_states import RISK, SHOP, after, change, changes, head, key, names, row, shop
from tui.events import AllToggled, CursorMoved, Toggled
from tui.model.change_list import Section
from tui.update.dispatch import initial_state


def test_space_selects_and_deselects() -> None:
    assert names(after(shop(), Toggled())) == {"README.md"}
    assert after(shop(), Toggled(), Toggled()).selection == EMPTY_SELECTION


@pytest.mark.parametrize(("path", "reason"), [("src/mine.py", "conflict: "), ("run/socket", "cannot be merged: ")])
def test_an_unmergeable_change_cannot_be_selected_and_shows_its_reason(path: str, reason: str) -> None:
    state = after(shop(), Toggled(row(shop(), path)))
    assert state.selection == EMPTY_SELECTION
    assert state.message.startswith(reason)


def test_a_directory_selects_its_changes() -> None:
    state = after(shop(), Toggled(head(shop(), b"src")))
    assert names(state) == {"src/a.py", "src/b.py"}
    assert after(state, Toggled(head(state, b"src"))).selection == EMPTY_SELECTION


def test_risky_changes_are_not_selected_all_at_once() -> None:
    state = after(shop(), Toggled(head(shop(), Section.RISKY)))
    assert state.selection == EMPTY_SELECTION
    assert "individually" in state.message


def test_the_heading_of_ignored_changes_selects_them_all() -> None:
    assert names(after(shop(), Toggled(head(shop(), Section.FOLDED)))) == {"node_modules/x", "node_modules/y"}


def test_all_selects_safe_changes_and_reports_the_others() -> None:
    state = after(shop(), AllToggled())
    assert state.selection == select_all(SHOP)
    assert state.message == "all safe changes selected; skipped: 1 risky, 2 ignored, 2 unmergeable"


def test_all_keeps_single_selections_and_the_second_time_deselects_all() -> None:
    state = after(shop(), Toggled(row(shop(), "src/hook")), AllToggled())
    assert names(state) == {"README.md", "src/a.py", "src/b.py", "src/hook"}
    assert after(state, AllToggled()).selection == EMPTY_SELECTION


CHAIN = changes(change("d", ChangeKind.RETYPED, requires=(key("d/x"),)), change("d/x", ChangeKind.DELETED), change("e"))


def test_required_changes_that_were_selected_too_are_reported() -> None:
    state = after(initial_state(CHAIN)[0], Toggled())
    assert names(state) == {"d", "d/x"}
    assert state.message == "also selected, because required: d/x"


def test_changes_that_were_deselected_too_are_reported() -> None:
    state = initial_state(CHAIN)[0]
    state = after(state, Toggled(), Toggled(row(state, "d/x")))
    assert state.selection == EMPTY_SELECTION
    assert state.message == "also deselected, because it requires this: d"


def test_a_change_that_requires_an_unmergeable_one_cannot_be_selected() -> None:
    broken = changes(change("d", requires=(key("d/x"),)), change("d/x", conflict="changed since the session started"))
    state = initial_state(broken)[0]
    state = after(state, Toggled(row(state, "d")))
    assert state.selection == EMPTY_SELECTION
    assert state.message == "requires d/x, which cannot be merged"


def test_a_change_that_requires_a_risky_one_is_not_selected_by_directory() -> None:
    some = changes(change("a", requires=(key("b"),)), change("b", risks=RISK), change("c"))
    state = initial_state(some)[0]
    assert names(after(state, Toggled(head(state, b"")))) == {"c"}


def test_the_next_key_clears_the_status_message() -> None:
    assert after(shop(), AllToggled(), CursorMoved(1)).message == ""


def test_all_safe_leaves_new_files_in_generated_directories_out() -> None:
    some = changes(
        change("node_modules/a/new.js", ChangeKind.ADDED),
        change("node_modules/tracked.js"),
        change("src/new.js", ChangeKind.ADDED),
    )
    state = after(initial_state(some)[0], AllToggled())
    assert names(state) == {"node_modules/tracked.js", "src/new.js"}
    assert state.message == "all safe changes selected; skipped: 1 generated"
    assert names(after(state, AllToggled())) == set()
