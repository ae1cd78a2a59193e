"""Rows of the command log are buffered in order, and a search along PATH is a single row."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_dev.session.hash_chain import verify
from agent_dev.supervisor import log_buffer
from agent_dev.supervisor.exec_arguments import ExecArguments
from agent_dev.supervisor.exec_service import ExecService
from agent_dev.supervisor.log_buffer import LogBuffer
from agent_dev.supervisor.notify import ExecCall

SOON = 1_000_000
LATER = 1_000_000_000


class Heard:
    """A log buffer and a clock that the test sets."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.rows = LogBuffer(self.path)
        self.now = 0

    def call(self, pid: int, program: str, after: int = SOON) -> None:
        """Buffer an allowed call."""
        self.now += after
        call = ExecCall((1, pid), program.encode(), ExecArguments(0, [], [], ("x",)))
        call.time = call.last_time = self.now
        previous = self.rows.previous_lookup(pid, self.now)
        if previous is None:
            self.rows.open_pidfd(call)
        self.rows.add_allowed(call, previous)

    def written(self) -> list[dict[str, Any]]:
        """Write the buffered rows; return all rows of the log."""
        self.rows.write_all()
        found = verify(self.path)
        assert found.problem == ""
        return list(found.rows)


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    return Heard(tmp_path / "log")


def test_a_path_search_is_one_row_with_the_last_path_and_the_first_time(heard: Heard) -> None:
    heard.call(7, "/a/as")
    heard.call(7, "/b/as")
    heard.call(7, "/c/as")
    assert [(row["program"], row["time"]) for row in heard.written()] == [("/c/as", SOON)]


def test_two_concurrent_path_searches_are_two_rows_in_starting_order(heard: Heard) -> None:
    for folder in "abc":
        heard.call(7, f"/{folder}/as")
        heard.call(8, f"/{folder}/ld")
    assert [row["program"] for row in heard.written()] == ["/c/as", "/c/ld"]


def test_a_long_path_search_is_one_row_and_a_later_call_another(heard: Heard) -> None:
    heard.call(7, "/a/as")
    for _ in range(100):
        heard.call(7, "/b/as")
    heard.call(7, "/c/as", LATER)
    assert [row["program"] for row in heard.written()] == ["/b/as", "/c/as"]


def test_a_written_row_is_not_changed(heard: Heard) -> None:
    heard.call(7, "/a/as")
    assert len(heard.written()) == 1
    heard.call(7, "/b/as")
    assert [row["program"] for row in heard.written()] == ["/a/as", "/b/as"]


def test_a_command_waits_for_one_batch_of_rows_only(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_buffer, "_BATCH", 3)
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


def test_the_row_of_an_exited_command_has_its_status(heard: Heard, child: "subprocess.Popen[str]") -> None:
    before = open_files()
    heard.call(child.pid, "/bin/sh")
    heard.call(child.pid, "/bin/other", LATER)  # it executed another program, so only the second row gets an exit status
    assert open_files() == before + 1
    child.communicate("\n")
    assert [row.get("exit") for row in heard.written()] == [None, 3]
    heard.call(os.getpid(), "/bin/python3")
    assert "exit" not in heard.written()[-1]
    assert open_files() == before


@pytest.mark.parametrize("exits", [[3], []], ids=["allowed", "caller is gone"])
def test_a_command_that_ends_as_soon_as_it_is_allowed_has_its_status(
    heard: Heard, child: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch, exits: list[int]
) -> None:
    service = ExecService(cast("Any", None))
    service.rows = heard.rows
    ends = iter(exits)

    def end(*_: object) -> bool:
        child.communicate("\n")
        return bool(next(ends, None))

    monkeypatch.setattr(service, "listener", SimpleNamespace(allow=end), raising=False)
    service._allow(ExecCall((1, child.pid), b"/bin/sh", ExecArguments(0, [], [], ("x",))), None)
    assert [row.get("exit") for row in heard.written()] == exits
    assert not any("pidfd" in os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.islink(entry.path))


def test_the_number_of_tracked_exits_is_bounded_by_descriptors(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_buffer, "_MAX_PIDFDS", 2)
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
