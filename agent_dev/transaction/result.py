"""The spec of a transaction and its result."""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_dev.run.request import RunRequest
    from agent_dev.session import store

MERGED, FAILED = "merged", "failed"
EXIT_TIMED_OUT, EXIT_REFUSED = 124, 1  # exit codes


class TransactionSpec(Value):
    """A transaction: the run, its validations, and the changes that may be merged without a prompt.

    `timeout`: ms for everything, 0 for none. `take`: paths as typed; empty: everything that git does not ignore. `allowed`: risk
    rules whose changes are merged. `score`: a shell command that runs last and prints the score; empty: none.
    """

    request: "RunRequest"
    validations: tuple[str, ...] = ()
    timeout: int = 0
    take: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    with_ignored: bool = False
    with_risky: bool = False
    with_many_deletions: bool = False
    score: str = ""


class CommandStep(Value):
    """A command of a transaction: its arguments, its exit code, its duration in ms."""

    argv: tuple[str, ...]
    code: int
    milliseconds: int


class TransactionResult(Value):
    """The result of a transaction. `session`: the session that is kept for review; `code`: the exit code.

    `cause` of a failure: command, signal, timeout, limit, validation, score, policy, selection, conflict, risk, deletions,
    unreadable; empty if merged. `unchanged`: the paths of --take, as typed, without changes. `score`: of an attempt of `--best`.
    """

    state: str
    code: int
    steps: tuple[CommandStep, ...]
    cause: str = ""
    reason: str = ""
    session: str = ""
    name: str = ""
    merge: str = ""
    applied: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    unchanged: tuple[str, ...] = ()
    commits: int = 0
    score: float | None = None

    def as_json(self) -> dict[str, object]:
        """Return the result as JSON data."""
        return {
            "state": self.state,
            "exit": self.code,
            "cause": self.cause or None,
            "reason": self.reason or None,
            "session": self.session or None,
            "merge": self.merge or None,
            "applied": list(self.applied),
            "skipped": [{"path": path, "reason": why} for path, why in self.skipped],
            "unchanged": list(self.unchanged),
            "commits": self.commits,
            "steps": [{"command": list(one.argv), "exit": one.code, "milliseconds": one.milliseconds} for one in self.steps],
        }


class TransactionAttempt(Value):
    """The outcome of the commands, before the merge: the result so far, and the locked session if it is kept."""

    result: TransactionResult
    session: "store.Session | None" = None

    @property
    def has_passed(self) -> bool:
        """Return whether everything ran and exited with status 0."""
        return self.result.state == MERGED


def log_result(session: "store.Session", result: TransactionResult) -> None:
    """Log the result in the events of a locked session."""
    from agent_dev.session import events, store  # rare: only if a session is kept

    row = result.as_json()
    details: dict[str, Any] = {name: row[name] for name in ("cause", "reason", "merge", "steps")}
    duration, policy = sum(one.milliseconds for one in result.steps), store.read_record(session).get("policy")
    events.log_event(session, events.TRANSACTION, at=0, verdict=result.state, milliseconds=duration, policy=policy, **details)
