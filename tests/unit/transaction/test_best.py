"""The attempts of `tx --best`: scores, the choice of the best one, and the table."""

import pytest

from agent_dev.cli.render.best import table_lines
from agent_dev.transaction.best import AttemptChanges, ScoredAttempt, select_best
from agent_dev.transaction.result import FAILED, MERGED, CommandStep, TransactionResult
from agent_dev.transaction.score import MAX_OUTPUT, format_score, parse_score

STEPS = (CommandStep(("claude", "-p", "fix it"), 0, 61_250), CommandStep(("/bin/sh", "-c", "score"), 0, 100))
SMALL, LARGE = AttemptChanges(1, 2, 1), AttemptChanges(3, 40, 10, 2)


def attempt(number: int, score: float | None, changes: AttemptChanges | None = SMALL, **fields: object) -> ScoredAttempt:
    """Return an attempt that passed, with a session."""
    known = {"score": score, "session": f"s{number}", "name": f"best-{number}", **fields}
    return ScoredAttempt(number, TransactionResult(MERGED, 0, STEPS).replace(**known), changes)


@pytest.mark.parametrize(
    ("output", "score"),
    [
        (b"12\n", 12),
        (b"3 passed\n 7 \nin 2 s\n", 7),
        (b"1\r\n-2.5e1\r\n", -25),
        (b".5", 0.5),
        (b"8\n1e999\nnan\ninf\n0x10\n1_000\n", 8),
        ("4\n\N{ARABIC-INDIC DIGIT FIVE}\n".encode(), 4),
        (b"\x1b[32m5\x1b[0m\n", None),
        (b"score: 5\n12%\n", None),
        (b"", None),
        (b"1" * 10_000, None),
        (b"1\n" + b"x" * MAX_OUTPUT, None),
    ],
)
def test_the_score_is_the_last_line_that_is_a_finite_number(output: bytes, score: float | None) -> None:
    assert parse_score(output) == score


def test_a_score_is_shown_as_it_was_written_if_it_is_short() -> None:
    assert [format_score(one) for one in (12.0, -3.0, 0.25, 1e300, 1234567.5)] == ["12", "-3", "0.25", "1e+300", "1234567.5"]


def test_a_merged_attempt_is_called_merged_with_or_without_a_session() -> None:
    attempts = (attempt(1, 5), attempt(2, 4, merge="m", session=""), attempt(3, 3, merge="m"), attempt(4, 2, session=""))
    assert [one.outcome for one in attempts] == ["passed", "merged", "merged", "no changes"]


def test_the_highest_score_wins_or_with_lowest_the_lowest() -> None:
    attempts = (attempt(1, 5), attempt(2, 9), attempt(3, 7))
    best = select_best(attempts)
    assert best.best is attempts[1]
    assert best.reason == "best-2 is the best: score 9, the highest; next is best-3 with 7"
    lowest = select_best(attempts, is_lowest=True)
    assert lowest.best is attempts[0]
    assert lowest.reason == "best-1 is the best: score 5, the lowest; next is best-3 with 7"


def test_of_equal_scores_the_smaller_change_wins_then_the_first() -> None:
    attempts = (attempt(1, 9, LARGE), attempt(2, 9, SMALL), attempt(3, 9, SMALL))
    best = select_best(attempts)
    assert best.best is attempts[1]
    assert best.reason.endswith("the same as best-3, with a change of the same size; the first of them")
    best = select_best(attempts[:2])
    assert best.best is attempts[1]
    assert best.reason.endswith("with a smaller change: 3 lines in 1 file, not 50 lines in 3 files")


@pytest.mark.parametrize(
    "loser",
    [
        attempt(1, None),
        attempt(1, 99, state=FAILED, cause="score", reason="no number"),
        attempt(1, 99, None, session=""),
    ],
)
def test_without_a_score_or_changes_or_after_a_failure_none_wins(loser: ScoredAttempt) -> None:
    only = attempt(2, 0)
    best = select_best((loser, only))
    assert best.best is only
    assert best.reason.endswith("the only attempt with changes and a score")
    assert select_best((loser,)).best is None


def test_a_change_that_cannot_be_measured_loses_a_tie() -> None:
    attempts = (attempt(1, 9, None), attempt(2, 9, LARGE))
    assert select_best(attempts).best is attempts[1]


def test_the_table_fits_80_columns_and_escapes_hostile_text() -> None:
    hostile = "\x1b]0;owned\x07\u202ename" + "x" * 100
    attempts = (
        attempt(1, 123456.789),
        attempt(2, 1e-300, AttemptChanges(123456, 9_999_999, 9_999_999, 12_345)),
        attempt(3, None, None, state=FAILED, cause="command", reason=hostile, name=hostile),
    )
    lines = table_lines(select_best(attempts), 80)
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[:8] == ["*", "best-1", "123456.789", "61.2", "s", "1", "+2", "-1"]
    assert not any(character in line for line in lines for character in "\x1b\x07\u202e")


def test_the_result_of_an_attempt_is_readable_in_80_columns() -> None:
    steps = (STEPS[0], CommandStep(("/bin/sh", "-c", "make test"), 0, 5), STEPS[1])
    attempts = (attempt(1, 1234, LARGE, steps=steps, name="best-1a2b-1"),)
    head, line = table_lines(select_best(attempts), 80)
    assert head.split() == ["ATTEMPT", "SCORE", "TIME", "FILES", "LINES", "RISKS", "RESULT"]
    assert line.endswith("passed, 1 validation")
