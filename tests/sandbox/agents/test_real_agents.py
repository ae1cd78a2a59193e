"""The real agents, newly installed by `agent-dev install`, against a scripted model on this machine, until the change is applied.

AGENT_DEV_TEST_AGENTS selects them: `all`, `first` (the five of FIRST), or names (`codex,gemini`). Without it, none is run.
"""

import os

import pytest

from tests.harness.agents.any_model import AnyModel
from tests.harness.agents.scripted import COMMAND, MADE, SETUPS, VERSIONS
from tests.harness.program import AgentDev, tree

FIRST = ("aider", "claude", "codex", "gemini", "opencode")
CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
ASKED = os.environ.get("AGENT_DEV_TEST_AGENTS", "")
AGENTS = {"all": tuple(SETUPS), "first": FIRST}.get(ASKED) or tuple(filter(None, ASKED.split(","))) or FIRST


@pytest.mark.real_agents
@pytest.mark.parametrize("agent", AGENTS)
def test_an_installed_agent_makes_a_change_that_is_applied(agent_dev: AgentDev, agent: str) -> None:
    certificates = {name: os.environ[name] for name in CERTIFICATES if name in os.environ}
    before = tree(agent_dev.repo)
    version = ["--version", VERSIONS[agent]] if agent in VERSIONS else []
    installed = agent_dev("install", agent, *version, env=certificates, timeout=600)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    assert tree(agent_dev.repo) == before
    assert agent_dev("sessions", "--all").stdout == "no running or waiting sessions\n"

    with AnyModel(COMMAND, SETUPS[agent]("").text) as model:
        setup = SETUPS[agent](model.url)
        setup.write_files(agent_dev.agent_home)
        done = agent_dev("--no-merge", "-p", "make a file", *setup.options(), agent, *setup.arguments, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert model.paths, "the agent asked the scripted model"
    assert tree(agent_dev.repo) == before

    assert agent_dev("merge", "--all").returncode == 0
    assert (agent_dev.repo / "made.txt").read_text() == MADE
