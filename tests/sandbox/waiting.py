"""Agents that wait until they are told to go on, and how their sessions are listed; commands that say who they are."""

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
    """An agent that has done something and waits for a line on its input."""
    with agent_dev.started(*options, "--", "sh", "-c", f"{script}; {WAIT}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def run_long(agent_dev: AgentDev, script: str) -> None:
    """Run a script that ends well in a session that lasts: its launcher has seen so, and has begun a base."""
    with agent_dev.started("--", "sh", "-euc", f"{script}\n{WAIT}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until(lambda: _has_base(agent_dev, process.pid), "its base was begun")
        said = end(process)
    assert process.returncode == 0, said


def _has_base(agent_dev: AgentDev, launcher: int) -> bool:
    for base in (agent_dev.state / "sessions").glob("*/base/*"):
        record = json.loads((base.parents[1] / "session.json").read_text())
        if record["launcher"] == launcher:
            return True
    return False


def end(process: "subprocess.Popen[str]") -> str:
    """Let a waiting agent go on to its end; return what agent-dev said."""
    _, said = process.communicate("\n", timeout=60)
    return said


def wait_gone(marker: str) -> None:
    """Wait until no process is left that has a marker in its command line."""
    wait_until(lambda: processes(marker) == [], f"every process with {marker} is gone")


def state(agent_dev: AgentDev) -> list[str]:
    return [row["state"] for row in agent_dev.sessions(everywhere=True)]


def command(path: Path, says: str) -> None:
    """Make a command that writes a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
