"""The line with the progress of a run."""

import os

import pytest

from agent_dev.cli.render import fleet
from agent_dev.fleet.task_table import Task, TaskTable


def test_a_terminal_without_a_size_shows_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(os, "isatty", lambda _: True)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    monkeypatch.setattr(os, "write", lambda _, data: written.append(data))
    fleet.FleetReporter().progress(TaskTable((Task(0, "make"),)).start(0, "build1"), 60)
    assert b"1 running" in b"".join(written)
