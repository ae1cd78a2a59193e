"""Ranges of the list, the diff in full width, cursors of tabs, and files opened in an editor."""

import pytest

from agent_dev.overlay.changes import ChangeKind
from tests.unit.tui.tui_states import SHOP, after, change, changes, effects, key, names, on, row, shop
from tui.effects import LoadDiff, ViewFile
from tui.events import (
    CursorMoved,
    CursorMovedTo,
    DisplayOption,
    DisplayOptionToggled,
    EditRequested,
    EscapePressed,
    HunkMoved,
    Pane,
    PaneSwitched,
    Resized,
    StepOut,
    TabSelected,
    Toggled,
)
from tui.model.tabs import Tab, TabEntry
from tui.state import State
from tui.update.dispatch import initial_state

RANGE, ZOOM, TREE = map(DisplayOptionToggled, (DisplayOption.RANGE, DisplayOption.ZOOM, DisplayOption.TREE))
DOWN = CursorMoved(1, extends_range=True)


def five() -> State:
    """Return a state with five files in one directory, and the cursor on the first."""
    state = initial_state(changes(*(change(f"d/{number}") for number in range(5))))[0]
    return after(state, CursorMovedTo(row(state, "d/0")))


@pytest.mark.parametrize("mark", [(RANGE, CursorMoved(1), CursorMoved(1)), (DOWN, DOWN)])
def test_a_range_of_the_list_is_selected_and_deselected(mark: tuple[CursorMoved, ...]) -> None:
    selected = after(five(), *mark, Toggled())
    assert (names(selected), selected.list_anchor) == ({"d/0", "d/1", "d/2"}, -1)
    again = after(selected, RANGE, CursorMoved(-1), Toggled())
    assert names(again) == {"d/0"}


def test_a_range_includes_what_a_closed_heading_hides() -> None:
    state = after(five(), StepOut(), StepOut())  # to the heading, then close it
    assert names(after(state, RANGE, Toggled())) == {f"d/{number}" for number in range(5)}


def test_risky_changes_of_a_range_are_not_selected() -> None:
    state = after(shop(), CursorMovedTo(0), RANGE, CursorMovedTo(-1), Toggled())
    assert names(state) == {"README.md", "src/a.py", "src/b.py", "node_modules/x", "node_modules/y"}
    assert "1 risky change not selected" in state.message


def test_esc_ends_a_range_and_quits_nothing() -> None:
    marked = after(five(), DOWN, DOWN)
    assert (marked.list_anchor, len(marked.marked_rows)) == (row(marked, "d/0"), 3)
    ended = after(marked, EscapePressed())
    assert (ended.list_anchor, ended.page) == (-1, marked.page)
    assert names(after(ended, Toggled())) == {"d/2"}


@pytest.mark.parametrize("event", [TREE, PaneSwitched(), StepOut()])
def test_a_range_ends_when_the_rows_change_or_the_list_is_left(event: object) -> None:
    state = after(five(), CursorMovedTo(0), DOWN, event)  # type: ignore[arg-type]
    assert after(state, StepOut()).list_anchor == -1


def test_the_diff_has_the_whole_width_until_the_key_is_pressed_again() -> None:
    state = after(shop(), Resized(200))
    assert (state.is_wide, state.diff_columns) == (True, 127)
    zoomed = after(state, ZOOM)
    assert (zoomed.is_wide, zoomed.diff_columns, zoomed.pane) == (False, 200, Pane.DIFF)
    assert after(zoomed, EscapePressed()).pane is Pane.LIST
    assert isinstance(effects(state, ZOOM)[0], LoadDiff)
    assert (after(zoomed, ZOOM).is_wide, after(zoomed, ZOOM).display_options) == (True, state.display_options)


def test_the_cursor_stays_on_its_change_when_the_view_changes() -> None:
    state = after(shop(), CursorMovedTo(row(shop(), "src/b.py")))
    for event in (TREE, TREE, DisplayOptionToggled(DisplayOption.SPLIT), ZOOM, ZOOM):
        state = after(state, event)
        assert state.change is not None
        assert state.change.key == key("src/b.py")


def test_each_tab_keeps_its_cursor() -> None:
    entries = tuple(TabEntry(f"command {number}") for number in range(9))
    state = initial_state(SHOP, tabs={Tab.COMMANDS: entries})[0]
    state = after(
        state, CursorMovedTo(row(state, "src/b.py")), TabSelected(Tab.COMMANDS), CursorMovedTo(5), TabSelected(Tab.CHANGES)
    )
    assert state.change is not None
    assert state.change.key == key("src/b.py")
    assert after(state, TabSelected(Tab.COMMANDS)).cursor == 5


def test_the_agents_file_is_opened_at_the_line_of_the_cursor() -> None:
    state = on(change("f"))
    assert effects(state, EditRequested()) == (ViewFile(key("f"), 4),)
    assert effects(state, HunkMoved(1), EditRequested()) == (ViewFile(key("f"), 21),)


def test_a_deleted_file_is_not_opened() -> None:
    state = on(change("f", ChangeKind.DELETED), new=None)
    assert effects(state, EditRequested()) == ()
    assert after(state, EditRequested()).message == "no file of the agent's to open"
