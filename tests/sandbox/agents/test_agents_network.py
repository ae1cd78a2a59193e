"""Real agents with a network of the sandbox's own: a scripted model whose key they never see, and the names that they contact.

AGENT_DEV_TEST_AGENTS runs these tests.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.agents import claude, codex, installed_agents
from tests.harness.agents.any_model import AnyModel
from tests.harness.agents.scripted import COMMAND
from tests.harness.internet import BRIDGE, in_internet
from tests.harness.program import AgentDev
from tests.harness.servers.bridge import bridge
from tests.harness.servers.brokered_host import API, REAL

pytestmark = [pytest.mark.real_agents, pytest.mark.slow]
VARIABLES = {"claude": "ANTHROPIC_API_KEY", "codex": "MODEL_KEY"}
TELEMETRY: dict[str, set[str]] = {"claude": set(), "codex": set()}
NOT_NEEDED: dict[str, set[str]] = {
    "claude": set(),
    "codex": {"github.com", "api.github.com"},
}  # for news about itself and its plugins
_PROVIDER = f'{{name="scripted",base_url="http://{API}/v1",wire_api="responses",env_key="MODEL_KEY"}}'
ARGUMENTS = {
    "claude": (),
    "codex": ("-c", "model_provider=scripted", "-c", f"model_providers.scripted={_PROVIDER}", "-m", "scripted"),
}


def configure(program: AgentDev, agent: str) -> None:
    certificate = next(word.partition("=")[2] for word in in_internet() if word.startswith("AGENT_DEV_TEST_CERTIFICATE="))
    key = {"host": API, "variable": VARIABLES[agent], "env": "MY_KEY", "base_url": "ANTHROPIC_BASE_URL"}
    folder = Path(program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(json.dumps({"upstream_ca": certificate, "credentials": {"model": key}}) + "\n")


def install(program: AgentDev, agent: str) -> tuple[str, ...]:
    """Install an agent in the agent home; return the options that it needs."""
    prefix = program.agent_home / ".local"
    try:
        found = claude.install(prefix) if agent == "claude" else codex.install(prefix)
    except RuntimeError:
        installed_agents.require_index(agent)
        raise
    return () if agent == "claude" else ("--ro", str(found), "--env", "TMPDIR=/var/tmp")


def names(program: AgentDev) -> dict[str, list[dict[str, Any]]]:
    """Return the logged connections and requests of the last session by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(program.do("log", "--network", "--json"))["connections"]:
        found.setdefault(row["name"] or row["address"], []).append(row)
    return found


@pytest.mark.parametrize("agent", VARIABLES)
def test_an_agent_uses_its_model_with_a_key_that_it_never_sees(agent_dev: AgentDev, tmp_path: Path, agent: str) -> None:
    options = install(agent_dev, agent)
    configure(agent_dev, agent)
    env, *others = in_internet()
    path = tmp_path / "bridge"
    with AnyModel(f"{COMMAND}; printenv >seen.txt; true") as model, bridge(int(model.url.rpartition(":")[2]), path):
        before = (env, f"{BRIDGE}={path}", *others)
        for net in ("allow", "ask", "learn"):
            words = ("--net", net, "--no-merge", "-p", "make a file", *options, agent, *ARGUMENTS[agent])
            done = agent_dev(*words, env={"MY_KEY": REAL}, before=before, timeout=300)
            assert done.returncode == 0, done.stdout + done.stderr
            assert model.keys == {REAL}
            assert model.has_called
            seen = names(agent_dev)
            assert {row["credential"] for row in seen[API]} == {"model"}
            (session, *_) = [row["session"] for row in agent_dev.sessions()]
            (upper,) = agent_dev.state.glob(f"sessions/{session}/**/seen.txt")
            assert REAL not in upper.read_text()
            assert VARIABLES[agent] in upper.read_text()
            done = agent_dev("--net", "allow", "show", "--json", "--all", agent, env={"MY_KEY": REAL})
            shown = json.loads(done.stdout)["rows"]
            listed = {row["value"] for row in shown if row["name"] in ("allow", "deny")}
            assert set(seen) - {API} - listed <= NOT_NEEDED[agent]
            telemetry = [row for name in seen for row in seen[name] if f"denied by the rule {name}" in row.get("why", "")]
            assert {row["name"] for row in telemetry} == TELEMETRY[agent]
            agent_dev.do("discard", session)
