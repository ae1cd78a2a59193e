"""Rows of commands wait in order, and a look along a PATH is one of them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_dev.session.hash_chain import verify
from agent_dev.supervisor import log_buffer as rows
from agent_dev.supervisor.exec_arguments import Words
from agent_dev.supervisor.log_buffer import Rows
from agent_dev.supervisor.notify import Call

SOON = 1_000_000
LATER = 1_000_000_000


class Heard:
    """Rows, and a clock that says what it is told to."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.rows = Rows(self.path)
        self.now = 0

    def call(self, pid: int, program: str, after: int = SOON) -> None:
        """Hear of a call that may run."""
        self.now += after
        call = Call((1, pid), program.encode(), Words(0, [], [], ("x",)))
        call.time = call.last = self.now
        self.rows.allowed(call, self.rows.before(pid, self.now))

    def written(self) -> list[dict[str, Any]]:
        """Write what waits, and return all that was written."""
        self.rows.write_all()
        found = verify(self.path)
        assert found.problem == ""
        return list(found.rows)


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    return Heard(tmp_path / "log")


def test_a_look_along_a_path_is_the_row_of_its_last_place_at_the_time_of_the_first(heard: Heard) -> None:
    heard.call(7, "/a/as")
    heard.call(7, "/b/as")
    heard.call(7, "/c/as")
    assert [(row["program"], row["time"]) for row in heard.written()] == [("/c/as", SOON)]


def test_two_looks_at_once_are_two_rows_in_the_order_in_which_they_began(heard: Heard) -> None:
    for folder in "abc":
        heard.call(7, f"/{folder}/as")
        heard.call(8, f"/{folder}/ld")
    assert [row["program"] for row in heard.written()] == ["/c/as", "/c/ld"]


def test_a_look_that_goes_on_for_long_is_one_row_and_the_same_call_after_a_pause_another(heard: Heard) -> None:
    heard.call(7, "/a/as")
    for _ in range(100):
        heard.call(7, "/b/as")
    heard.call(7, "/c/as", LATER)
    assert [row["program"] for row in heard.written()] == ["/b/as", "/c/as"]


def test_what_is_written_stays_as_it_is(heard: Heard) -> None:
    heard.call(7, "/a/as")
    assert len(heard.written()) == 1
    heard.call(7, "/b/as")
    assert [row["program"] for row in heard.written()] == ["/a/as", "/b/as"]


def test_a_command_waits_for_a_part_of_the_rows_alone(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_AT_ONCE", 3)
    for number in range(8):
        heard.rows.add({"time": number})
    heard.rows.write()
    assert (len(heard.rows), heard.rows.head()[0]) == (5, 3)
    assert [row["time"] for row in heard.written()] == [*range(8)]


@pytest.fixture
def child() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(["sh", "-c", "read go; exit 3"], stdin=subprocess.PIPE, text=True) as process:
        yield process


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_row_of_a_command_that_has_ended_says_how(heard: Heard, child: "subprocess.Popen[str]") -> None:
    before = open_files()
    heard.call(child.pid, "/bin/sh")
    heard.call(child.pid, "/bin/other", LATER)  # it became another program: that is what ended
    assert open_files() == before + 1
    child.communicate("\n")
    assert [row.get("exit") for row in heard.written()] == [None, 3]
    heard.call(os.getpid(), "/bin/python3")
    assert "exit" not in heard.written()[-1]
    assert open_files() == before


def test_no_more_ends_are_waited_for_than_there_are_descriptors_to_spare(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_MANY_ENDS", 2)
    before = open_files()
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as other:
        for pid in (os.getpid(), one.pid, other.pid):
            heard.call(pid, "/bin/x")
        assert open_files() == before + 2
        one.kill()
        other.kill()
        one.wait()
        other.wait()
    assert [row.get("exit") for row in heard.written()] == [None, 137, None]
