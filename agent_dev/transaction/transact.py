"""Run a command as a transaction: its changes come home when it and every validation passed, else nothing does."""

import os
import time

from agent_dev.errors import CannotStart, UsageError
from agent_dev.run import run
from agent_dev.run.prepare import Request
from agent_dev.sandbox.plan import is_below
from agent_dev.session import store
from agent_dev.value import Value

MERGED, FAILED = "merged", "failed"
TIMED_OUT, REFUSED = 124, 1  # exit codes
_SIGNALLED = 128

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from agent_dev.run.prepare import Prepared
    from agent_dev.run.run import Notice


class Terms(Value):
    """What a transaction is: the run, what must pass after it, and what of it may come home without a question.

    `timeout`: ms for all of it, 0 for none. `take`: paths as typed; empty: all that git does not ignore. `allowed`: names of
    risk rules whose changes are taken.
    """

    request: Request
    validations: tuple[str, ...] = ()
    timeout: int = 0
    take: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    with_ignored: bool = False
    with_risky: bool = False
    with_many_deletions: bool = False


class Step(Value):
    """One command that was run for a transaction: its words, its exit code, and how many ms it took."""

    words: tuple[str, ...]
    code: int
    milliseconds: int


class Result(Value):
    """How a transaction ended. `session`: what waits still, to be looked at; `code`: the exit code to pass on.

    `cause` of a failure: command, signal, timeout, limit, validation, policy, take, conflict, risk, deletions, unreadable; empty
    when merged. `unchanged`: the paths to take, as typed, at which nothing changed.
    """

    state: str
    code: int
    steps: tuple[Step, ...]
    cause: str = ""
    reason: str = ""
    session: str = ""
    name: str = ""
    merge: str = ""
    taken: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    unchanged: tuple[str, ...] = ()
    commits: int = 0

    def row(self) -> dict[str, object]:
        """Return what JSON says of it."""
        return {
            "state": self.state,
            "exit": self.code,
            "cause": self.cause or None,
            "reason": self.reason or None,
            "session": self.session or None,
            "merge": self.merge or None,
            "taken": list(self.taken),
            "left": [{"path": path, "why": why} for path, why in self.left],
            "unchanged": list(self.unchanged),
            "commits": self.commits,
            "steps": [{"command": list(one.words), "exit": one.code, "milliseconds": one.milliseconds} for one in self.steps],
        }


class Attempt(Value):
    """What running came to, before anything is merged: the failure, if any, and the session that is held, if any is kept."""

    result: Result
    session: store.Session | None = None

    @property
    def has_passed(self) -> bool:
        """Whether everything ran and ended with 0."""
        return self.result.state == MERGED


def run_all(terms: Terms, notice: "Notice") -> Attempt:
    """Run the command and then the validations in the same overlay. Raises CannotStart when the command never started."""
    deadline = time.monotonic_ns() + terms.timeout * 1_000_000 if terms.timeout else 0
    outcome, step = _timed(None, terms.request.but(deadline=deadline), notice, _has_places(terms.take))
    steps, command = [step], store.read(outcome.session)["command"] if terms.validations and outcome.is_kept else []
    cause, reason = _failure(outcome, terms.timeout)
    for validation in terms.validations:
        if cause:
            break
        words = ("/bin/sh", "-c", validation)
        request = terms.request.but(words=words, is_command=True, deadline=deadline)
        try:
            outcome, step = _timed(outcome, request, notice)
        except CannotStart as error:
            cause, reason = "validation", f"a validation did not start: {error.message}"
            break
        steps.append(step)
        if step.code:
            late = _failure(outcome, terms.timeout)
            cause, reason = (
                late
                if late[0] in ("timeout", "limit")
                else ("validation", f"the validation ended with {step.code}: {validation}")
            )
    if outcome.is_kept and command:  # lists show what it is about, not what was looked at last
        store.write(outcome.session, {**store.read(outcome.session), "command": command})
    return _attempt(outcome, tuple(steps), cause, reason)


def _has_places(paths: tuple[str, ...]) -> "Callable[[Prepared], None]":
    """Return what refuses a path to take that lies in no root, before anything starts."""

    def check(prepared: "Prepared") -> None:
        roots = (prepared.place.root, *prepared.overlays)
        for path in paths:
            full = os.path.normpath(os.path.join(prepared.cwd, path))
            if not any(is_below(full, root) for root in roots):
                raise UsageError(message=f"tx: --take {path} does not lie in {roots[0]}", hint="name a path of the repository")

    return check


def _attempt(outcome: "run.Outcome", steps: tuple[Step, ...], cause: str, reason: str) -> Attempt:
    codes = {"": 0, "timeout": TIMED_OUT, "validation": REFUSED, "policy": REFUSED, "limit": REFUSED}
    session = outcome.session if outcome.is_kept else None
    result = Result(
        state=FAILED if cause else MERGED,
        code=codes.get(cause, outcome.code),
        steps=steps,
        cause=cause,
        reason=reason,
        session=session.id if session else "",
        name=outcome.name if session else "",
        commits=outcome.commits,
    )
    if session is not None and cause:
        note(session, result)
    return Attempt(result, session)


def note(session: store.Session, result: Result) -> None:
    """Write the verdict into the log of a held session."""
    from agent_dev.session import events  # after the agent, and only where something is kept

    row = result.row()
    told: dict[str, Any] = {name: row[name] for name in ("cause", "reason", "merge", "steps")}
    took, policy = sum(one.milliseconds for one in result.steps), store.read(session).get("policy")
    events.note(session, events.TRANSACTION, at=0, verdict=result.state, milliseconds=took, policy=policy, **told)


def _timed(
    before: "run.Outcome | None", request: Request, notice: "Notice", check: "Callable[[Prepared], None] | None" = None
) -> "tuple[run.Outcome, Step]":
    """Run in the overlay of the step before, or in a fresh one while nothing was changed."""
    since = time.monotonic_ns()
    if before is not None and before.is_kept:
        from agent_dev.run import resume  # only for validations of what changed something
        from agent_dev.session import sessions  # only for validations of what changed something

        one = sessions.Listed(before.session, store.read(before.session), store.WAITING)
        outcome = resume.resume(one, request, lambda _: None)
    else:
        outcome = run.run(request, notice if before is None else lambda _: None, check)
    return outcome, Step(request.words, outcome.code, (time.monotonic_ns() - since) // 1_000_000)


def _failure(outcome: "run.Outcome", timeout: int) -> tuple[str, str]:
    if outcome.why and outcome.code:
        return "limit", outcome.why
    if outcome.is_late:
        return "timeout", f"it was not done within {timeout / 1000:g} s"
    if outcome.code > _SIGNALLED:
        return "signal", f"it was ended by signal {outcome.code - _SIGNALLED}"
    if outcome.denied and not outcome.code:
        return "policy", f"the policy did not let {outcome.denied} of its commands start"
    return ("command", f"it ended with {outcome.code}") if outcome.code else ("", "")


def transact(terms: Terms, notice: "Notice") -> Result:
    """Carry a transaction out. Raises CannotStart when nothing ran."""
    attempt = run_all(terms, notice)
    if attempt.session is None:
        return attempt.result
    if not attempt.has_passed:
        store.let_go(attempt.session)
        return attempt.result
    from agent_dev.transaction import merge as land  # reads changes: needless for what changed nothing

    return land.land(attempt, terms, notice)
