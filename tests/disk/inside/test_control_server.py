"""The control server with actions that only count: its limits, waiting requests, and which clients are disconnected."""

import os
import random
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_dev.control import protocol, server
from agent_dev.control.server import Actions, ControlServer
from agent_dev.errors import CheckpointFailed
from tests.harness.program import wait_until
from tests.harness.scale import printed_seed

PATIENCE = 30  # seconds
MOST = 64  # clients


class Line:
    """The connection of a client."""

    def __init__(self, place: Path) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(str(place))  # without a timeout, connect waits for space in the server's queue
        self._line.settimeout(PATIENCE)
        self._heard = self._line.makefile("rb")

    def ask(self, *words: str) -> str:
        """Send requests; return the next response."""
        self.say(*words)
        return self.hear()

    def say(self, *words: str) -> None:
        """Send requests, one per line."""
        self._line.sendall("".join(f"{word}\n" for word in words).encode())

    def hear(self) -> str:
        """Return the next response, or "" if the server closed the connection."""
        try:
            return self._heard.readline().decode().strip()
        except ConnectionError:
            return ""

    def close(self) -> None:
        self._heard.close()
        self._line.close()


def counting() -> Actions:
    """Return actions whose checkpoint number is the number of process ancestry lookups so far."""
    looked = 0
    ancestry = server._ancestry

    def look(pid: int) -> tuple[int, ...]:
        nonlocal looked
        looked += 1
        return ancestry(pid)

    server._ancestry = look
    return Actions(
        take_checkpoint=lambda _cause, _message: looked,
        roll_back=lambda _number, _paths: (),
        set_mark=lambda _number: None,
        log=lambda *_: None,
        has_session_ended=lambda: False,
    )


@contextmanager
def kept(place: Path, make: Callable[[], Actions] = counting) -> Generator[Callable[[], Line]]:
    """Run a control server in its own process; yield a function that connects to it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen(MOST)
    pid = os.fork()
    if pid == 0:
        try:
            ControlServer(listener.detach(), make()).run()
        finally:
            os._exit(1)
    listener.close()
    lines: list[Line] = []

    def connect() -> Line:
        lines.append(Line(place))
        return lines[-1]

    try:
        yield connect
    finally:
        for line in lines:
            line.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], Line]]:
    monkeypatch.chdir(tmp_path)  # because the path of a socket has a length limit
    with kept(Path("door")) as found:
        yield found


def elsewhere(words: str) -> tuple[int, int]:
    """Send a request from another process that keeps its connection; return its pid and a pipe that ends it when closed."""
    printed, says = os.pipe()
    go, lets_go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(lets_go)
            line = Line(Path("door"))
            os.write(says, b"1" if line.ask(words).startswith("ok") else b"0")
            os.read(go, 1)
        finally:
            os._exit(0)
    os.close(says)
    os.close(go)
    assert os.read(printed, 1) == b"1"
    os.close(printed)
    return pid, lets_go


def looked_up(line: Line) -> int:
    return int(line.ask("checkpoint").removeprefix("ok "))


def test_waiting_requests_cost_nothing_while_no_transaction_starts_or_ends(connect: Callable[[], Line]) -> None:
    pid, go = elsewhere("begin")
    waiting = [connect() for _ in range(20)]
    assert [line.ask("begin") for line in waiting] == ["wait"] * 20
    other = connect()
    before = looked_up(other)
    assert [other.ask("nonsense")[:2] for _ in range(50)] == ["no"] * 50
    assert looked_up(other) == before
    os.close(go)
    os.waitpid(pid, 0)
    assert waiting[0].hear().startswith("ok")


def test_waiting_transactions_are_not_nested_deeper_than_allowed(connect: Callable[[], Line]) -> None:
    pid, go = elsewhere("begin")
    waiting = [connect() for _ in range(protocol.MAX_DEPTH + 4)]
    assert [line.ask("begin") for line in waiting] == ["wait"] * len(waiting)
    os.close(go)
    os.waitpid(pid, 0)
    answers = [line.hear() for line in waiting]
    assert [answer[:2] for answer in answers[: protocol.MAX_DEPTH]] == ["ok"] * protocol.MAX_DEPTH
    assert answers[protocol.MAX_DEPTH :] == ["no too many nested transactions"] * 4


def test_abandoned_connections_block_no_others(connect: Callable[[], Line]) -> None:
    opened = connect()
    assert opened.ask("begin").startswith("ok")
    left = [connect() for _ in range(MOST + 10)]
    assert connect().ask("checkpoint").startswith("ok")
    assert opened.ask("commit").startswith("ok")
    assert left[0].hear() == ""


def test_busy_connections_fill_the_connection_limit(connect: Callable[[], Line]) -> None:
    pid, go = elsewhere("begin")
    waiting = [connect() for _ in range(MOST - 1)]
    assert [line.ask("begin") for line in waiting] == ["wait"] * len(waiting)
    assert connect().hear() == ""
    os.close(go)
    os.waitpid(pid, 0)
    assert waiting[0].hear().startswith("ok")


def test_an_open_transaction_can_end_after_the_request_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(server, "_MAX_REQUESTS", 6)
    with kept(Path("door")) as connect:
        outer, inner, other = connect(), connect(), connect()
        assert [line.ask("begin")[:2] for line in (outer, inner, other)] == ["ok"] * 3
        assert [other.ask("checkpoint")[:2] for _ in range(3)] == ["ok"] * 3
        assert other.ask("checkpoint") == "no too many requests in this run"
        assert other.ask("commit /a") == "no too many requests in this run"  # it may fail, so it counts
        assert [other.ask("commit")[:2], inner.ask("rollback")[:2], outer.ask("commit")[:2]] == ["ok"] * 3
        assert outer.ask("begin") == "no too many requests in this run"


WORDS = (
    b"begin",
    b"begin some words",
    b"commit",
    b"commit /a",
    b"rollback",
    b"rollback 3",
    b"checkpoint",
    b"x",
    b"",
    b"\xff",
    b"begin\0",
)
TIMES = int(os.environ.get("AGENT_DEV_TEST_DOOR_TIMES", "2000"))


def failing(chance: random.Random) -> Actions:
    """Return actions that fail at random and log started and ended transactions and the mark."""
    log = os.open("deeds", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    number = 0

    def write(line: str) -> None:
        os.write(log, f"{line}\n".encode())

    def take(cause: str, _message: str) -> int:
        nonlocal number
        if chance.random() < 0.1:
            raise CheckpointFailed(session="one", reason="no room")
        number += 1
        if cause.startswith("tx"):
            write("begun")
        return number

    def roll_back(_number: int, _paths: tuple[str, ...]) -> tuple[str, ...]:
        if chance.random() < 0.1:
            raise OSError(28, "no room")
        return ("one path",) if chance.random() < 0.1 else ()

    return Actions(
        take_checkpoint=take,
        roll_back=roll_back,
        set_mark=lambda number: write(f"mark {number}"),
        log=lambda *_: write("ended"),
        has_session_ended=lambda: False,
    )


def harass(chance: random.Random) -> None:
    """Send whole and partial requests on random connections, read some responses, close some; exit with the rest open."""
    lines: list[socket.socket] = []
    for _ in range(TIMES):
        if len(lines) < 3 or chance.random() < 0.1:
            lines.append(socket.socket(socket.AF_UNIX))
            lines[-1].connect("door")
            lines[-1].setblocking(False)
        line = chance.choice(lines)
        printed = b"".join(
            chance.choice(WORDS) + chance.choice((b"\n", b"\n", b"\n", b"")) for _ in range(chance.randrange(1, 5))
        )
        try:
            line.send(printed) if chance.random() < 0.8 else line.recv(1 << chance.randrange(12))
            if chance.random() < 0.05:
                line.shutdown(chance.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)))
        except OSError:
            pass
        if chance.random() < 0.1:
            lines.remove(line)
            line.close()


def test_every_open_transaction_is_ended_after_all_clients_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seed = printed_seed()
    with kept(Path("door"), lambda: failing(random.Random(seed))) as connect:  # noqa: S311  (no secret)
        pids = []
        for number in range(3):
            pids.append(os.fork())
            if pids[-1] == 0:
                try:
                    harass(random.Random(seed + number))  # noqa: S311  (no secret)
                finally:
                    os._exit(0)
        for pid in pids:
            os.waitpid(pid, 0)

        def is_all_ended() -> bool:
            actions = Path("deeds").read_text().splitlines()
            marks = [line for line in actions if line.startswith("mark")]
            return actions.count("begun") == actions.count("ended") > 0 and marks[-1] == "mark 0"

        wait_until(is_all_ended, "all that was begun is ended")
        assert connect().ask("commit") == "no no transaction was begun on this connection"
