"""A worker: run the transaction of a ticket and write its result as a bundle. It ends when nobody reads the bundle any more."""

import os
import select
import signal
import time
from io import BytesIO
from typing import BinaryIO

from agent_dev import __version__
from agent_dev.bundle import archive, manifest
from agent_dev.bundle.export import SessionExport
from agent_dev.config.options import RunOptions
from agent_dev.errors import BadTicket, Refused
from agent_dev.fleet import answer
from agent_dev.fleet.answer import WorkerGreeting
from agent_dev.fleet.checkout import CommitStore
from agent_dev.fleet.ticket import MAX_TICKET, Ticket, parse_ticket
from agent_dev.fs import checksummed_json
from agent_dev.linux import pid_namespace, streams
from agent_dev.paths import is_below
from agent_dev.run.request import RunRequest
from agent_dev.session import removal, sessions, store
from agent_dev.session.sessions import CommandContext
from agent_dev.transaction import child_process
from agent_dev.transaction.child_process import ChildTransaction
from agent_dev.transaction.result import TransactionAttempt, TransactionSpec

NOT_READ = 141  # exit code: nobody reads the bundle (128 + SIGPIPE)
_GRACE = 3.0  # seconds for a cancelled transaction to end


class CancelledError(Exception):
    """Nobody reads the bundle any more, or a signal ended the worker."""


def read_ticket(source: BinaryIO) -> Ticket:
    """Read a ticket's line. Raises BadTicket."""
    line = source.readline(MAX_TICKET + 1)
    if len(line) > MAX_TICKET:
        raise BadTicket(reason=f"it is longer than {MAX_TICKET >> 10} KiB")
    return parse_ticket(line)


def prepare_commit(commit: str, source: BinaryIO, target: int, environ: dict[str, str]) -> None:
    """Greet the coordinator, and store a commit from its pack unless it is stored. Raises CommandFailed."""
    commits = CommitStore(commit, environ)
    commits.prune(lambda checkout: _remove_leftovers(checkout, environ))
    has_commit = commits.has(commit)
    processors = len(os.sched_getaffinity(0))
    streams.write_all(target, answer.encode_greeting(WorkerGreeting(__version__, processors, has_commit, commits.commits())))
    if not has_commit and source.peek(1):  # type: ignore[attr-defined]  # without a pack, only the greeting is wanted
        commits.add(commit, source)


def _remove_leftovers(checkout: str, environ: dict[str, str]) -> None:
    """Remove the sessions of killed tasks on a checkout that no task uses: nobody asks for them any more."""
    session_store = sessions.command_context(RunOptions(directory=checkout), environ).store
    for one in sessions.list_sessions(session_store):
        if one.state in (store.KILLED, store.WAITING) and is_below(str(one.record["root"]), checkout):
            _remove(one.session)


def run_ticket(ticket: Ticket, source: BinaryIO, target: int, environ: dict[str, str]) -> None:
    """Run a ticket's transaction and write the bundle. `source`: the rest of stdin, a pack of the commit or nothing.

    Raises CancelledError, or AgentDevError if the transaction did not start.
    """
    commits = CommitStore(ticket.commit, environ)
    if source.peek(1) and not commits.has(ticket.commit):  # type: ignore[attr-defined]
        commits.add(ticket.commit, source)
    with commits.checkout(ticket) as root:
        directory = f"{root}/{ticket.directory}".rstrip("/")
        if not os.path.isdir(directory):
            raise Refused(message=f"{ticket.directory} is not a directory of commit {ticket.commit}")
        options = ticket.options.replace(directory=directory, merge=False)
        context = sessions.command_context(options, environ)
        request = RunRequest(ticket.arguments, options, environ, ticket.kind, has_checkpoints=False)
        spec = TransactionSpec(request=request, validations=ticket.validations, timeout=ticket.timeout, score=ticket.score)
        attempt = _run_child(spec, target, context)
        try:
            _write_bundle(ticket, attempt, target, context)
        except BrokenPipeError:
            raise CancelledError from None
        finally:
            if attempt.session is not None:
                _remove(attempt.session)


def _run_child(spec: TransactionSpec, target: int, context: CommandContext) -> TransactionAttempt:
    """Run a transaction in a child process, with its output on stderr. Raises CancelledError."""
    with child_process.wake_on_signals() as wake:
        with child_process.block_signals():
            child = child_process.start_child(lambda: spec, 2)
        is_cancelled = _wait(child, target, wake)
        if is_cancelled:
            _cancel(child)
        attempt = child_process.collect_child(child, context.store)
        if is_cancelled:
            if attempt.session is not None:
                _remove(attempt.session)
            raise CancelledError
        return attempt


def _wait(child: ChildTransaction, target: int, wake: int) -> bool:
    """Wait until the child has ended; return True if it is cancelled before."""
    poll = select.poll()
    for fd in (child.pidfd, child.result_pipe, wake):
        poll.register(fd, select.POLLIN)
    poll.register(target, 0)  # POLLERR and POLLHUP: nobody reads
    while True:
        ready = dict(poll.poll())
        if child.pidfd in ready:
            return False
        if target in ready or wake in ready:
            return True
        child.read_available()
        if not ready.get(child.result_pipe, 0) & select.POLLIN:
            poll.unregister(child.result_pipe)  # closed: the process is about to end


def _cancel(child: ChildTransaction) -> None:
    """End a transaction: its launcher ends the sandbox."""
    os.kill(child.pid, signal.SIGTERM)  # a child that was not waited for yet
    poll = select.poll()
    poll.register(child.pidfd, select.POLLIN)
    if not poll.poll(_GRACE * 1000):
        os.kill(child.pid, signal.SIGKILL)


def _write_bundle(ticket: Ticket, attempt: TransactionAttempt, target: int, context: CommandContext) -> None:
    task = answer.encode_task(ticket.id, attempt.result, ticket.version)
    with os.fdopen(os.dup(target), "wb", buffering=1 << 20) as file:
        if attempt.session is None:
            file.write(empty_bundle(ticket, task))
            return
        session = child_process.lock_session(attempt.session)
        try:
            export = SessionExport(session, store.read_record(session), context.environ)
            try:
                export.write(export.collect(task, _bundle_version(ticket)), b"", file)
            finally:
                export.close()
        finally:
            store.unlock_session(session)


def _bundle_version(ticket: Ticket) -> int:
    """Return the version of the bundle for a ticket, whose reader and this worker have one in common."""
    version = ticket.bundle.highest_common(manifest.VERSIONS)
    assert version is not None  # noqa: S101  (checked with the ticket)
    return version


def empty_bundle(ticket: Ticket, task: dict[str, object]) -> bytes:
    """Return the bundle of a transaction that changed nothing, and so has no session."""
    value = {
        "format": manifest.FORMAT,
        "version": _bundle_version(ticket),
        "made": {"host": os.uname().nodename[:300], "program": __version__},
        "session": {
            "name": "",
            "profile": "default",
            "command": list(ticket.arguments),
            "words": [],
            "is_command": True,
            "started": time.time_ns(),
        },
        "roots": [{"name": ticket.name, "entries": [], "base": [], "complete": True}],
        "git": [],
        "logs": {},
        "blobs": {},
        "left_out": [],
        "task": task,
    }
    file = BytesIO()
    archive.write_member(file, archive.MANIFEST, checksummed_json.dumps(value))
    file.write(archive.END)
    return file.getvalue()


def _remove(session: store.Session) -> None:
    """Remove a session of a task, with all processes that are left in it."""
    record = store.read_record(session)
    if "life" in record:
        pid_namespace.kill_all(pid_namespace.NamespaceIdentity(*record["life"]))
    removal.remove_session_now(child_process.lock_session(session))
