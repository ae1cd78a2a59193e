"""The comparison of attempts: the cursor and the lines."""

import pytest

from tui.comparison.table import ComparedRow, Comparison, move, table_lines

ROWS = (ComparedRow("  one", ("session one: passed",)), ComparedRow("* two", ("session two: passed",), is_best=True))
COMPARISON = Comparison("  ATTEMPT", ROWS, "two is the best: score 5, the highest; next is one with 4", 1)


def test_the_cursor_starts_where_it_is_put_and_stops_at_the_ends() -> None:
    assert COMPARISON.row is ROWS[1]
    assert move(COMPARISON, 1).cursor == 1
    assert move(COMPARISON, -5).cursor == 0


def test_the_lines_show_the_cursor_by_a_sign_and_its_details() -> None:
    lines = [one.text for one in table_lines(COMPARISON, 80)]
    assert "▸ * two" in lines
    assert "    one" in lines
    assert lines[-1] == "  session two: passed"
    assert [one.row for one in table_lines(COMPARISON, 80) if one.row >= 0] == [0, 1]


@pytest.mark.parametrize("columns", [30, 80])
def test_the_reason_is_wrapped_to_the_width(columns: int) -> None:
    assert max(len(one.text) for one in table_lines(COMPARISON, columns)) <= columns
