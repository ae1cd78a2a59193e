"""The line with the progress of a run, and its JSON document."""

import json
import os

import pytest

from agent_dev.cli.render import fleet
from agent_dev.fleet.task_table import Task, TaskTable
from agent_dev.transaction.result import MERGED, TransactionResult


def test_a_terminal_without_a_size_shows_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(os, "isatty", lambda _: True)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    monkeypatch.setattr(os, "write", lambda _, data: written.append(data))
    fleet.FleetReporter().progress(TaskTable((Task(0, "make"),)).start(0, "build1"), 60)
    assert b"1 running" in b"".join(written)


@pytest.mark.parametrize(("session", "code", "state"), [("s1", 0, "waiting"), ("", 0, "merged"), ("s1", 1, "failed")])
def test_a_run_for_review_is_waiting_like_its_tasks(session: str, code: int, state: str) -> None:
    table = TaskTable((Task(0, "make"),)).start(0, "build1").finish(0, TransactionResult(MERGED, 0, (), session=session))
    document = json.loads(fleet.table_as_json(table, code, for_review=True))
    assert document["state"] == state
    assert document["jobs"][0]["state"] == ("waiting" if session else "merged")
