"""Print the attempts of `tx --best`: a table that fits the terminal, the best one and why, or one JSON document."""

from collections.abc import Sequence

from agent_dev.cli.console import notify, warn
from agent_dev.cli.render.format import cut_text, format_table, print_line, terminal_width
from agent_dev.cli.render.transaction import result_as_json
from agent_dev.sanitize import visible
from agent_dev.session.store import Record
from agent_dev.transaction.best import BestChoice, ScoredAttempt
from agent_dev.transaction.result import MERGED
from agent_dev.transaction.score import format_score

_HEAD = ("", "ATTEMPT", "SCORE", "TIME", "FILES", "LINES", "RISKS")
_NAME, _SCORE, _HOST = 20, 10, 12  # columns
BEST_SIGN = "*"


def table_lines(choice: BestChoice, width: int) -> tuple[str, ...]:
    """Return the head of the table and a line for each attempt, cut to `width` columns."""
    has_hosts = any(one.host for one in choice.attempts)
    rows = [(*_HEAD, "HOST" * has_hosts, "RESULT"), *(_row(one, is_best=one is choice.best) for one in choice.attempts)]
    return tuple(cut_text(line, width) for line in format_table(rows))


def _row(one: ScoredAttempt, *, is_best: bool) -> tuple[str, ...]:
    size = ("-", "-", "-")
    if one.changes is not None:
        lines = f"+{one.changes.insertions} -{one.changes.deletions}"
        size = str(one.changes.files), lines, str(one.changes.risky or "-")
    score = "-" if one.result.score is None else cut_text(format_score(one.result.score), _SCORE)
    name = cut_text(visible(one.name), _NAME)
    place, outcome = cut_text(visible(one.host), _HOST), visible(outcome_text(one))
    return BEST_SIGN if is_best else " ", name, score, f"{one.seconds:.1f} s", *size, place, outcome


def outcome_text(one: ScoredAttempt) -> str:
    """Return how an attempt ended, with the number of validations that it passed."""
    validations = len(one.result.steps) - 2  # without the command and the score command
    if one.outcome == "passed" and validations > 0:
        return f"passed, {validations} validation{'s' * (validations != 1)}"
    return one.outcome


def print_attempts(choice: BestChoice) -> None:
    """Print the table and the reason."""
    for line in table_lines(choice, terminal_width()):
        print_line(line)
    (notify if choice.best else warn)(choice.reason)


def print_next_commands(choice: BestChoice) -> None:
    """Print the commands with which the user goes on."""
    if choice.best is None:
        return
    name = choice.best.name
    others = [one.name for one in choice.attempts if one.result.session and one is not choice.best]
    notify(f"to review it: agent-dev merge {name}")
    if others:
        notify(f"to compare it: agent-dev diff {name} --against {others[0]}")
        notify(f"this table again: agent-dev tx --compare {name}")


def print_other_attempts(names: Sequence[str]) -> None:
    """Print how to discard the attempts that were not merged."""
    if names:
        kept = "another attempt is kept; to discard it"
        if len(names) > 1:
            kept = f"{len(names)} other attempts are kept; to discard them"
        notify(f"{kept}: agent-dev discard {' '.join(names)}")


def describe_attempt(record: Record) -> str:
    """Return e.g. `score 5, attempt 2 of 3`; "" for the session of another run."""
    kept = record.get("attempt")
    if not kept:
        return ""
    score = kept["result"].get("score")
    text = f"score {format_score(score)}" if isinstance(score, (int, float)) else "no score"
    return f"{text}, attempt {kept['number']} of {kept['count']}"


def kept_as_json(record: Record) -> dict[str, object] | None:
    """Return the same as JSON data; None for the session of another run."""
    kept = record.get("attempt")
    if not kept:
        return None
    return {name: kept[name] for name in ("run", "number", "count", "lowest")} | {"score": kept["result"].get("score")}


def attempts_as_json(choice: BestChoice, facts: dict[str, object]) -> str:
    """Return the JSON document; `facts`: state, exit and the options."""
    best = choice.best
    return result_as_json(
        {
            **facts,
            "best": best.number if best else None,
            "reason": choice.reason,
            "attempts": [_attempt_as_json(one) for one in choice.attempts],
        }
    )


def _attempt_as_json(one: ScoredAttempt) -> dict[str, object]:
    changes = one.changes
    row = one.result.as_json()
    is_passed = row["state"] == MERGED
    return {
        "attempt": one.number,
        "name": one.result.name or None,
        "host": one.host or None,
        "score": one.result.score,
        "files": changes.files if changes else None,
        "insertions": changes.insertions if changes else None,
        "deletions": changes.deletions if changes else None,
        "risks": changes.risky if changes else None,
        **row,
        "state": ("merged" if row["merge"] else "passed") if is_passed else "failed",
    }
