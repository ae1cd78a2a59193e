"""State that a newer agent-dev has written."""

import pytest

from agent_dev.session import store
from tests.harness.program import AgentDev, tree

COMMANDS = ("status", "merge --all", "undo", "sessions", "clean --all", "discard", "resume", "checkpoints", "log", "doctor")


@pytest.fixture
def newer(agent_dev: AgentDev) -> AgentDev:
    agent_dev("--no-merge", "--", "touch", "new")
    assert (agent_dev.state / "format").read_bytes() == store.format_line(1)
    (agent_dev.state / "format").write_bytes(store.format_line(2))
    return agent_dev


def test_every_command_refuses_newer_state_in_one_line(newer: AgentDev) -> None:
    before = tree(newer.state)
    for command in COMMANDS:
        done = newer(*command.split())
        assert done.returncode == 1, command
        message, hint = done.stderr.splitlines()
        assert "was written by a newer agent-dev: it has format 2, this version reads up to 1" in message
        assert hint.startswith("agent-dev: hint: upgrade agent-dev")
    assert tree(newer.state) == before


def test_no_agent_starts_on_newer_state(newer: AgentDev) -> None:
    before = tree(newer.state)
    done = newer("--", "touch", "other")
    assert done.returncode == 125
    assert "newer agent-dev" in done.stderr
    assert (tree(newer.state), "other" in tree(newer.repo)) == (before, False)


@pytest.mark.parametrize("text", ["", "x", "1", "2", "2 00000000\n", "0" * 100])
def test_a_damaged_format_is_ignored(newer: AgentDev, text: str) -> None:
    (newer.state / "format").write_text(text)
    assert newer.changes() == {"new": "added"}
