"""Fixtures of the sandbox tests; without user namespaces, the tests are skipped."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.sandbox.policy.watched import OWN


@pytest.fixture(scope="session", autouse=True)
def namespaces() -> None:
    """Skip without user namespaces: bubblewrap cannot build a sandbox."""
    bwrap = os.environ.get("AGENT_DEV_BWRAP", "bwrap")
    try:
        words = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"{bwrap}: {error}")
    if done.returncode:
        pytest.skip(f"no sandbox here: {done.stderr}")


@pytest.fixture
def inside(agent_dev: AgentDev) -> AgentDev:
    """Return the program with a control socket in each session, and without periodic checkpoints."""
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("tx_inside: true\ncheckpoint_minutes: 0\n")
    return agent_dev


@pytest.fixture
def guarded(agent_dev: AgentDev) -> AgentDev:
    """Return the program with rules of the user in addition to the rule set `guard`."""
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text(OWN)
    return agent_dev
