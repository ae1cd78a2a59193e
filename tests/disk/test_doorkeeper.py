"""The process that answers at a session's door, with deeds that only count: bounds, turns, and who is hung up on."""

import os
import random
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_dev.errors import CheckpointFailed
from agent_dev.inside.control import protocol as door
from agent_dev.inside.control import server as doorkeeper
from agent_dev.inside.control.server import Deeds, Doorkeeper
from tests.harness.program import wait_until

PATIENCE = 30  # seconds
MOST = 64  # clients


class Line:
    """A client's connection."""

    def __init__(self, place: Path) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(str(place))  # it waits for a place in the queue, which it would not with a timeout
        self._line.settimeout(PATIENCE)
        self._heard = self._line.makefile("rb")

    def ask(self, *words: str) -> str:
        """Say words, and return the answer to the first that is not answered yet."""
        self.say(*words)
        return self.hear()

    def say(self, *words: str) -> None:
        """Say words, a line each."""
        self._line.sendall("".join(f"{word}\n" for word in words).encode())

    def hear(self) -> str:
        """Return one answer; nothing when it was hung up."""
        try:
            return self._heard.readline().decode().strip()
        except ConnectionError:
            return ""

    def close(self) -> None:
        self._heard.close()
        self._line.close()


def counting() -> Deeds:
    """Deeds of which a checkpoint is answered by how often it was looked up who started whom."""
    looked = 0
    ancestry = doorkeeper._ancestry

    def look(pid: int) -> tuple[int, ...]:
        nonlocal looked
        looked += 1
        return ancestry(pid)

    doorkeeper._ancestry = look
    return Deeds(
        take=lambda _cause, _message: looked,
        roll_back=lambda _number, _paths: (),
        mark=lambda _number: None,
        note=lambda *_: None,
        is_over=lambda: False,
    )


@contextmanager
def kept(place: Path, make: Callable[[], Deeds] = counting) -> Generator[Callable[[], Line]]:
    """Have a doorkeeper in a process of its own; what is given connects to it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen(MOST)
    pid = os.fork()
    if pid == 0:
        try:
            Doorkeeper(listener.detach(), make()).run()
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
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with kept(Path("door")) as found:
        yield found


def elsewhere(words: str) -> tuple[int, int]:
    """Say words at the door from another process, which stays; return it, and a pipe whose end lets it go."""
    said, says = os.pipe()
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
    assert os.read(said, 1) == b"1"
    os.close(said)
    return pid, lets_go


def looked_up(line: Line) -> int:
    return int(line.ask("checkpoint").removeprefix("ok "))


def test_who_waits_costs_nothing_while_nothing_begins_or_ends(connect: Callable[[], Line]) -> None:
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


def test_those_whose_turn_comes_at_once_are_no_deeper_in_one_another_than_may_be(connect: Callable[[], Line]) -> None:
    pid, go = elsewhere("begin")
    waiting = [connect() for _ in range(door.DEEPEST + 4)]
    assert [line.ask("begin") for line in waiting] == ["wait"] * len(waiting)
    os.close(go)
    os.waitpid(pid, 0)
    answers = [line.hear() for line in waiting]
    assert [answer[:2] for answer in answers[: door.DEEPEST]] == ["ok"] * door.DEEPEST
    assert answers[door.DEEPEST :] == ["no too many transactions are open"] * 4


def test_connections_that_were_opened_and_left_keep_nobody_out(connect: Callable[[], Line]) -> None:
    opened = connect()
    assert opened.ask("begin").startswith("ok")
    left = [connect() for _ in range(MOST + 10)]
    assert connect().ask("checkpoint").startswith("ok")
    assert opened.ask("commit").startswith("ok")
    assert left[0].hear() == ""


def test_connections_that_all_have_something_open_or_wait_let_nobody_more_in(connect: Callable[[], Line]) -> None:
    pid, go = elsewhere("begin")
    waiting = [connect() for _ in range(MOST - 1)]
    assert [line.ask("begin") for line in waiting] == ["wait"] * len(waiting)
    assert connect().hear() == ""
    os.close(go)
    os.waitpid(pid, 0)
    assert waiting[0].hear().startswith("ok")


def test_what_was_begun_can_be_ended_when_nothing_more_can_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doorkeeper, "_MOST_REQUESTS", 6)
    with kept(Path("door")) as connect:
        outer, inner, other = connect(), connect(), connect()
        assert [line.ask("begin")[:2] for line in (outer, inner, other)] == ["ok"] * 3
        assert [other.ask("checkpoint")[:2] for _ in range(3)] == ["ok"] * 3
        assert other.ask("checkpoint") == "no this run has asked too often"
        assert other.ask("commit /a") == "no this run has asked too often"  # which may fail, and be asked again
        assert [other.ask("commit")[:2], inner.ask("rollback")[:2], outer.ask("commit")[:2]] == ["ok"] * 3
        assert outer.ask("begin") == "no this run has asked too often"


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


def failing(chance: random.Random) -> Deeds:
    """Deeds that fail now and then, and write down what was begun, what was ended, and the mark."""
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

    return Deeds(
        take=take,
        roll_back=roll_back,
        mark=lambda number: write(f"mark {number}"),
        note=lambda *_: write("ended"),
        is_over=lambda: False,
    )


def harass(chance: random.Random) -> None:
    """Say words and halves of words at some connections, read some answers, close some of them, and end with all open."""
    lines: list[socket.socket] = []
    for _ in range(TIMES):
        if len(lines) < 3 or chance.random() < 0.1:
            lines.append(socket.socket(socket.AF_UNIX))
            lines[-1].connect("door")
            lines[-1].setblocking(False)
        line = chance.choice(lines)
        said = b"".join(chance.choice(WORDS) + chance.choice((b"\n", b"\n", b"\n", b"")) for _ in range(chance.randrange(1, 5)))
        try:
            line.send(said) if chance.random() < 0.8 else line.recv(1 << chance.randrange(12))
            if chance.random() < 0.05:
                line.shutdown(chance.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)))
        except OSError:
            pass
        if chance.random() < 0.1:
            lines.remove(line)
            line.close()


def test_whatever_is_said_all_that_was_begun_is_ended_when_all_have_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seed = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"AGENT_DEV_TEST_SEED={seed}")  # noqa: T201  (shown when it fails)
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
            deeds = Path("deeds").read_text().splitlines()
            marks = [line for line in deeds if line.startswith("mark")]
            return deeds.count("begun") == deeds.count("ended") > 0 and marks[-1] == "mark 0"

        wait_until(is_all_ended, "all that was begun is ended")
        assert connect().ask("commit") == "no nothing was begun here"
