"""Questions to the user about connections: one per name and port, shared by all connections to it."""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable

from agent_dev.network.access import Denied, Destination
from agent_dev.network.connection import Connection
from agent_dev.network.deciding.caller_notes import CallerNotes
from agent_dev.quick_dataclass import dataclass, field
from agent_dev.session import approvals
from agent_dev.session.alerts import Alerts

NONE, GONE = "none", "gone"  # instead of an answer: none in time, or no connection is waiting any more
_INTERVAL = 0.1  # seconds between checks for answers
_MAX_QUESTIONS = 64  # at once
_ESTABLISHED, _CLOSE = 1, 7  # states of a TCP connection


@dataclass(slots=True)
class _ConnectionQuestion:
    """A question, and the connections that wait for its answer."""

    number: int
    wanted: Destination
    until: float
    answer: asyncio.Future[str]
    connections: list[Connection] = field(default_factory=list)


class Questions:
    """The questions of one sandbox. `on_answer` gets each answer once, before any connection continues."""

    on_answer: Callable[[Destination, str], None]

    def __init__(self, folder: str, seconds: int, alerts: Alerts, notes: CallerNotes) -> None:
        self._folder, self._seconds, self._alerts, self._notes = folder, seconds, alerts, notes
        self._open: dict[str, _ConnectionQuestion] = {}
        self._polling: asyncio.Task[None] | None = None

    async def ask(self, connection: Connection) -> str:
        """Return the user's answer about a connection (session/approvals), NONE or GONE. Raises Denied."""
        key = str(connection.wanted)
        if key not in self._open:
            self._open[key] = self._add(connection)
        question = self._open[key]
        question.connections.append(connection)
        self._notes.tell(connection, f"{key} waits for the user's approval (agent-dev approve), at most {self._seconds} s")
        if self._polling is None:
            self._polling = asyncio.get_running_loop().create_task(self._poll())
        return await asyncio.shield(question.answer)

    def _add(self, connection: Connection) -> _ConnectionQuestion:
        wanted, row = connection.wanted, connection.entry.row
        if len(self._open) >= _MAX_QUESTIONS:
            raise Denied("no rule allows it, and too many questions wait for the user")
        fields = {
            "kind": approvals.CONNECTION,
            "time": row["time"],
            "name": wanted.name,
            "address": "" if wanted.name else str(wanted.address),
            "port": wanted.port,
            "pid": row.get("pid", 0),
            "program": row.get("program", ""),
            "until": time.time_ns() + self._seconds * 10**9,
        }
        try:
            number = approvals.add_question(self._folder, fields)
        except OSError as error:
            raise Denied(f"no rule allows it, and the user cannot be asked: {error.strerror}") from None
        program = f"  {fields['program']}" if fields["program"] else ""
        self._alerts.alert_connection(f"{wanted}{program}")
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return _ConnectionQuestion(number, wanted, time.monotonic() + self._seconds, answer)

    async def _poll(self) -> None:
        """Check for answers as long as there are questions."""
        while self._open:
            await asyncio.sleep(_INTERVAL)
            for key, question in [*self._open.items()]:
                answer = self._answer(question)
                if answer:
                    del self._open[key]
                    self.on_answer(question.wanted, answer)
                    question.answer.set_result(answer)
                    approvals.remove_question(self._folder, question.number)
        self._polling = None

    def _answer(self, question: _ConnectionQuestion) -> str:
        """Return the answer, NONE or GONE; "" while the question waits."""
        answer = approvals.read_answer(self._folder, question.number)
        if answer:
            return answer
        if time.monotonic() >= question.until:
            return NONE
        return "" if any(map(_still_waits, question.connections)) else GONE


def _still_waits(connection: Connection) -> bool:
    """Return whether the client is still waiting. One that has only shut down its sending side waits while its program runs."""
    try:
        state = connection.client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError as error:
        return error.errno != errno.EBADF  # closed by us
    if state in (_ESTABLISHED, _CLOSE):
        return state == _ESTABLISHED
    pid = connection.entry.row.get("pid")
    return bool(pid) and os.path.exists(f"/proc/{pid}")
