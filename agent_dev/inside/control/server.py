"""The process beside a sandbox that answers at its door, one request after the other, until the session is over.

Its agent is hostile: a line is short and strictly parsed, a descriptor that is sent along is dropped by the kernel, who does not
read its answers is hung up on, and nothing that is said names a path, a program or another session.
"""

import os
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_dev.errors import (
    AgentDevError,
    CannotRollBack,
    CheckpointFailed,
    PartlyRolledBack,
    UndoneWithOuter,
    UnknownCheckpoint,
)
from agent_dev.inside.control import protocol as door
from agent_dev.inside.control.protocol import Open, Request
from agent_dev.linux import process as callers
from agent_dev.linux import signals
from agent_dev.sanitize import visible

_MOST_CLIENTS = 64
_MOST_REQUESTS = 10_000  # of one run, but for the ends of transactions: each may leave a checkpoint, and a line in its log
_LONGEST_ANSWER = 500  # characters
_DEEPEST = 256  # processes from a client up to the sandbox's first
_PEER = struct.Struct("3i")
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL | select.POLLRDHUP


@dataclass(frozen=True, slots=True)
class Deeds:
    """What is done for an agent. All but `note` and `mark` raise AgentDevError or OSError, and return at the end of it.

    `take`: a checkpoint, by its cause and message, the number returned; `roll_back`: to a number, but for some absolute paths,
    the problems returned; `mark`: the checkpoint to go back to if nobody ends what is open; `note`: a transaction that ended,
    into the log; `is_over`: whether the session is.
    """

    take: Callable[[str, str], int]
    roll_back: Callable[[int, tuple[str, ...]], tuple[str, ...]]
    mark: Callable[[int], None]
    note: Callable[[int, str, str, str], None]
    is_over: Callable[[], bool]


@dataclass(slots=True)
class _Client:
    line: socket.socket
    pid: int
    heard: bytes = b""
    text: str = ""  # of its transaction
    waiting: list[Request] = field(default_factory=list)  # the one that waits for its turn


class Doorkeeper:
    """Answers whoever comes to the listening socket."""

    def __init__(self, listener: int, deeds: Deeds) -> None:
        self._listener = socket.socket(fileno=listener)
        self._deeds = deeds
        self._clients: dict[int, _Client] = {}
        self._opened: door.Opened = ()
        self._seen: door.Opened = ()  # what was open when it was last looked at whose turn has come
        self._requests = 0
        self._is_idle = self._is_over = False
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)

    def run(self) -> None:
        """Serve. Never returns: it ends by SIGTERM, after what it is doing."""
        signals.catch(signals.TERM, self._on_end)
        while True:
            if self._is_over:
                os._exit(0)
            self._is_idle = True
            ready = self._poll.poll()
            self._is_idle = False
            for fd, event in ready:
                self._turn(fd, event)

    def _on_end(self, _number: int, _frame: object) -> None:
        self._is_over = True
        if self._is_idle:
            os._exit(0)

    def _turn(self, fd: int, event: int) -> None:
        client = self._clients.get(fd)
        if fd == self._listener.fileno():
            self._let_in()
        elif client is not None:
            self._hear(fd, client, event)
        self._go_on()

    def _let_in(self) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError:
            return  # it has gone again
        line.setblocking(False)
        pid = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
        if len(self._clients) >= _MOST_CLIENTS and not self._let_idle_go():
            line.close()
            return
        self._clients[line.fileno()] = _Client(line, pid)
        self._poll.register(line, select.POLLIN | select.POLLRDHUP)

    def _let_idle_go(self) -> bool:
        """Hang up on who has been there longest of those that have nothing to lose; return whether there is one."""
        for fd, client in self._clients.items():
            if not client.waiting and door.of(self._opened, fd) is None:
                self._hang_up(fd, client)
                return True
        return False

    def _hear(self, fd: int, client: _Client, event: int) -> None:
        try:
            said = client.line.recv(door.LONGEST) if event & select.POLLIN else b""
        except OSError:
            said = b""
        client.heard += said
        self._answer_lines(fd, client)
        if (not said or event & _GONE or len(client.heard) > door.LONGEST) and fd in self._clients:
            self._hang_up(fd, client)

    def _answer_lines(self, fd: int, client: _Client) -> None:
        while b"\n" in client.heard and not client.waiting and fd in self._clients:
            line, _, client.heard = client.heard.partition(b"\n")
            try:
                request = door.parse(line)
            except ValueError as error:
                self._say(fd, client, f"no {error}")
                continue
            self._take_up(fd, client, request)

    def _take_up(self, fd: int, client: _Client, request: Request) -> None:
        mine = door.of(self._opened, fd)
        why = _refusal(request, mine, len(self._opened))
        if self._requests >= _MOST_REQUESTS and not _is_end(request, mine):
            why = why or "this run has asked too often"
        if why:
            self._say(fd, client, f"no {why}")
        elif request.word == door.CHECKPOINT or mine is not None or self._has_turn(fd, client):
            self._do(fd, client, request, mine)
        else:
            client.waiting.append(request)
            self._say(fd, client, "wait")

    def _has_turn(self, fd: int, client: _Client) -> bool:
        return door.has_turn(self._opened, fd, _ancestry(client.pid) if self._opened else ())

    def _go_on(self) -> None:
        """Take up those whose turn has come, in the order of their coming: it comes only when what is open has changed."""
        while self._seen != self._opened:
            self._seen = self._opened
            for fd, client in [*self._clients.items()]:
                if client.waiting and fd in self._clients and self._has_turn(fd, client):
                    self._take_up(fd, client, client.waiting.pop())
                    self._answer_lines(fd, client)

    # deeds

    def _do(self, fd: int, client: _Client, request: Request, mine: Open | None) -> None:
        self._requests += not _is_end(request, mine)
        try:
            number = self._done(fd, client, request, mine)
        except (AgentDevError, OSError) as error:
            self._say(fd, client, f"no {_in_words(error)}")
        else:
            self._say(fd, client, f"ok {number}")

    def _done(self, fd: int, client: _Client, request: Request, mine: Open | None) -> int:
        match request.word:
            case door.CHECKPOINT:
                return self._deeds.take("the agent", request.text)
            case door.BEGIN:
                number = self._deeds.take(f"tx {request.text}".strip(), "")
                client.text = request.text
                self._opened = (*self._opened, Open(fd, client.pid, number))
                self._deeds.mark(door.outermost(self._opened))
                return number
            case door.ROLLBACK if mine is None:
                self._tell(self._deeds.roll_back(request.number, ()))
                return request.number
            case _ if mine is not None:
                if request.paths and not mine.is_void:
                    self._tell(self._deeds.roll_back(mine.checkpoint, request.paths))  # it stays open when that cannot be done
                return self._end(client, mine, is_good=request.word == door.COMMIT)
            case _:
                raise AssertionError(request.word)

    def _end(self, client: _Client, mine: Open, *, is_good: bool) -> int:
        """End a transaction, and what is done of it; the mark goes when all is done."""
        verdict, problem = ("committed" if is_good else "rolled back"), ""
        self._opened = (door.committed if is_good or mine.is_void else door.rolled_back)(self._opened, mine.client)
        try:
            if mine.is_void:
                verdict = "void"
            elif not is_good:
                self._tell(self._deeds.roll_back(mine.checkpoint, ()))
        except (AgentDevError, OSError) as error:
            if self._deeds.is_over():
                os._exit(0)  # the mark stays: whoever holds the session goes back
            problem = str(error)
            raise
        finally:
            self._deeds.note(mine.checkpoint, client.text, verdict, problem)
            self._deeds.mark(door.outermost(self._opened))
        if mine.is_void and is_good:
            raise UndoneWithOuter
        return mine.checkpoint

    @staticmethod
    def _tell(problems: tuple[str, ...]) -> None:
        if problems:
            raise PartlyRolledBack(what="; ".join(problems))

    def _hang_up(self, fd: int, client: _Client) -> None:
        """Let a client go; a transaction that it had begun is rolled back, now or, when the session is ending, at its end."""
        self._poll.unregister(fd)
        client.line.close()
        del self._clients[fd]
        mine = door.of(self._opened, fd)
        if mine is not None and not self._deeds.is_over():
            try:
                self._end(client, mine, is_good=False)
            except (AgentDevError, OSError):
                return  # written down; there is nobody to tell

    def _say(self, fd: int, client: _Client, text: str) -> None:
        words = visible(" ".join(text.split()))[:_LONGEST_ANSWER]
        try:
            client.line.send(words.encode("utf-8", "replace") + b"\n", socket.MSG_NOSIGNAL)
        except OSError:
            if fd in self._clients:
                self._hang_up(fd, client)  # gone, or it does not read


def _in_words(error: AgentDevError | OSError) -> str:
    """Return what an agent is told of a failure: nothing that names a place of the host's."""
    match error:
        case OSError():
            return error.strerror or "it cannot be done"
        case UnknownCheckpoint():
            return "there is no such checkpoint"
        case CheckpointFailed():
            return f"no checkpoint: {error.values['reason']}"
        case CannotRollBack() | UndoneWithOuter() | PartlyRolledBack():
            return error.message
        case _:
            return "it cannot be done"


def _refusal(request: Request, mine: Open | None, depth: int) -> str:
    """Return why a request makes no sense where it is said; empty when it does."""
    if request.word == door.COMMIT and mine is None:
        return "nothing was begun here"
    if request.word == door.BEGIN and mine is not None:
        return "a transaction was begun here already"
    if request.word == door.BEGIN and depth >= door.DEEPEST:
        return "too many transactions are open"
    if request.word == door.ROLLBACK and (mine is None) != bool(request.number):
        return "nothing was begun here" if mine is None else "a transaction goes back to its beginning alone"
    return ""


def _is_end(request: Request, mine: Open | None) -> bool:
    """Whether it ends what its client began, whatever comes of it: there are no more of these than of begins."""
    return mine is not None and request.word in (door.COMMIT, door.ROLLBACK) and not request.paths


def _ancestry(pid: int) -> tuple[int, ...]:
    """Return a process and those above it, as far as they are there."""
    found: list[int] = []
    try:
        while pid > 1 and len(found) < _DEEPEST:
            found.append(pid)
            pid = callers.parent(pid)
    except OSError:
        pass  # it has ended: what was found is what there is
    return tuple(found)
