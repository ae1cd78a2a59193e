"""The commands of a transaction in a child process, which reports its result through a pipe."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_dev.errors import NOT_STARTED, AgentDevError, SessionBusy
from agent_dev.fs import fast_json
from agent_dev.linux import pid_namespace, syscalls
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store
from agent_dev.transaction import result as transaction_result
from agent_dev.transaction import transact
from agent_dev.transaction.result import FAILED, CommandStep, TransactionAttempt, TransactionResult, TransactionSpec

ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)  # signals that end a transaction
PAUSE = 0.03  # seconds between two checks of a lock
_LOCK_TIMEOUT = 30.0  # seconds to wait for the lock of a session whose launcher ended: its children may end later


@dataclass(slots=True)
class ChildTransaction:
    """A transaction in its own process: the pipe for its result."""

    pid: int
    pidfd: int  # its children may keep the pipe open longer
    result_pipe: int
    text: bytes = b""

    def read_available(self) -> None:
        """Read what the pipe holds now."""
        try:
            while piece := os.read(self.result_pipe, 1 << 16):
                self.text += piece
        except BlockingIOError:
            pass  # more may follow


def start_child(make_spec: Callable[[], TransactionSpec], output: int) -> ChildTransaction:
    """Start a transaction in a new process session (setsid(2)) without a terminal. Its output goes to a descriptor.

    `make_spec` is called in the child, which is killed if this process is.
    """
    parent = os.getpid()
    result_read, result_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            syscalls.die_with_parent()
            if os.getppid() != parent:
                os._exit(code)
            _reset_signals()
            os.close(result_read)
            _leave_terminal(output)
            os.write(result_write, fast_json.dumps(to_row(_attempt(make_spec()).result)))
            code = 0
        finally:
            os._exit(code)
    os.close(result_write)
    os.set_blocking(result_read, False)
    return ChildTransaction(pid, os.pidfd_open(pid), result_read)


@contextmanager
def wake_on_signals() -> Iterator[int]:
    """Yield a descriptor that becomes readable when a signal would end the transaction."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    before = {number: signal.signal(number, lambda *_: os.write(wake_write, b"!")) for number in ENDING}
    try:
        yield wake_read
    finally:
        for number, action in before.items():
            signal.signal(number, action)
        os.close(wake_read)
        os.close(wake_write)


@contextmanager
def block_signals() -> Iterator[None]:
    """Block the signals that end a transaction."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _reset_signals() -> None:
    """Restore the default signal actions and unblock the signals that the parent blocked."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


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


def to_row(result: TransactionResult) -> dict[str, object]:
    """Return a result as plain values."""
    return {**result.as_dict(), "steps": [[*one.as_dict().values()] for one in result.steps]}


def from_row(row: object, session_store: store.Store) -> TransactionAttempt | None:
    """Return the attempt of a row of `to_row`; None without a row. Its session is not locked.

    Raises KeyError, TypeError or ValueError for a damaged row.
    """
    if not isinstance(row, dict):
        return None
    steps = tuple(CommandStep(tuple(words), code, milliseconds) for words, code, milliseconds in row["steps"])
    skipped = tuple((path, reason) for path, reason in row["skipped"])
    paths = {name: tuple(row[name]) for name in ("applied", "unchanged")}
    result = TransactionResult(**{**row, "steps": steps, "skipped": skipped, **paths})
    if not result.session:
        return TransactionAttempt(result)
    return TransactionAttempt(result, store.Session(result.session, f"{session_store.sessions}/{result.session}"))


def _session_of(session_store: store.Store, launcher: int) -> tuple[store.Session, store.Record] | None:
    """Return the open session that a process started, and its record."""
    for session in reversed(store.all_sessions(session_store)):
        try:
            record = store.read_record(session)
        except AgentDevError:
            continue  # it has no record yet and is swept later
        if record["launcher"] == launcher and record["state"] in (store.RUNNING, store.WAITING):
            return session, record
    return None


def _find_killed(session_store: store.Store, launcher: int) -> TransactionAttempt:
    """Return the attempt of a process that was killed before it reported: while it started, or from outside."""
    result = TransactionResult(FAILED, transaction_result.EXIT_REFUSED, (), "signal", "it was killed before it reported a result")
    found = _session_of(session_store, launcher)
    if found is None:
        return TransactionAttempt(result)
    session, record = found
    if "life" in record:
        pid_namespace.kill_all(pid_namespace.NamespaceIdentity(*record["life"]))
    return TransactionAttempt(result.replace(session=session.id, name=record["name"] or session.id), session)


def kill_sandbox(child: ChildTransaction, session_store: store.Store) -> None:
    """Kill all processes in the sandbox of a running transaction; the child process then finishes its session as usual."""
    found = _session_of(session_store, child.pid)
    if found is not None and "life" in found[1]:
        try:
            pid_namespace.kill_all(pid_namespace.NamespaceIdentity(*found[1]["life"]), patience=1000)
        except TimeoutError:
            pass  # they are about to end


def collect_child(child: ChildTransaction, session_store: store.Store) -> TransactionAttempt:
    """Wait for the process and return its attempt; the session, if there is one, is not locked."""
    os.waitpid(child.pid, 0)
    child.read_available()
    os.close(child.result_pipe)
    os.close(child.pidfd)
    try:
        row = fast_json.loads(child.text)
    except ValueError:
        row = None
    return from_row(row, session_store) or _find_killed(session_store, child.pid)


def lock_session(session: store.Session) -> store.Session:
    """Lock the session of a transaction that has ended; children of its launcher may hold the lock a moment longer."""
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while time.monotonic() < deadline and store.is_locked(session):
        time.sleep(PAUSE)
    return store.lock_session(session)


def discard_attempt(attempt: TransactionAttempt, session_store: store.Store) -> None:
    """Move the session of a transaction that is not needed any more to the trash."""
    if attempt.session is None:
        return
    from agent_dev.transaction import merge_attempt  # imports merging, which a worker does not need

    try:
        session = lock_session(attempt.session)
    except SessionBusy:
        return  # the session is kept
    merge_attempt.discard_session(session_store, session, store.read_record(session))
    store.unlock_session(session)
