"""The real agents, newly installed by `agent-dev install`, against a scripted model on this machine, until the change is applied.

AGENT_DEV_TEST_AGENTS selects them: `all`, `first` (the five of FIRST), or names (`codex,gemini`). Without it, none is run.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.agents.any_model import AnyModel
from tests.harness.agents.scripted import COMMAND, MADE, SETUPS, VERSIONS
from tests.harness.program import AgentDev, tree

FIRST = ("aider", "claude", "codex", "gemini", "opencode")
SECOND = "printf more >second.txt"
PAIRED = ("claude", "codex", "opencode")  # run twice at the same time
INSTRUCTED = ("aider", "claude", "codex", "continue", "copilot", "gemini", "grok", "kilo", "opencode", "qwen")
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
    assert model.has_instructions == (agent in INSTRUCTED), "the agent learned how its sandbox works"
    assert tree(agent_dev.repo) == before

    assert agent_dev("merge", "--all").returncode == 0
    assert (agent_dev.repo / "made.txt").read_text() == MADE
    if agent in PAIRED:
        _expect_two_at_once_to_work(agent_dev, agent)


def _expect_two_at_once_to_work(agent_dev: AgentDev, agent: str) -> None:
    """Run two sessions at the same time in the same agent home, whose state files must stay intact, and one more."""

    def run(name: str) -> int:
        words = ("-p", "make a file", *setup.options(), agent, *setup.arguments)
        return agent_dev("--no-merge", "--name", name, *words, timeout=240).returncode

    with AnyModel(SECOND, SETUPS[agent]("").text, agents=2) as model, ThreadPoolExecutor(2) as pool:
        setup = SETUPS[agent](model.url)
        assert list(pool.map(run, ("one", "two"))) == [0, 0]
    assert set(_damaged_files(agent_dev.agent_home)) == set()
    with AnyModel(SECOND, SETUPS[agent]("").text) as model:
        setup = SETUPS[agent](model.url)
        assert run("three") == 0
    listed = json.loads(agent_dev("sessions", "--json").stdout)["sessions"]
    assert {one["name"] for one in listed} == {"one", "two", "three"}


def _damaged_files(home: Path) -> Iterator[str]:
    """Yield the state files of agents that are not whole: JSON, lines of JSON, SQLite."""
    for folder, folders, names in os.walk(home):
        folders[:] = [name for name in folders if name not in ("node_modules", "agent")]  # installed, no state
        for path in (Path(folder, name) for name in names):
            try:
                if path.suffix == ".json":
                    json.loads(path.read_bytes() or b"{}")
                elif path.suffix == ".jsonl":
                    [json.loads(line) for line in path.read_bytes().splitlines()]
                elif path.suffix in (".db", ".sqlite"):
                    with closing(sqlite3.connect(path)) as database:
                        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
            except (ValueError, AssertionError, sqlite3.Error) as error:
                yield f"{path}: {error}"
