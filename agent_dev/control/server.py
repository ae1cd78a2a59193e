"""The control server, a process outside the sandbox that answers requests one at a time until the session ends.

The agent is hostile: lines are short and strictly parsed, the kernel drops descriptors that are sent along, a client that does
not read its replies is disconnected, and no reply names a path, a program or another session.
"""

import os
import select
import socket
import struct
from collections.abc import Callable

from agent_dev.control import protocol
from agent_dev.control.protocol import ControlRequest, OpenTransaction
from agent_dev.errors import (
    AgentDevError,
    CannotRollBack,
    CheckpointFailed,
    IncompleteRollback,
    RolledBackWithOuter,
    UnknownCheckpoint,
)
from agent_dev.linux import process, signals
from agent_dev.quick_dataclass import dataclass, field
from agent_dev.sanitize import visible

_MAX_CLIENTS = 64
_MAX_REQUESTS = 10_000  # per run, except ends of transactions: each may leave a checkpoint and a log line
_MAX_REPLY = 500  # characters
_MAX_ANCESTORS = 256  # ancestors of a client up to the sandbox's init
_PEER = struct.Struct("3i")
_DISCONNECTED = select.POLLHUP | select.POLLERR | select.POLLNVAL | select.POLLRDHUP


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions that the server performs. All but `log` and `set_mark` raise AgentDevError or OSError.

    `take_checkpoint`: take a checkpoint with a cause and a message, return its number; `roll_back`: restore a checkpoint except
    for some absolute paths, return the problems; `set_mark`: set the checkpoint to restore if the open transactions are never
    ended; `log`: log an ended transaction; `has_session_ended`: return whether the session has ended.
    """

    take_checkpoint: Callable[[str, str], int]
    roll_back: Callable[[int, tuple[str, ...]], tuple[str, ...]]
    set_mark: Callable[[int], None]
    log: Callable[[int, str, str, str], None]
    has_session_ended: Callable[[], bool]


@dataclass(slots=True)
class _Client:
    connection: socket.socket
    pid: int
    buffer: bytes = b""
    text: str = ""  # the reason of its transaction
    waiting: list[ControlRequest] = field(default_factory=list)  # at most one, waiting for its turn


class ControlServer:
    """Serves all clients of the listening socket."""

    def __init__(self, listener: int, actions: Actions) -> None:
        self._listener = socket.socket(fileno=listener)
        self._actions = actions
        self._clients: dict[int, _Client] = {}
        self._transactions: protocol.OpenTransactions = ()
        self._checked: protocol.OpenTransactions = ()  # the transactions that were open when waiting clients were last checked
        self._requests = 0
        self._is_idle = self._should_exit = False
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)

    def run(self) -> None:
        """Serve. Never returns: SIGTERM ends it, after the current request."""
        signals.catch(signals.TERM, self._on_sigterm)
        while True:
            if self._should_exit:
                os._exit(0)
            self._is_idle = True
            ready = self._poll.poll()
            self._is_idle = False
            for fd, event in ready:
                self._handle_event(fd, event)

    def _on_sigterm(self, _number: int, _frame: object) -> None:
        self._should_exit = True
        if self._is_idle:
            os._exit(0)

    def _handle_event(self, fd: int, event: int) -> None:
        client = self._clients.get(fd)
        if fd == self._listener.fileno():
            self._accept()
        elif client is not None:
            self._receive(fd, client, event)
        self._handle_waiting()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # already closed
        connection.setblocking(False)
        pid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
        if len(self._clients) >= _MAX_CLIENTS and not self._disconnect_idle():
            connection.close()
            return
        self._clients[connection.fileno()] = _Client(connection, pid)
        self._poll.register(connection, select.POLLIN | select.POLLRDHUP)

    def _disconnect_idle(self) -> bool:
        """Disconnect the oldest client without a transaction or request; return whether there was one."""
        for fd, client in self._clients.items():
            if not client.waiting and protocol.transaction_of(self._transactions, fd) is None:
                self._disconnect(fd, client)
                return True
        return False

    def _receive(self, fd: int, client: _Client, event: int) -> None:
        try:
            data = client.connection.recv(protocol.MAX_REQUEST) if event & select.POLLIN else b""
        except OSError:
            data = b""
        client.buffer += data
        self._answer_lines(fd, client)
        if (not data or event & _DISCONNECTED or len(client.buffer) > protocol.MAX_REQUEST) and fd in self._clients:
            self._disconnect(fd, client)

    def _answer_lines(self, fd: int, client: _Client) -> None:
        while b"\n" in client.buffer and not client.waiting and fd in self._clients:
            line, _, client.buffer = client.buffer.partition(b"\n")
            try:
                request = protocol.parse_request(line)
            except ValueError as error:
                self._send(fd, client, f"no {error}")
                continue
            self._handle(fd, client, request)

    def _handle(self, fd: int, client: _Client, request: ControlRequest) -> None:
        transaction = protocol.transaction_of(self._transactions, fd)
        refusal = _refusal(request, transaction, len(self._transactions))
        if self._requests >= _MAX_REQUESTS and not _is_end(request, transaction):
            refusal = refusal or "too many requests in this run"
        if refusal:
            self._send(fd, client, f"no {refusal}")
        elif request.verb == protocol.CHECKPOINT or transaction is not None or self._has_turn(fd, client):
            self._execute(fd, client, request, transaction)
        else:
            client.waiting.append(request)
            self._send(fd, client, "wait")

    def _has_turn(self, fd: int, client: _Client) -> bool:
        return protocol.may_proceed(self._transactions, fd, _ancestry(client.pid) if self._transactions else ())

    def _handle_waiting(self) -> None:
        """Handle waiting clients in order of arrival once the open transactions have changed."""
        while self._checked != self._transactions:
            self._checked = self._transactions
            for fd, client in [*self._clients.items()]:
                if client.waiting and fd in self._clients and self._has_turn(fd, client):
                    self._handle(fd, client, client.waiting.pop())
                    self._answer_lines(fd, client)

    # actions

    def _execute(self, fd: int, client: _Client, request: ControlRequest, transaction: OpenTransaction | None) -> None:
        self._requests += not _is_end(request, transaction)
        try:
            number = self._result(fd, client, request, transaction)
        except (AgentDevError, OSError) as error:
            self._send(fd, client, f"no {_describe(error)}")
        else:
            self._send(fd, client, f"ok {number}")

    def _result(self, fd: int, client: _Client, request: ControlRequest, transaction: OpenTransaction | None) -> int:
        match request.verb:
            case protocol.CHECKPOINT:
                return self._actions.take_checkpoint("the agent", request.text)
            case protocol.BEGIN:
                number = self._actions.take_checkpoint(f"tx {request.text}".strip(), "")
                client.text = request.text
                self._transactions = (*self._transactions, OpenTransaction(fd, client.pid, number))
                self._actions.set_mark(protocol.outermost_checkpoint(self._transactions))
                return number
            case protocol.ROLLBACK if transaction is None:
                self._raise_problems(self._actions.roll_back(request.number, ()))
                return request.number
            case _ if transaction is not None:
                if request.paths and not transaction.is_void:
                    self._raise_problems(
                        self._actions.roll_back(transaction.checkpoint, request.paths)
                    )  # stays open if that fails
                return self._end_transaction(client, transaction, is_commit=request.verb == protocol.COMMIT)
            case _:
                raise AssertionError(request.verb)

    def _end_transaction(self, client: _Client, transaction: OpenTransaction, *, is_commit: bool) -> int:
        """End a transaction; the mark is updated when everything is done."""
        verdict, problem = ("committed" if is_commit else "rolled back"), ""
        self._transactions = (protocol.after_commit if is_commit or transaction.is_void else protocol.after_rollback)(
            self._transactions, transaction.client
        )
        try:
            if transaction.is_void:
                verdict = "void"
            elif not is_commit:
                self._raise_problems(self._actions.roll_back(transaction.checkpoint, ()))
        except (AgentDevError, OSError) as error:
            if self._actions.has_session_ended():
                os._exit(0)  # the mark stays: the next holder of the session rolls back
            problem = str(error)
            raise
        finally:
            self._actions.log(transaction.checkpoint, client.text, verdict, problem)
            self._actions.set_mark(protocol.outermost_checkpoint(self._transactions))
        if transaction.is_void and is_commit:
            raise RolledBackWithOuter
        return transaction.checkpoint

    @staticmethod
    def _raise_problems(problems: tuple[str, ...]) -> None:
        if problems:
            raise IncompleteRollback(what="; ".join(problems))

    def _disconnect(self, fd: int, client: _Client) -> None:
        """Disconnect a client; its transaction is rolled back now or, if the session is ending, at its end."""
        self._poll.unregister(fd)
        client.connection.close()
        del self._clients[fd]
        transaction = protocol.transaction_of(self._transactions, fd)
        if transaction is not None and not self._actions.has_session_ended():
            try:
                self._end_transaction(client, transaction, is_commit=False)
            except (AgentDevError, OSError):
                return  # logged; the client is gone

    def _send(self, fd: int, client: _Client, text: str) -> None:
        reply = visible(" ".join(text.split()))[:_MAX_REPLY]
        try:
            client.connection.send(reply.encode("utf-8", "replace") + b"\n", socket.MSG_NOSIGNAL)
        except OSError:
            if fd in self._clients:
                self._disconnect(fd, client)  # gone, or not reading


def _describe(error: AgentDevError | OSError) -> str:
    """Return the message for an agent about a failure, without any path of the host."""
    match error:
        case OSError():
            return error.strerror or "the operation failed"
        case UnknownCheckpoint():
            return "no such checkpoint"
        case CheckpointFailed():
            return f"cannot take a checkpoint: {error.values['reason']}"
        case CannotRollBack() | RolledBackWithOuter() | IncompleteRollback():
            return error.message
        case _:
            return "the operation failed"


def _refusal(request: ControlRequest, transaction: OpenTransaction | None, depth: int) -> str:
    """Return why a request is not valid now; empty if it is."""
    if request.verb == protocol.COMMIT and transaction is None:
        return "no transaction was begun on this connection"
    if request.verb == protocol.BEGIN and transaction is not None:
        return "a transaction is already open on this connection"
    if request.verb == protocol.BEGIN and depth >= protocol.MAX_DEPTH:
        return "too many nested transactions"
    if request.verb == protocol.ROLLBACK and (transaction is None) != bool(request.number):
        return (
            "no transaction was begun on this connection"
            if transaction is None
            else "a transaction can only be rolled back to its beginning"
        )
    return ""


def _is_end(request: ControlRequest, transaction: OpenTransaction | None) -> bool:
    """Return whether a request always ends its client's transaction; such requests are not limited."""
    return transaction is not None and request.verb in (protocol.COMMIT, protocol.ROLLBACK) and not request.paths


def _ancestry(pid: int) -> tuple[int, ...]:
    """Return a process and its ancestors, without those that have exited."""
    pids: list[int] = []
    try:
        while pid > 1 and len(pids) < _MAX_ANCESTORS:
            pids.append(pid)
            pid = process.parent_pid(pid)
    except OSError:
        pass  # it has exited: return the ancestors found so far
    return tuple(pids)
