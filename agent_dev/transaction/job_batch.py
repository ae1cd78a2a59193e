"""Run many transactions in parallel, each in its own overlay; merge those that passed, one after the other."""

import fcntl
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_dev.errors import NOT_STARTED, AgentDevError, SessionBusy
from agent_dev.fs import fast_json
from agent_dev.linux import pid_namespace
from agent_dev.run.request import COMMAND
from agent_dev.session import store
from agent_dev.transaction import merge_attempt, transact
from agent_dev.transaction import result as transaction_result
from agent_dev.transaction.result import FAILED, MERGED, CommandStep, TransactionAttempt, TransactionResult, TransactionSpec

NOT_NEEDED = "not needed"  # the cause of transactions that ended after the first had passed
_TIMESTAMP_STEP = 0.03  # seconds: exceeds any file system's timestamp granularity
_MAX_OUTPUT = 1 << 20  # bytes of output shown
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOCK_TIMEOUT = 30.0  # seconds to wait for the lock of a session whose launcher ended: its children may end later


@dataclass(frozen=True, slots=True)
class TransactionBatch:
    """The command lines for a shell, the spec of each, how many run in parallel, and whether only the first is merged."""

    lines: tuple[str, ...]
    spec: TransactionSpec
    max_parallel: int
    only_first: bool  # stop once one that passed is merged


@dataclass(slots=True)
class _Running:
    """A transaction in its own process: the pipe for its result, and the file for its output."""

    pid: int
    pidfd: int  # its children may keep the pipe open longer
    result_pipe: int
    output: int
    text: bytes = b""


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
    """Run a batch and return the results in its order. `report` is called with each as it ends, and its output."""
    work = _Work(batch, session_store, _unnamed_file())
    with _signals(work):
        while work.running or (work.next < len(batch.lines) and not work.is_over):
            _start(work)
            for number in _wait_ended(work):
                attempt, output = _collect(work, number)
                _classify(work, number, attempt)
                report(number, attempt.result, output)
            _merge_passed(work, notice)
    for number in range(len(batch.lines)):
        if number not in work.results:
            blank = TransactionResult(FAILED, transaction_result.EXIT_REFUSED, ())
            work.results[number] = _as_interrupted(blank) if work.was_ended else _as_not_needed(blank)
    return tuple(work.results[number] for number in range(len(batch.lines)))


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
    """End the running transactions on a signal; their sessions are kept, as for a single one."""

    def end(_number: int, _frame: object) -> None:
        work.is_over = work.was_ended = True
        _stop(work)

    before = {number: signal.signal(number, end) for number in _ENDING}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _stop(work: _Work) -> None:
    for one in work.running.values():
        os.kill(one.pid, signal.SIGTERM)  # a child that was not waited for yet


def _start(work: _Work) -> None:
    batch = work.batch
    while len(work.running) < batch.max_parallel and work.next < len(batch.lines):
        line = batch.lines[work.next]
        argv = ("/bin/sh", "-c", line)
        spec = batch.spec.replace(request=batch.spec.request.replace(arguments=argv, kind=COMMAND))
        with _block_signals():  # a signal must also end the new process
            if work.is_over:
                return
            work.running[work.next] = _fork(spec, work.gate)
        work.next += 1


@contextmanager
def _block_signals() -> Iterator[None]:
    """Block the signals that end this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _fork(spec: TransactionSpec, gate: int) -> _Running:
    result_read, result_write = os.pipe()
    output = _unnamed_file()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _reset_signals()
            os.close(result_read)
            _leave_terminal(output)
            # A separate open file description, so a lock of its own.
            own = os.open(f"/proc/self/fd/{gate}", os.O_RDWR | os.O_CLOEXEC)
            attempt = _attempt(spec.replace(request=spec.request.replace(merge_lock=own)))
            os.write(result_write, fast_json.dumps(_row(attempt)))
            code = 0
        finally:
            os._exit(code)
    os.close(result_write)
    os.set_blocking(result_read, False)
    return _Running(pid, os.pidfd_open(pid), result_read, output)


def _reset_signals() -> None:
    """Restore the default signal actions and unblock the signals that the parent blocked."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _leave_terminal(output: int) -> None:
    """Detach from the terminal, with empty input and a separate output."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)


def _attempt(spec: TransactionSpec) -> TransactionAttempt:
    try:
        return transact.run_commands(spec, lambda _: None)
    except AgentDevError as error:
        return TransactionAttempt(TransactionResult(FAILED, NOT_STARTED, (), "not started", error.message))


def _row(attempt: TransactionAttempt) -> dict[str, object]:
    """Convert an attempt to plain values for the pipe."""
    return {**attempt.result.as_dict(), "steps": [[*one.as_dict().values()] for one in attempt.result.steps]}


def _from_row(row: object, session_store: store.Store) -> TransactionAttempt | None:
    if not isinstance(row, dict):
        return None
    steps = tuple(CommandStep(tuple(words), code, milliseconds) for words, code, milliseconds in row["steps"])
    result = TransactionResult(**{**row, "steps": steps}).replace(applied=(), skipped=(), unchanged=())
    if not result.session:
        return TransactionAttempt(result)
    return TransactionAttempt(result, store.Session(result.session, f"{session_store.sessions}/{result.session}"))


def _find_killed(session_store: store.Store, launcher: int) -> TransactionAttempt:
    """Return the attempt of a process that was killed before it reported: while it started, or from outside."""
    result = TransactionResult(FAILED, transaction_result.EXIT_REFUSED, (), "signal", "it was killed before it reported a result")
    for session in reversed(store.all_sessions(session_store)):
        try:
            record = store.read_record(session)
        except AgentDevError:
            continue  # it has no record yet and is swept later
        if record["launcher"] == launcher and record["state"] in (store.RUNNING, store.WAITING):
            if "life" in record:
                pid_namespace.kill_all(pid_namespace.NamespaceIdentity(*record["life"]))
            return TransactionAttempt(result.replace(session=session.id, name=record["name"] or session.id), session)
    return TransactionAttempt(result)


def _wait_ended(work: _Work) -> list[int]:
    """Wait until a process reports or ends; return the numbers of those that ended."""
    poll = select.poll()
    for one in work.running.values():
        poll.register(one.result_pipe, select.POLLIN)
        poll.register(one.pidfd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll()}
    for one in work.running.values():
        if one.result_pipe in ready or one.pidfd in ready:
            one.text += _read_available(one.result_pipe)
    return [number for number, one in work.running.items() if one.pidfd in ready]


def _read_available(fd: int) -> bytes:
    """Read what a pipe holds now."""
    data = b""
    try:
        while piece := os.read(fd, 1 << 16):
            data += piece
    except BlockingIOError:
        pass  # more may follow
    return data


def _collect(work: _Work, number: int) -> tuple[TransactionAttempt, bytes]:
    one = work.running.pop(number)
    os.waitpid(one.pid, 0)
    os.close(one.result_pipe)
    os.close(one.pidfd)
    size = os.fstat(one.output).st_size
    output = os.pread(one.output, _MAX_OUTPUT, max(0, size - _MAX_OUTPUT))
    os.close(one.output)
    try:
        row = fast_json.loads(one.text)
    except ValueError:
        row = None
    return _from_row(row, work.sessions) or _find_killed(work.sessions, one.pid), output


def _classify(work: _Work, number: int, attempt: TransactionAttempt) -> None:
    if work.is_over and not work.was_ended and not attempt.has_passed and attempt.result.cause == "signal":
        _discard(work, attempt)
        attempt = TransactionAttempt(_as_not_needed(attempt.result))
    if attempt.has_passed and attempt.session is not None:
        work.passed[number] = attempt
    else:
        work.results[number] = attempt.result
        if attempt.has_passed:
            _finish_race(work)


def _merge_passed(work: _Work, notice: Callable[[str], None]) -> None:
    """Merge the transactions that passed, in the order of the list; with `only_first` only the first to pass."""
    for number in sorted(work.passed):
        if not work.batch.only_first and any(before not in work.results for before in range(number)):
            return
        attempt = work.passed.pop(number)
        if work.was_ended:
            work.results[number] = _as_interrupted(attempt.result)
            continue
        if work.batch.only_first and any(one.state == MERGED for one in work.results.values()):
            _discard(work, attempt)
            work.results[number] = _as_not_needed(attempt.result)
            continue
        locked = attempt.replace(session=_lock_session(attempt.session)) if attempt.session else attempt
        fcntl.flock(work.gate, fcntl.LOCK_EX)
        try:
            work.results[number] = merge_attempt.merge_result(locked, work.batch.spec, notice)
            time.sleep(_TIMESTAMP_STEP)
        finally:
            fcntl.flock(work.gate, fcntl.LOCK_UN)
        if work.results[number].state == MERGED:
            _finish_race(work)


def _finish_race(work: _Work) -> None:
    """With `only_first`, stop all others once one is merged."""
    if work.batch.only_first:
        work.is_over = True
        _stop(work)


def _lock_session(session: store.Session) -> store.Session:
    """Lock the session of a transaction that has ended; children of its launcher may hold the lock a moment longer."""
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while time.monotonic() < deadline and store.is_locked(session):
        time.sleep(_TIMESTAMP_STEP)
    return store.lock_session(session)


def _discard(work: _Work, attempt: TransactionAttempt) -> None:
    """Move the session of a transaction that is not needed any more to the trash."""
    if attempt.session is None:
        return
    try:
        session = _lock_session(attempt.session)
    except SessionBusy:
        return  # the session is kept
    merge_attempt.discard_session(work.sessions, session, store.read_record(session))
    store.unlock_session(session)
