"""The screen that compares attempts: keys, the diff, hostile text."""

import pytest

from tests.tui.single_screen_player import play_keys
from tui.comparison.screen import ComparisonApp
from tui.comparison.table import ComparedRow, Comparison
from tui.model.document import PageLine, Tone

ROWS = (
    ComparedRow("  best-1  3", ("session best-1: passed",)),
    ComparedRow("* best-2  5", ("session best-2: passed",), is_best=True),
    ComparedRow("  attempt 3  -", ("no session: \x1b]0;owned\x07 no changes",), has_session=False),
)
COMPARISON = Comparison("  ATTEMPT  SCORE", ROWS, "best-2 is the best: score 5, the highest; next is best-1 with 3", 1)


def play(*keys: str, size: tuple[int, int] = (80, 24)) -> tuple[ComparisonApp, str]:
    """Press keys; return the application and the text of the screen before it ends."""
    app = ComparisonApp(COMPARISON, lambda row: (PageLine(Tone.ADDED, f"+diff of row {row}"),))
    return app, play_keys(app, *keys, size=size)


def test_the_screen_shows_the_reason_the_table_and_the_best_attempt() -> None:
    _, shown = play()
    assert "best-2 is the best: score 5" in shown
    assert "▸ * best-2  5" in shown
    assert "session best-2: passed" in shown
    assert "enter review" in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("keys", "row"), [(("enter",), 1), (("up", "enter"), 0), (("k", "j", "enter"), 1), (("g", "enter"), 0), (("q",), None)]
)
def test_enter_opens_the_review_of_the_attempt_under_the_cursor(keys: tuple[str, ...], row: int | None) -> None:
    app, _ = play(*keys)
    assert (app.selected, app.is_running) == (row, False)


def test_an_attempt_without_a_session_cannot_be_opened() -> None:
    app, shown = play("down", "enter")
    assert "no session" in shown
    assert "\x1b" not in shown
    assert app.selected is None


def test_d_shows_the_diff_against_the_best_and_goes_back() -> None:
    assert "+diff of row 0" in play("up", "d")[1]
    _, shown = play("up", "d", "escape")
    assert "▸   best-1  3" in shown
    assert "+diff" not in shown


@pytest.mark.parametrize(("keys", "reason"), [((), "this is the best attempt"), (("down",), "this attempt has no session")])
def test_d_says_why_there_is_no_diff(keys: tuple[str, ...], reason: str) -> None:
    _, shown = play(*keys, "d")
    assert reason in shown
    assert "+diff" not in shown
    assert reason not in play(*keys, "d", "escape")[1]


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
def test_no_line_is_wider_than_the_screen(size: tuple[int, int]) -> None:
    _, shown = play(size=size)
    assert max(map(len, shown.splitlines())) <= size[0]
    assert "▸ * best-2" in shown
