"""Run a command as a transaction: merge its changes if the command and all validations succeed, else merge nothing."""

import os
import time

from agent_dev.errors import CannotStart, InvalidConfiguration, UsageError
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
from agent_dev.value import Value

_SIGNALLED = 128

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.run.request import Notice, PreparedRun


class _Check(Value):
    """A command that runs after the transaction's own: a validation or the score command. `cause`: of its failure."""

    line: str
    cause: str = "validation"

    @property
    def label(self) -> str:
        return "validation" if self.cause == "validation" else "score command"


def run_commands(spec: TransactionSpec, notice: "Notice") -> TransactionAttempt:
    """Run the command, and then the validations and the score command in the same overlay.

    Raises CannotStart if the command never started.
    """
    deadline = time.monotonic_ns() + spec.timeout * 1_000_000 if spec.timeout else 0
    request = spec.request.replace(deadline=deadline)
    outcome, step = _run_step(None, request, notice, _make_check(spec))
    checks = _checks(spec) if outcome.is_kept or not spec.score else ()  # an attempt without changes has no score
    steps, command = [step], store.read_record(outcome.session)["command"] if checks and outcome.is_kept else []
    cause, reason = _failure(outcome, spec.timeout)
    score = None
    for check in checks:
        if cause:
            break
        try:
            outcome, step, score = _run_check(check, outcome, request)
        except CannotStart as error:
            cause, reason = check.cause, f"a {check.label} did not start: {error.message}"
            break
        steps.append(step)
        cause, reason = _check_failure(check, outcome, score, spec.timeout)
    if outcome.is_kept and command:  # lists show the command, not the last validation
        store.write_record(outcome.session, {**store.read_record(outcome.session), "command": command})
    attempt = _attempt(outcome, tuple(steps), cause, reason)
    return attempt.replace(result=attempt.result.replace(score=None if cause else score))


def _checks(spec: TransactionSpec) -> tuple[_Check, ...]:
    return *map(_Check, spec.validations), *((_Check(spec.score, "score"),) if spec.score else ())


def _run_check(
    check: _Check, previous: "job.RunOutcome", request: RunRequest
) -> "tuple[job.RunOutcome, CommandStep, float | None]":
    """Run a validation or the score command; return also the score, if its output has one."""
    request = request.replace(arguments=("/bin/sh", "-c", check.line), kind=COMMAND)
    if check.cause == "validation":
        return *_run_step(previous, request, lambda _: None), None
    from agent_dev.transaction import captured_output, score  # only with --score

    with captured_output.capture_stdout(score.MAX_OUTPUT) as finish:
        outcome, step = _run_step(previous, request, lambda _: None)
        return outcome, step, score.parse_score(finish())


def _check_failure(check: _Check, outcome: "job.RunOutcome", score: float | None, timeout: int) -> tuple[str, str]:
    """Return the cause and the reason why a validation or the score command failed; empty if it did not."""
    if outcome.exit_code:
        failure = _failure(outcome, timeout)
        reason = f"the {check.label} exited with status {outcome.exit_code}: {check.line}"
        return failure if failure[0] in ("timeout", "limit") else (check.cause, reason)
    if check.cause == "score" and score is None:
        return "score", f"the score command wrote no line that is only a number: {check.line}"
    return "", ""


def _make_check(spec: TransactionSpec) -> "Callable[[PreparedRun], None]":
    """Return a check that rejects a --take path outside all roots and unknown rules of `tx_allow` before anything starts."""

    def check(prepared: "PreparedRun") -> None:
        allowed = prepared.settings.profile.tx_allow
        if allowed:
            from agent_dev.risk.load import tx_allow_problems  # rare

            if problems := tx_allow_problems(allowed, prepared.settings.origins, spec.request.environ):
                raise InvalidConfiguration(message="\n".join(problems))
        roots = (prepared.location.root, *prepared.overlays)
        for path in spec.take:
            full = os.path.normpath(os.path.join(prepared.cwd, path))
            if not any(is_below(full, root) for root in roots):
                raise UsageError(message=f"tx: --take {path} is outside {roots[0]}", hint="name a path of the repository")

    return check


def _attempt(outcome: "job.RunOutcome", steps: tuple[CommandStep, ...], cause: str, reason: str) -> TransactionAttempt:
    refused = dict.fromkeys(("validation", "score", "policy", "limit"), EXIT_REFUSED)
    codes = {"": 0, "timeout": EXIT_TIMED_OUT, **refused}
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
