"""Moving on the merge screen: through the list, into a diff and back, and what is read on the way."""

from tests.unit.tui_states import after, effects, head, key, loads, row, shop
from tui.events import (
    Backed,
    BlockMoved,
    ChangeMoved,
    DiffShown,
    Entered,
    Escaped,
    Moved,
    MovedTo,
    Opened,
    Pane,
    PaneSwapped,
    Resized,
)
from tui.model.document import Document, Row, RowKind


def rows(count: int, starts: tuple[int, ...] = (), path: str = "README.md") -> DiffShown:
    """Return the fact that a diff of so many rows is there."""
    return DiffShown(Document(key(path), (Row(RowKind.WORDS),) * count, starts, 200))


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
