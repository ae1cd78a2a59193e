"""Run many transactions, some at a time, each in an overlay of its own; merge what passed, one after the other."""

import fcntl
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_dev.errors import NOT_STARTED, AgentDevError, SessionBusy
from agent_dev.fs import fast_json as quick_json
from agent_dev.linux import pid_namespace as leftovers
from agent_dev.session import store
from agent_dev.transaction import merge as land
from agent_dev.transaction import transact
from agent_dev.transaction.transact import FAILED, MERGED, Attempt, Result, Step, Terms

NOT_NEEDED = "not needed"  # the cause of those that came after the first to pass
_CLOCK = 0.03  # seconds: what a merge wrote is older then than whatever starts next, by any file system's clock
_LONGEST_OUTPUT = 1 << 20  # bytes of it that are shown
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE = 30.0  # seconds for the lock of a session whose launcher is gone: what it had started still goes, too


@dataclass(frozen=True, slots=True)
class Batch:
    """What is run: the command lines as a shell reads them, the terms of each, how many at a time, and until when."""

    lines: tuple[str, ...]
    terms: Terms
    jobs: int
    is_first: bool  # until the first that passed was merged


@dataclass(slots=True)
class _Running:
    """A transaction in a process of its own: what it tells at its end, and where its output goes."""

    pid: int
    life: int  # its pidfd: what it started may hold the pipe open for longer
    told: int
    output: int
    text: bytes = b""


@dataclass(slots=True)
class _Work:
    """How far a batch has come."""

    batch: Batch
    place: store.Store
    gate: int  # a file without a name: locked while something is merged, and by those that run while they take their base
    running: dict[int, _Running] = field(default_factory=dict)
    passed: dict[int, Attempt] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)
    next: int = 0
    is_over: bool = False  # nothing more is begun: the first has passed, or the user ended it
    was_ended: bool = False  # by the user: nothing more is merged either


Shown = Callable[[int, Result, bytes], None]


def run(batch: Batch, place: store.Store, notice: Callable[[str], None], shown: Shown) -> tuple[Result, ...]:
    """Run a batch and return the results in its order. `shown` is told of each as it ends, with what it wrote."""
    work = _Work(batch, place, _nameless())
    with _signals(work):
        while work.running or (work.next < len(batch.lines) and not work.is_over):
            _start(work)
            for number in _ended(work):
                attempt, output = _collect(work, number)
                _sort(work, number, attempt)
                shown(number, attempt.result, output)
            _land(work, notice)
    for number in range(len(batch.lines)):
        if number not in work.results:
            blank = Result(FAILED, transact.REFUSED, ())
            work.results[number] = _ended_early(blank) if work.was_ended else _lost(blank)
    return tuple(work.results[number] for number in range(len(batch.lines)))


def _lost(result: Result) -> Result:
    return result.but(state=FAILED, code=transact.REFUSED, cause=NOT_NEEDED, reason="another had passed", session="")


def _nameless() -> int:
    return os.open("/tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _ended_early(result: Result) -> Result:
    return result.but(state=FAILED, code=transact.REFUSED, cause="signal", reason="it was ended before it was merged")


@contextmanager
def _signals(work: _Work) -> Iterator[None]:
    """End what runs when we are asked to end; its sessions are kept, as with a single one."""

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
        os.kill(one.pid, signal.SIGTERM)  # our own child, not yet waited for


def _start(work: _Work) -> None:
    batch = work.batch
    while len(work.running) < batch.jobs and work.next < len(batch.lines):
        line = batch.lines[work.next]
        words = ("/bin/sh", "-c", line)
        terms = batch.terms.but(request=batch.terms.request.but(words=words, is_command=True))
        with _undisturbed():  # who is asked to end meanwhile ends the new one too
            if work.is_over:
                return
            work.running[work.next] = _forked(terms, work.gate)
        work.next += 1


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let the signals that end us wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forked(terms: Terms, gate: int) -> _Running:
    told, tells = os.pipe()
    output = _nameless()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _be_one_of_many()
            os.close(told)
            _leave_terminal(output)
            own = os.open(f"/proc/self/fd/{gate}", os.O_RDWR | os.O_CLOEXEC)  # a lock of its own, not its parent's
            attempt = _attempt(terms.but(request=terms.request.but(gate=own)))
            os.write(tells, quick_json.dumps(_row(attempt)))
            code = 0
        finally:
            os._exit(code)
    os.close(tells)
    os.set_blocking(told, False)
    return _Running(pid, os.pidfd_open(pid), told, output)


def _be_one_of_many() -> None:
    """Be ended by what ends a program, from the first moment on: until here our parent let those signals wait."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _leave_terminal(output: int) -> None:
    """Have no terminal that could be lent, nothing to read, and an output of our own."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)


def _attempt(terms: Terms) -> Attempt:
    try:
        return transact.run_all(terms, lambda _: None)
    except AgentDevError as error:
        return Attempt(Result(FAILED, NOT_STARTED, (), "not started", error.message))


def _row(attempt: Attempt) -> dict[str, object]:
    """Return an attempt as plain values, for the pipe."""
    return {**attempt.result.as_dict(), "steps": [[*one.as_dict().values()] for one in attempt.result.steps]}


def _unrow(row: object, place: store.Store) -> Attempt | None:
    if not isinstance(row, dict):
        return None
    steps = tuple(Step(tuple(words), code, milliseconds) for words, code, milliseconds in row["steps"])
    result = Result(**{**row, "steps": steps, "taken": (), "left": (), "unchanged": ()})
    if not result.session:
        return Attempt(result)
    return Attempt(result, store.Session(result.session, f"{place.sessions}/{result.session}"))


def _cut_short(place: store.Store, launcher: int) -> Attempt:
    """Return the attempt of a process that was ended before it could tell how: while it began, or from outside."""
    result = Result(FAILED, transact.REFUSED, (), "signal", "it was ended before it could tell how")
    for session in reversed(store.all_sessions(place)):
        try:
            record = store.read(session)
        except AgentDevError:
            continue  # never born: it is swept
        if record["launcher"] == launcher and record["state"] in (store.RUNNING, store.WAITING):
            if "life" in record:
                leftovers.end(leftovers.Life(*record["life"]))
            return Attempt(result.but(session=session.id, name=record["name"] or session.id), session)
    return Attempt(result)


def _ended(work: _Work) -> list[int]:
    """Wait until something is told or one has ended; return the numbers of those that have."""
    poll = select.poll()
    for one in work.running.values():
        poll.register(one.told, select.POLLIN)
        poll.register(one.life, select.POLLIN)
    ready = {fd for fd, _ in poll.poll()}
    for one in work.running.values():
        if one.told in ready or one.life in ready:
            one.text += _all_told(one.told)
    return [number for number, one in work.running.items() if one.life in ready]


def _all_told(fd: int) -> bytes:
    """Read what a pipe holds now."""
    told = b""
    try:
        while piece := os.read(fd, 1 << 16):
            told += piece
    except BlockingIOError:
        pass  # more may come
    return told


def _collect(work: _Work, number: int) -> tuple[Attempt, bytes]:
    one = work.running.pop(number)
    os.waitpid(one.pid, 0)
    os.close(one.told)
    os.close(one.life)
    size = os.fstat(one.output).st_size
    output = os.pread(one.output, _LONGEST_OUTPUT, max(0, size - _LONGEST_OUTPUT))
    os.close(one.output)
    try:
        row = quick_json.loads(one.text)
    except ValueError:
        row = None
    return _unrow(row, work.place) or _cut_short(work.place, one.pid), output


def _sort(work: _Work, number: int, attempt: Attempt) -> None:
    if work.is_over and not work.was_ended and not attempt.has_passed and attempt.result.cause == "signal":
        _discard(work, attempt)
        attempt = Attempt(_lost(attempt.result))
    if attempt.has_passed and attempt.session is not None:
        work.passed[number] = attempt
    else:
        work.results[number] = attempt.result
        if attempt.has_passed:
            _won(work)


def _land(work: _Work, notice: Callable[[str], None]) -> None:
    """Merge what has passed, in the order of the list; of a race the first to pass."""
    for number in sorted(work.passed):
        if not work.batch.is_first and any(before not in work.results for before in range(number)):
            return
        attempt = work.passed.pop(number)
        if work.was_ended:
            work.results[number] = _ended_early(attempt.result)
            continue
        if work.batch.is_first and any(one.state == MERGED for one in work.results.values()):
            _discard(work, attempt)
            work.results[number] = _lost(attempt.result)
            continue
        held = attempt.but(session=_hold(attempt.session)) if attempt.session else attempt
        fcntl.flock(work.gate, fcntl.LOCK_EX)
        try:
            work.results[number] = land.land(held, work.batch.terms, notice)
            time.sleep(_CLOCK)
        finally:
            fcntl.flock(work.gate, fcntl.LOCK_UN)
        if work.results[number].state == MERGED:
            _won(work)


def _won(work: _Work) -> None:
    """End a race when one has passed and is merged."""
    if work.batch.is_first:
        work.is_over = True
        _stop(work)


def _hold(session: store.Session) -> store.Session:
    """Hold the session of one that has ended; what its launcher had started may have the lock for a moment longer."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and store.is_held(session):
        time.sleep(_CLOCK)
    return store.hold(session)


def _discard(work: _Work, attempt: Attempt) -> None:
    """Put the session of one that lost a race into the trash."""
    if attempt.session is None:
        return
    try:
        session = _hold(attempt.session)
    except SessionBusy:
        return  # it stays among the sessions
    land.discard(work.place, session, store.read(session))
    store.let_go(session)
