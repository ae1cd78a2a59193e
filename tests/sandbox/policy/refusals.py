"""Checks of a refused start: one line with a reason and a hint is printed, nothing runs and nothing is created."""

import subprocess

from tests.harness.program import AgentDev

IN_NAMESPACE = ("unshare", "-rm")  # root in a mount namespace of its own, for an ordinary user, too
NOTHING_RAN = ("--", "echo", "ran")


def refused(agent_dev: AgentDev, done: subprocess.CompletedProcess[str], reason: str) -> None:
    """Check a refusal: exit code 125, no output, the reason in one line, only hints after it, and no session directory."""
    assert done.returncode == 125, done.stderr
    assert done.stdout == ""
    first, *hints = [line for line in done.stderr.splitlines() if not line.startswith("bwrap: ")]
    assert first.startswith("agent-dev: ")
    assert reason in first
    assert all(line.startswith("agent-dev: hint: ") for line in hints)
    assert agent_dev.session_directories() == []


def nothing_was_made(agent_dev: AgentDev) -> bool:
    return not agent_dev.state.exists() and not agent_dev.agent_home.exists()
