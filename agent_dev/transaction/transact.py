"""Run a command as a transaction: merge its changes if the command and all validations succeed, else merge nothing."""

import os
import time

from agent_dev.errors import CannotStart, UsageError
from agent_dev.paths import is_below
from agent_dev.run import job, run
from agent_dev.run.request import COMMAND, RunRequest
from agent_dev.session import store
from agent_dev.transaction.result import (
    EXIT_REFUSED,
    EXIT_TIMED_OUT,
    FAILED,
    MERGED,
    CommandStep,
    TransactionAttempt,
    TransactionResult,
    TransactionSpec,
    log_result,
)

_SIGNALLED = 128

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.run.request import Notice, PreparedRun


def run_commands(spec: TransactionSpec, notice: "Notice") -> TransactionAttempt:
    """Run the command and then the validations in the same overlay. Raises CannotStart if the command never started."""
    deadline = time.monotonic_ns() + spec.timeout * 1_000_000 if spec.timeout else 0
    outcome, step = _run_step(None, spec.request.replace(deadline=deadline), notice, _make_path_check(spec.take))
    steps, command = [step], store.read_record(outcome.session)["command"] if spec.validations and outcome.is_kept else []
    cause, reason = _failure(outcome, spec.timeout)
    for validation in spec.validations:
        if cause:
            break
        words = ("/bin/sh", "-c", validation)
        request = spec.request.replace(arguments=words, kind=COMMAND, deadline=deadline)
        try:
            outcome, step = _run_step(outcome, request, notice)
        except CannotStart as error:
            cause, reason = "validation", f"a validation did not start: {error.message}"
            break
        steps.append(step)
        if step.code:
            failure = _failure(outcome, spec.timeout)
            cause, reason = (
                failure
                if failure[0] in ("timeout", "limit")
                else ("validation", f"the validation exited with status {step.code}: {validation}")
            )
    if outcome.is_kept and command:  # lists show the command, not the last validation
        store.write_record(outcome.session, {**store.read_record(outcome.session), "command": command})
    return _attempt(outcome, tuple(steps), cause, reason)


def _make_path_check(paths: tuple[str, ...]) -> "Callable[[PreparedRun], None]":
    """Return a check that rejects a --take path outside all roots before anything starts."""

    def check(prepared: "PreparedRun") -> None:
        roots = (prepared.location.root, *prepared.overlays)
        for path in paths:
            full = os.path.normpath(os.path.join(prepared.cwd, path))
            if not any(is_below(full, root) for root in roots):
                raise UsageError(message=f"tx: --take {path} is outside {roots[0]}", hint="name a path of the repository")

    return check


def _attempt(outcome: "job.RunOutcome", steps: tuple[CommandStep, ...], cause: str, reason: str) -> TransactionAttempt:
    codes = {"": 0, "timeout": EXIT_TIMED_OUT, "validation": EXIT_REFUSED, "policy": EXIT_REFUSED, "limit": EXIT_REFUSED}
    session = outcome.session if outcome.is_kept else None
    result = TransactionResult(
        state=FAILED if cause else MERGED,
        code=codes.get(cause, outcome.exit_code),
        steps=steps,
        cause=cause,
        reason=reason,
        session=session.id if session else "",
        name=outcome.name if session else "",
        commits=outcome.commits,
    )
    if session is not None and cause:
        log_result(session, result)
    return TransactionAttempt(result, session)


def _run_step(
    previous: "job.RunOutcome | None", request: RunRequest, notice: "Notice", check: "Callable[[PreparedRun], None] | None" = None
) -> "tuple[job.RunOutcome, CommandStep]":
    """Run in the overlay of the previous step, or in a new one if that changed nothing."""
    started = time.monotonic_ns()
    if previous is not None and previous.is_kept:
        from agent_dev.run import resume
        from agent_dev.session import sessions  # only for validations after changes

        one = sessions.ListedSession(previous.session, store.read_record(previous.session), store.WAITING)
        outcome = resume.resume(one, request, lambda _: None)
    else:
        outcome = run.run(request, notice if previous is None else lambda _: None, check)
    return outcome, CommandStep(request.arguments, outcome.exit_code, (time.monotonic_ns() - started) // 1_000_000)


def _failure(outcome: "job.RunOutcome", timeout: int) -> tuple[str, str]:
    if outcome.limit_notice and outcome.exit_code:
        return "limit", outcome.limit_notice
    if outcome.has_timed_out:
        return "timeout", f"timed out after {timeout / 1000:g} s"
    if outcome.exit_code > _SIGNALLED:
        return "signal", f"killed by signal {outcome.exit_code - _SIGNALLED}"
    if outcome.denied and not outcome.exit_code:
        return "policy", f"the policy denied {outcome.denied} of its commands"
    return ("command", f"exited with status {outcome.exit_code}") if outcome.exit_code else ("", "")


def run_transaction(spec: TransactionSpec, notice: "Notice") -> TransactionResult:
    """Run a transaction. Raises CannotStart if nothing ran."""
    attempt = run_commands(spec, notice)
    if attempt.session is None:
        return attempt.result
    if not attempt.has_passed:
        store.unlock_session(attempt.session)
        return attempt.result
    from agent_dev.transaction import merge_attempt  # imports merging, which is not needed without changes

    return merge_attempt.merge_result(attempt, spec, notice)
