"""A git with reftable support: the installed one, or the one downloaded by .ci/new-git."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import AgentDev

FIRST = (2, 45)  # the first version with reftables
FETCHED = "/usr/local/lib/agent-dev-test/git/git"


def find() -> str:
    """Return the path of such a git; skip the test if there is none."""
    for program in (os.environ.get("AGENT_DEV_TEST_GIT"), shutil.which("git"), FETCHED):
        if program and os.access(program, os.X_OK) and _version(program) >= FIRST:
            return program
    return pytest.skip("no git here knows reftables; .ci/new-git fetches one")


def _version(program: str) -> tuple[int, ...]:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in output.split()[2].split(".")[:2])


def use_new_git(agent_dev: AgentDev) -> tuple[str, ...]:
    """Make such a git the user's; return the options that make it the agent's, too."""
    path = f"{Path(find()).parent}:{agent_dev.env['PATH']}"
    agent_dev.env["PATH"] = path
    return ("--env", f"PATH={path}")
