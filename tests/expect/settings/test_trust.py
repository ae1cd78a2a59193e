"""The question whether to trust a repository's `.agent-dev.yaml`."""

import json

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal


def asked(agent_dev: AgentDev) -> Terminal:
    """Start `agent-dev trust` on a terminal."""
    return Terminal([str(PROGRAM), "trust"], env=agent_dev.terminal_environment(), cwd=agent_dev.repo)


def state(agent_dev: AgentDev) -> str:
    return str(json.loads(agent_dev("trust", "--show", "--json").stdout)["state"])


@pytest.mark.parametrize(("answer", "code", "becomes"), [("y\r", 0, "trusted"), ("\r", 1, "untrusted"), ("n\r", 1, "untrusted")])
def test_only_yes_trusts(agent_dev: AgentDev, answer: str, code: int, becomes: str) -> None:
    (agent_dev.repo / ".agent-dev.yaml").write_text("env: [SECRET]\n")
    with asked(agent_dev) as terminal:
        terminal.wait_for("trust it? [y/N]")
        assert "grants: passes through your variable SECRET" in terminal.text()
        terminal.send(answer)
        assert terminal.wait_exit() == code
    assert state(agent_dev) == becomes


def test_the_shown_content_is_trusted_and_not_a_later_replacement(agent_dev: AgentDev) -> None:
    (agent_dev.repo / ".agent-dev.yaml").write_text("mask: [.env]\n")
    with asked(agent_dev) as terminal:
        terminal.wait_for("trust it? [y/N]")
        (agent_dev.repo / ".agent-dev.yaml").write_text("rw: [~/]\n")
        terminal.send("y\r")
        assert terminal.wait_exit() == 0
    assert state(agent_dev) == "changed"
    assert "has changed since you trusted it" in agent_dev("--", "true").stderr
