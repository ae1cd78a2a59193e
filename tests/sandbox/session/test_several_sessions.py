"""Commands where several sessions exist: which one is meant is asked or shown, by its name."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.harness.program import PROGRAM, AgentDev, wait_until
from tests.harness.terminal import Terminal
from tests.sandbox.waiting import waiting_agent


@pytest.fixture
def running(agent_dev: AgentDev) -> Iterator[AgentDev]:
    """Yield the program while two sessions run, `first` and `second`, which have changed a file each."""
    with ExitStack() as stack:
        for name in ("first", "second"):
            stack.enter_context(waiting_agent(agent_dev, f"echo {name} >{name}", "--no-merge", "--name", name))
        yield agent_dev


def states(agent_dev: AgentDev) -> dict[object, object]:
    return {row["name"]: row["state"] for row in agent_dev.sessions()}


def test_stop_needs_a_name_where_several_sessions_run(running: AgentDev) -> None:
    done = running("stop")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "agent-dev: several sessions are running: first, second",
        "agent-dev: hint: agent-dev stop second",
    ]
    assert states(running) == {"first": "running", "second": "running"}


def test_stop_says_what_is_kept_and_the_next_command(running: AgentDev) -> None:
    assert running.do("stop", "first").splitlines() == [
        "session first stopped; its changes are kept",
        "to select and apply them: agent-dev merge first",
    ]
    assert running.do("stop", "first") == "session first was not running; it is waiting\n"
    assert states(running) == {"first": "waiting", "second": "running"}


def test_the_session_to_stop_is_asked_for_on_a_terminal(running: AgentDev) -> None:
    with Terminal([str(PROGRAM), "stop"], env=running.environment(), cwd=running.repo) as terminal:
        terminal.wait_for("stop which session? [1-2, enter: none]")
        terminal.send("1\r")
        terminal.wait_for("session first stopped")
    assert states(running) == {"first": "waiting", "second": "running"}


def test_refusals_name_a_session_by_its_name(running: AgentDev) -> None:
    for words in (("merge", "first", "--all"), ("discard", "first"), ("resume", "first")):
        done = running(*words)
        assert (done.returncode, done.stderr.splitlines()) == (
            1,
            ["agent-dev: session first is still running", "agent-dev: hint: agent-dev stop first"],
        )


def test_status_ends_with_the_next_command(running: AgentDev) -> None:
    assert running.do("status", "first").splitlines()[-1] == "to see it live: agent-dev watch first"
    running.do("stop", "first")
    assert running.do("status", "first").splitlines()[-1] == "to select and apply changes: agent-dev merge first"
    running.do("merge", "first", "--all")
    assert running.do("status", "first").splitlines()[-1] == "to see its merges: agent-dev merges"


@pytest.mark.parametrize("words", [("log",), ("log", "--changes"), ("checkpoints",), ("deleted",)])
def test_a_session_that_was_not_named_is_named_in_the_first_line(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    for name in ("first", "second"):
        agent_dev.ended_session("touch new", "--name", name)
    assert agent_dev.do(*words).startswith("session second, waiting: sh -ec 'touch new' in ")
    assert "session first, " not in agent_dev.do(*words, "first")


def test_a_checkpoint_counts_the_paths_that_the_log_lists(agent_dev: AgentDev) -> None:
    agent_dev.git("init", "-q")
    script = "read line; echo a >a; mkdir d; echo b >d/b; git add -A; git commit -qm made"
    with agent_dev.start("--no-merge", "--", "sh", "-ec", script) as process:
        wait_until(lambda: "start" in agent_dev("checkpoints").stdout, "the checkpoint of the start")
        process.communicate("\n", timeout=60)
    rows = json.loads(agent_dev.do("log", "--changes", "--json"))["changes"]
    assert [row["paths"] for row in rows] == [[], ["a", "d", "d/b"]]
    assert " (end), 3 paths changed\n" in agent_dev.do("log")
    assert json.loads(agent_dev.do("checkpoints", "--json"))["checkpoints"][-1]["changed"] == 3


def test_a_memory_limit_per_process_is_announced(agent_dev: AgentDev) -> None:
    done = agent_dev("--limit", "memory=1G", "--", "true")
    found = {row["check"]: row["result"] for row in json.loads(agent_dev("doctor", "--json").stdout)["findings"]}
    notice = "agent-dev: memory=1G applies per process: no control group can be created"
    assert (notice in done.stderr.splitlines()) == ("per process" in found["limits"])
    assert done.returncode == 0
