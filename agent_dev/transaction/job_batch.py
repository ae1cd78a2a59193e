"""Run many transactions in parallel, each in its own overlay; merge those that passed, one after the other."""

import fcntl
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_dev.quick_dataclass import dataclass, field
from agent_dev.run.request import COMMAND
from agent_dev.session import store
from agent_dev.transaction import child_process, merge_attempt
from agent_dev.transaction import result as transaction_result
from agent_dev.transaction.child_process import ENDING, ChildTransaction
from agent_dev.transaction.result import FAILED, MERGED, TransactionAttempt, TransactionResult, TransactionSpec

NOT_NEEDED = "not needed"  # the cause of transactions that were ended or not started because another one passed
_TIMESTAMP_STEP = 0.03  # seconds: exceeds the kernel's timestamp granularity, at most 10 ms
_MAX_OUTPUT = 1 << 20  # bytes of output shown
_TERM_TIMEOUT = 1000  # ms between SIGTERM and SIGKILL for transactions that are not needed any more, not for interrupted ones


@dataclass(frozen=True, slots=True)
class TransactionBatch:
    """The specs of the transactions, how many run in parallel, and what is merged."""

    specs: tuple[TransactionSpec, ...]
    max_parallel: int
    only_first: bool = False  # stop once one that passed is merged
    for_review: bool = False  # merge nothing


def shell_specs(lines: tuple[str, ...], spec: TransactionSpec) -> tuple[TransactionSpec, ...]:
    """Return a spec for each line, a command for a shell."""
    requests = (spec.request.replace(arguments=("/bin/sh", "-c", line), kind=COMMAND) for line in lines)
    return tuple(spec.replace(request=request) for request in requests)


@dataclass(slots=True)
class _Running:
    """A transaction in its own process, and the file for its output."""

    child: ChildTransaction
    output: int


@dataclass(slots=True)
class _Work:
    """The state of a batch."""

    batch: TransactionBatch
    sessions: store.Store
    gate: int  # unnamed file: locked during merges, and by runs while they take their lower snapshot
    running: dict[int, _Running] = field(default_factory=dict)
    passed: dict[int, TransactionAttempt] = field(default_factory=dict)
    results: dict[int, TransactionResult] = field(default_factory=dict)
    next: int = 0
    is_over: bool = False  # start no more: the first has passed, or the user interrupted
    was_ended: bool = False  # interrupted by the user: merge no more


ResultCallback = Callable[[int, TransactionResult, bytes], None]


def run_batch(
    batch: TransactionBatch, session_store: store.Store, notice: Callable[[str], None], report: ResultCallback
) -> tuple[TransactionResult, ...]:
    """Run a batch and return the results in its order. `report` is called as each ends, with its output."""
    work = _Work(batch, session_store, _unnamed_file())
    with _signals(work):
        while work.running or (work.next < len(batch.specs) and not work.is_over):
            _start(work)
            for number in _wait_ended(work):
                attempt, output = _collect(work, number)
                _classify(work, number, attempt)
                report(number, attempt.result, output)
            _merge_passed(work, notice)
    for number in range(len(batch.specs)):
        if number not in work.results:
            blank = TransactionResult(FAILED, transaction_result.EXIT_REFUSED, ())
            work.results[number] = _as_interrupted(blank) if work.was_ended else _as_not_needed(blank)
    return tuple(work.results[number] for number in range(len(batch.specs)))


def _as_not_needed(result: TransactionResult) -> TransactionResult:
    return result.replace(
        state=FAILED,
        code=transaction_result.EXIT_REFUSED,
        cause=NOT_NEEDED,
        reason="another transaction passed first",
        session="",
    )


def _unnamed_file() -> int:
    return os.open("/tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _as_interrupted(result: TransactionResult) -> TransactionResult:
    return result.replace(
        state=FAILED, code=transaction_result.EXIT_REFUSED, cause="signal", reason="interrupted before the merge"
    )


@contextmanager
def _signals(work: _Work) -> Iterator[None]:
    """End the running transactions on a signal; their sessions are kept, as for a single transaction."""

    def end(_number: int, _frame: object) -> None:
        work.is_over = work.was_ended = True
        _stop(work)

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _stop(work: _Work) -> None:
    for one in work.running.values():
        os.kill(one.child.pid, signal.SIGTERM)  # no other process has its pid: it was not reaped yet


def _start(work: _Work) -> None:
    batch = work.batch
    while len(work.running) < batch.max_parallel and work.next < len(batch.specs):
        with child_process.block_signals():  # a signal must also end the new process
            if work.is_over:
                return
            work.running[work.next] = _fork(batch.specs[work.next], work.gate)
        work.next += 1


def _fork(spec: TransactionSpec, gate: int) -> _Running:
    def with_gate() -> TransactionSpec:
        # A separate open file description, so a lock of its own.
        own = os.open(f"/proc/self/fd/{gate}", os.O_RDWR | os.O_CLOEXEC)
        return spec.replace(request=spec.request.replace(merge_lock=own))

    output = _unnamed_file()
    return _Running(child_process.start_child(with_gate, output), output)


def _wait_ended(work: _Work) -> list[int]:
    """Wait until a process reports or ends; return the numbers of those that ended.

    Transactions that are not needed any more are killed if they ignore SIGTERM.
    """
    poll = select.poll()
    for one in work.running.values():
        poll.register(one.child.result_pipe, select.POLLIN)
        poll.register(one.child.pidfd, select.POLLIN)
    is_race_over = work.is_over and not work.was_ended
    ready = {fd for fd, _ in poll.poll(_TERM_TIMEOUT if is_race_over else None)}
    if is_race_over and not ready:
        for one in work.running.values():
            child_process.kill_sandbox(one.child, work.sessions)
    for one in work.running.values():
        if one.child.result_pipe in ready or one.child.pidfd in ready:
            one.child.read_available()
    return [number for number, one in work.running.items() if one.child.pidfd in ready]


def _collect(work: _Work, number: int) -> tuple[TransactionAttempt, bytes]:
    one = work.running.pop(number)
    attempt = child_process.collect_child(one.child, work.sessions)
    size = os.fstat(one.output).st_size
    output = os.pread(one.output, _MAX_OUTPUT, max(0, size - _MAX_OUTPUT))
    os.close(one.output)
    return attempt, output


def _classify(work: _Work, number: int, attempt: TransactionAttempt) -> None:
    if work.is_over and not work.was_ended and not attempt.has_passed and attempt.result.cause == "signal":
        child_process.discard_attempt(attempt, work.sessions)
        attempt = TransactionAttempt(_as_not_needed(attempt.result))
    if attempt.has_passed and attempt.session is not None and not work.batch.for_review:
        work.passed[number] = attempt
    else:
        work.results[number] = attempt.result
        if attempt.has_passed:
            _finish_race(work)


def _merge_passed(work: _Work, notice: Callable[[str], None]) -> None:
    """Merge the transactions that passed, in the order of the list; with `only_first`, only the first that passed."""
    for number in sorted(work.passed):
        if not work.batch.only_first and any(before not in work.results for before in range(number)):
            return
        attempt = work.passed.pop(number)
        if work.was_ended:
            work.results[number] = _as_interrupted(attempt.result)
            continue
        if work.batch.only_first and any(one.state == MERGED for one in work.results.values()):
            child_process.discard_attempt(attempt, work.sessions)
            work.results[number] = _as_not_needed(attempt.result)
            continue
        locked = attempt.replace(session=child_process.lock_session(attempt.session)) if attempt.session else attempt
        fcntl.flock(work.gate, fcntl.LOCK_EX)
        try:
            work.results[number] = merge_attempt.merge_result(locked, work.batch.specs[number], notice)
            time.sleep(_TIMESTAMP_STEP)
        finally:
            fcntl.flock(work.gate, fcntl.LOCK_UN)
        if work.results[number].state == MERGED:
            _finish_race(work)


def _finish_race(work: _Work) -> None:
    """With `only_first`, stop all others once one is merged, or passed without changes."""
    if work.batch.only_first:
        work.is_over = True
        _stop(work)
