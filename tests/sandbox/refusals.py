"""What a refused start is: told in a line with a hint, and nothing ran and nothing was made."""

import subprocess

from tests.harness.program import AgentDev

IN_NAMESPACE = ("unshare", "-rm")  # root over mounts of its own, for an ordinary user, too
NOTHING_RAN = ("--", "echo", "ran")


def refused(agent_dev: AgentDev, done: subprocess.CompletedProcess[str], reason: str) -> None:
    """Check a refusal: its code, that nothing ran, its reason in one line and a hint, and that nothing was created."""
    assert done.returncode == 125, done.stderr
    assert done.stdout == ""
    first, *hints = [line for line in done.stderr.splitlines() if not line.startswith("bwrap: ")]
    assert first.startswith("agent-dev: ")
    assert reason in first
    assert all(line.startswith("agent-dev: → ") for line in hints)
    assert agent_dev.leavings() == []


def nothing_was_made(agent_dev: AgentDev) -> bool:
    return not agent_dev.state.exists() and not agent_dev.agent_home.exists()
