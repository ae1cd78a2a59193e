"""Tickets and answers: what is written is read again, and everything else is refused in one line."""

import json
from typing import Any

import pytest

from agent_dev.config.options import RunOptions
from agent_dev.errors import BadBundle, BadTicket, UsageError, WorkerRefused
from agent_dev.fleet import answer, ticket
from agent_dev.fleet.answer import WorkerGreeting
from agent_dev.transaction.result import FAILED, MERGED, CommandStep, TransactionResult

TICKET = ticket.Ticket(
    id="a1-1",
    commit="a" * 40,
    branch="topic/x",
    name="shop",
    directory="sub/dir",
    arguments=("/bin/sh", "-c", "make é \n x"),
    kind="command",
    validations=("make test",),
    timeout=5000,
    options=RunOptions(net="none", allow=("example.org",), limit=("time=1h",), env=("TOKEN",)),
    score="make score",
)
RESULT = TransactionResult(FAILED, 3, (CommandStep(("sh", "-c", "exit 3"), 3, 12),), "command", "exited with status 3")


def test_a_ticket_is_one_line_and_is_read_as_it_was_written() -> None:
    line = ticket.encode_ticket(TICKET)
    assert "\n" not in line
    assert ticket.parse_ticket(line.encode()) == TICKET


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": 0},
        {"version": True},
        {"bundle": [2, 3]},
        {"bundle": [0, 0]},
        {"bundle": [1, 0]},
        {"bundle": 1},
        {"format": "other"},
        {"id": "../x"},
        {"id": 5},
        {"commit": "HEAD"},
        {"branch": "-x"},
        {"branch": "a..b"},
        {"branch": "a.lock"},
        {"name": "../x"},
        {"name": ".git"},
        {"directory": "/etc"},
        {"directory": "a/../.."},
        {"directory": ".git/hooks"},
        {"arguments": []},
        {"arguments": "sh"},
        {"arguments": ["a\0b"]},
        {"kind": "root"},
        {"validations": [1]},
        {"score": 5},
        {"score": "a\0b"},
        {"timeout": -1},
        {"timeout": "5"},
        {"options": {"rw": ["/"]}},
        {"options": {"env": ["A=b"]}},
        {"options": {"net": ["host"]}},
        {"options": 3},
        {"more": 1},
    ],
)
def test_a_ticket_that_nobody_writes_is_refused(change: dict[str, Any]) -> None:
    value = json.loads(ticket.encode_ticket(TICKET)) | change
    with pytest.raises(BadTicket):
        ticket.parse_ticket(json.dumps(value).encode())


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_ticket_is_refused(line: bytes) -> None:
    with pytest.raises(BadTicket):
        ticket.parse_ticket(line)


@pytest.mark.parametrize("options", [RunOptions(rw=("/x",)), RunOptions(share=("docker",)), RunOptions(env=("A=secret",))])
def test_options_that_belong_to_one_machine_are_not_sent(options: RunOptions) -> None:
    with pytest.raises(UsageError) as caught:
        ticket.sent_options(options)
    assert "secret" not in caught.value.message


def test_a_result_is_read_as_it_was_written() -> None:
    assert answer.parse_task({"task": answer.encode_task("a1-1", RESULT)}, "a1-1") == RESULT
    scored = TransactionResult(MERGED, 0, RESULT.steps, score=-0.5)
    assert answer.parse_task({"task": answer.encode_task("a1-1", scored)}, "a1-1") == scored


@pytest.mark.parametrize("score", ["5", True, float("nan"), float("inf"), 10**400, [5]])
def test_a_score_that_is_no_finite_number_is_refused(score: Any) -> None:
    task = answer.encode_task("a1-1", TransactionResult(MERGED, 0, ()))
    with pytest.raises(BadBundle):
        answer.parse_task({"task": {"id": "a1-1", "result": task["result"] | {"score": score}}}, "a1-1")


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"state": "great"},
        {"state": MERGED},
        {"cause": "conflict"},
        {"exit": -1},
        {"exit": True},
        {"reason": "x" * 5000},
        {"reason": None},
        {"commits": 1 << 40},
        {"steps": [{"command": ["a"], "exit": 0}]},
        {"steps": [{"command": "a", "exit": 0, "milliseconds": 1}]},
        {"steps": [[]]},
        {"steps": [{}] * 1000},
        {"score": 5},
        {"more": 1},
    ],
)
def test_a_result_that_nobody_writes_is_refused(change: dict[str, Any]) -> None:
    task = answer.encode_task("a1-1", RESULT)
    with pytest.raises(BadBundle):
        answer.parse_task({"task": {"id": "a1-1", "result": task["result"] | change}}, "a1-1")


@pytest.mark.parametrize("manifest", [{}, {"task": answer.encode_task("a1-2", RESULT)}])
def test_the_result_of_another_task_is_refused(manifest: dict[str, Any]) -> None:
    with pytest.raises(BadBundle):
        answer.parse_task(manifest, "a1-1")


def test_a_greeting_is_read_as_it_was_written() -> None:
    greeting = WorkerGreeting("0.1.0", 8, True, ("a" * 40,))
    assert answer.parse_greeting(answer.encode_greeting(greeting), "host") == greeting


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": [9, 9]},
        {"protocol": [2, 1]},
        {"protocol": [True, 1]},
        {"protocol": 1},
        {"bundle": None},
        {"bundle": [0, 1 << 40]},
        {"processors": "8"},
        {"known": ["x"]},
        {"known": None},
        {"has_commit": 1},
        {"program": 0},
    ],
)
def test_a_greeting_that_nobody_writes_is_refused(change: dict[str, Any]) -> None:
    value = json.loads(answer.encode_greeting(WorkerGreeting("0.1.0", 8, True))) | change
    with pytest.raises(WorkerRefused):
        answer.parse_greeting(json.dumps(value).encode(), "host")
