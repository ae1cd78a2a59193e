"""The files of an agent home that are said to run automatically, compared with the profiles of the agents."""

import pytest

from agent_dev.config.profile import IMPORT_KINDS
from agent_dev.home.autostart import AutostartRules
from tests.harness.agents.scripted import VERSIONS
from tests.harness.reference.agents_table import entry_of

RULES = AutostartRules((), frozenset())


def reason(path: str) -> str:
    return RULES.find_reason(path, is_program=False) or RULES.find_reason(f"{path}/file", is_program=False)


@pytest.mark.parametrize("agent", sorted(VERSIONS))
def test_what_an_import_offers_of_an_agent_is_said_to_run(agent: str) -> None:
    entry = entry_of(agent)
    offered = {name.partition("#")[0] for kind in IMPORT_KINDS for name in getattr(entry, kind)}
    assert {path for path in offered if not reason(path)} == set()


@pytest.mark.parametrize("agent", sorted(VERSIONS))
def test_a_login_of_an_agent_is_not_said_to_run(agent: str) -> None:
    assert {path for path in entry_of(agent).login if reason(path)} <= {".claude.json"}  # it has servers, too


@pytest.mark.parametrize(
    "path", [".qwen/projects/a/chat.jsonl", ".qwen/debug/x.txt", ".factory/logs/a.log", ".continue/sessions/a.json"]
)
def test_a_log_of_an_agent_is_not_said_to_run(path: str) -> None:
    assert not reason(path)
