"""A git that knows reftables: the machine's own, or the one that .ci/new-git fetched."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import AgentDev

FIRST = (2, 45)  # that knows them
FETCHED = "/usr/local/lib/agent-dev-test/git/git"


def find() -> str:
    """Return its path; skip the test where there is none."""
    for program in (os.environ.get("AGENT_DEV_TEST_GIT"), shutil.which("git"), FETCHED):
        if program and os.access(program, os.X_OK) and _version(program) >= FIRST:
            return program
    return pytest.skip("no git here knows reftables; .ci/new-git fetches one")


def _version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split()[2].split(".")[:2])


def take_new_git(agent_dev: AgentDev) -> tuple[str, ...]:
    """Let it be the user's git; return the options by which it is the agent's, too."""
    path = f"{Path(find()).parent}:{agent_dev.env['PATH']}"
    agent_dev.env["PATH"] = path
    return ("--env", f"PATH={path}")
