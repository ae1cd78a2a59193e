"""Agents that wait for input, commands that print a line, and waiting for processes to exit."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.harness.program import AgentDev, processes, wait_until

if TYPE_CHECKING:
    import subprocess

WAIT = "echo ready; read line"


@contextmanager
def waiting_agent(agent_dev: AgentDev, script: str = "true", *options: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield an agent that has run a script and waits for a line of input."""
    with agent_dev.start(*options, "--", "sh", "-c", f"{script}; {WAIT}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def run_long(agent_dev: AgentDev, script: str) -> None:
    """Run a script that succeeds, in a session that is long enough for the launcher to start its lower snapshot."""
    with agent_dev.start("--", "sh", "-euc", f"{script}\n{WAIT}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until(lambda: _has_base(agent_dev, process.pid), "its base was begun")
        printed = end(process)
    assert process.returncode == 0, printed


def _has_base(agent_dev: AgentDev, launcher: int) -> bool:
    for base in (agent_dev.state / "sessions").glob("*/base/*"):
        record = json.loads((base.parents[1] / "session.json").read_text())
        if record["launcher"] == launcher:
            return True
    return False


def end(process: "subprocess.Popen[str]") -> str:
    """Let a waiting agent continue to its end; return the stderr of agent-dev."""
    _, printed = process.communicate("\n", timeout=60)
    return printed


def wait_gone(marker: str) -> None:
    """Wait until no process has a marker in its command line."""
    wait_until(lambda: processes(marker) == [], f"every process with {marker} is gone")


def state(agent_dev: AgentDev) -> list[str]:
    return [row["state"] for row in agent_dev.sessions(everywhere=True)]


def command(path: Path, says: str) -> None:
    """Create a command that prints a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
