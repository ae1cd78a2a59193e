"""Moving on the review screen: through the list, into a diff and back, and what is loaded on the way."""

from tests.unit.tui.tui_states import after, effects, head, key, loads, row, shop
from tui.events import (
    ChangeMoved,
    CursorMoved,
    CursorMovedTo,
    DiffLoaded,
    EnterPressed,
    EscapePressed,
    HunkMoved,
    Pane,
    PaneSwitched,
    Resized,
    StepIn,
    StepOut,
)
from tui.model.document import DiffRow, Document, RowKind


def rows(count: int, starts: tuple[int, ...] = (), path: str = "README.md") -> DiffLoaded:
    """Return the event of a loaded diff with this number of rows."""
    return DiffLoaded(Document(key(path), (DiffRow(RowKind.TEXT),) * count, starts, 200))


def test_the_cursor_stops_at_both_ends() -> None:
    assert after(shop(), CursorMoved(-99)).cursor == 0
    assert after(shop(), CursorMoved(99)).cursor == len(shop().listing.rows) - 1


def test_moving_to_another_change_loads_it() -> None:
    state = shop()
    assert loads(effects(state, CursorMovedTo(row(state, "src/a.py")))) == [key("src/a.py")]


def test_enter_opens_the_diff_and_escape_returns() -> None:
    state = after(shop(), EnterPressed())
    assert state.pane is Pane.DIFF
    assert after(state, EscapePressed()).pane is Pane.LIST


def test_moving_in_the_diff_keeps_the_cursor_of_the_list() -> None:
    state = after(shop(), rows(50), EnterPressed(), CursorMoved(3))
    assert (state.cursor, state.diff.cursor) == (shop().cursor, 3)


def test_hunks_are_visited_in_order_and_the_last_one_is_reported() -> None:
    state = after(shop(), rows(50, (4, 20, 33)), HunkMoved(1), HunkMoved(1))
    assert state.diff.cursor == 20
    assert after(state, HunkMoved(-1)).diff.cursor == 4
    assert "last hunk" in after(state, HunkMoved(1), HunkMoved(1)).message


def test_a_diff_that_was_entered_before_it_was_loaded_shows_its_first_hunk() -> None:
    state = after(shop(), EnterPressed(), rows(50, (4, 20, 33)))
    assert (state.pane, state.diff.cursor) == (Pane.DIFF, 4)
    assert after(state, CursorMovedTo(0), rows(50, (4, 20, 33))).diff.cursor == 0  # loaded again


def test_next_change_skips_headings_and_keeps_the_diff_open() -> None:
    state = after(shop(), EnterPressed(), ChangeMoved(1))
    assert state.change is not None
    assert state.change.key == key("src/a.py")
    assert state.pane is Pane.DIFF


def test_a_diff_that_arrives_late_is_not_shown() -> None:
    state = after(shop(), ChangeMoved(1))
    assert after(state, rows(99)) == state


def test_left_goes_to_the_heading_and_then_folds_it() -> None:
    state = after(shop(), CursorMovedTo(row(shop(), "src/b.py")), StepOut())
    assert state.cursor == head(state, b"src")
    closed = after(state, StepOut())
    assert len(closed.listing.rows) == len(state.listing.rows) - 2
    assert after(closed, StepIn()) == state


def test_the_diff_cannot_be_focused_on_a_heading() -> None:
    assert after(shop(), CursorMovedTo(0), PaneSwitched()).pane is Pane.LIST


def test_a_new_width_reloads_the_diff_to_wrap_its_notes() -> None:
    assert loads(effects(shop(), Resized(120))) == [key("README.md")]
    assert effects(shop(), Resized(80)) == ()
