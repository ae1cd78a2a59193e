"""The attempts of `tx --best`: which of them is the best, and why. Pure."""

from agent_dev.overlay.labels import format_count
from agent_dev.quick_dataclass import dataclass
from agent_dev.transaction.result import FAILED, MERGED, TransactionResult
from agent_dev.transaction.score import format_score

PROPOSED = "proposed"  # the state of a run whose best attempt was not merged


@dataclass(frozen=True, slots=True)
class AttemptChanges:
    """The size of an attempt's change: files, added and deleted lines, and how many of the files are risky."""

    files: int = 0
    insertions: int = 0
    deletions: int = 0
    risky: int = 0

    @property
    def lines(self) -> int:
        """Return the number of changed lines."""
        return self.insertions + self.deletions


@dataclass(frozen=True, slots=True)
class ScoredAttempt:
    """An attempt: its number from 1, where it ran ("": here), its result and its changes (None: no session, or unreadable)."""

    number: int
    result: TransactionResult
    changes: AttemptChanges | None = None
    host: str = ""

    @property
    def name(self) -> str:
        """Return the name of its session, or its number."""
        return self.result.name or f"attempt {self.number}"

    @property
    def seconds(self) -> float:
        """Return how long its command ran, without validations and the score command."""
        return self.result.steps[0].milliseconds / 1000 if self.result.steps else 0

    @property
    def can_win(self) -> bool:
        """Return whether it has a score and changes that can be proposed."""
        return self.result.score is not None and self.result.state == MERGED and bool(self.result.session)

    @property
    def outcome(self) -> str:
        """Return how it ended, in a few words."""
        if self.result.state == FAILED:
            return self.result.reason
        if self.result.merge:
            return "merged"
        return "passed" if self.result.session else "no changes"


@dataclass(frozen=True, slots=True)
class BestChoice:
    """All attempts, the best one, if there is one, and the reason as a sentence."""

    attempts: tuple[ScoredAttempt, ...]
    best: ScoredAttempt | None
    reason: str


def select_best(attempts: tuple[ScoredAttempt, ...], *, is_lowest: bool = False) -> BestChoice:
    """Select the attempt with the best score; of several with that score, the one with the smallest change, then the first."""
    ranked = sorted(filter(lambda one: one.can_win, attempts), key=lambda one: _rank(one, is_lowest=is_lowest))
    if not ranked:
        return BestChoice(attempts, None, "no attempt has both changes and a score")
    best, *others = ranked
    return BestChoice(
        attempts, best, f"{best.name} is the best: {_why(best, others[0] if others else None, is_lowest=is_lowest)}"
    )


def _rank(one: ScoredAttempt, *, is_lowest: bool) -> tuple[float, float, float, int]:
    score = one.result.score or 0.0
    return score if is_lowest else -score, *_size(one), one.number


def _size(one: ScoredAttempt) -> tuple[float, float]:
    """Return the changed lines and files; a change that cannot be measured is the largest."""
    return (one.changes.lines, one.changes.files) if one.changes else (float("inf"), float("inf"))


def _why(best: ScoredAttempt, second: ScoredAttempt | None, *, is_lowest: bool) -> str:
    score = f"score {format_score(best.result.score or 0.0)}"
    if second is None:
        return f"{score}, the only attempt with changes and a score"
    if second.result.score != best.result.score:
        return f"{score}, the {'lowest' if is_lowest else 'highest'}; next is {second.name} with {_score_text(second)}"
    if _size(second) == _size(best):
        return f"{score}, the same as {second.name}, with a change of the same size; the first of them"
    return f"{score}, the same as {second.name}, with a smaller change: {_size_text(best)}, not {_size_text(second)}"


def _score_text(one: ScoredAttempt) -> str:
    return format_score(one.result.score or 0.0)


def _size_text(one: ScoredAttempt) -> str:
    if one.changes is None:
        return "an unknown number"
    return f"{format_count(one.changes.lines, 'line')} in {format_count(one.changes.files, 'file')}"
