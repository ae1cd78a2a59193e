"""Fixtures for tests of whole reviews."""

from pathlib import Path

import pytest

from tests.expect.reviews import CODE
from tests.harness.program import AgentDev


@pytest.fixture
def shop(agent_dev: AgentDev, repo: Path) -> AgentDev:
    """Return the program in a repository with a committed program of twelve functions, and an untracked file, old.py."""
    (repo / "code.py").write_text(CODE)
    (repo / ".gitignore").write_text("node_modules/\n")
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "code")
    (repo / "old.py").write_text("print('old')\n")  # its deletion is risky: git cannot restore it
    return agent_dev
