"""A discarded session is listed, and restored from the trash unchanged."""

import pytest

from tests.harness.program import AgentDev


def make(agent_dev: AgentDev, name: str = "one", script: str = "echo two >README.md; echo new >n") -> str:
    return agent_dev.ended_session(script, "--name", name)


def states(agent_dev: AgentDev) -> dict[str, str]:
    return {row["session"]: row["state"] for row in agent_dev.sessions(everywhere=True)}


@pytest.mark.slow
def test_a_discarded_session_is_listed_and_restored_unchanged(agent_dev: AgentDev) -> None:
    first, second = make(agent_dev), make(agent_dev, "two", "rm README.md")
    before = agent_dev.changes(first)
    for name in ("one", "two"):
        agent_dev.do("discard", name)
    assert states(agent_dev) == {first: "discarded", second: "discarded"}
    assert agent_dev.sessions() == []
    agent_dev.do("undiscard", "one")
    assert states(agent_dev) == {second: "discarded", first: "waiting"}
    assert agent_dev.changes(first) == before
    agent_dev.do("undiscard")  # without an argument, the newest
    assert agent_dev.changes(second) == {"README.md": "deleted"}
    agent_dev.do("merge", first, "--all")
    assert (agent_dev.repo / "n").read_text() == "new\n"


def test_a_merged_session_is_restored_as_merged(agent_dev: AgentDev) -> None:
    session = make(agent_dev)
    agent_dev.do("merge", "--all")
    agent_dev.do("discard", session)
    agent_dev.do("undiscard", session)
    assert states(agent_dev) == {session: "merged"}


def test_an_undo_of_a_discarded_sessions_merge_returns_its_changes(agent_dev: AgentDev) -> None:
    session = make(agent_dev)
    agent_dev.do("merge", "--all")
    agent_dev.do("discard", session)
    agent_dev.do("undo")
    assert not (agent_dev.repo / "n").exists()
    assert states(agent_dev) == {session: "discarded"}
    agent_dev.do("undiscard")
    assert agent_dev.changes(session) == {"README.md": "edited", "n": "added"}


def test_a_restored_session_loses_a_name_that_an_open_one_has(agent_dev: AgentDev) -> None:
    first = make(agent_dev)
    agent_dev.do("discard", "one")
    second = make(agent_dev)
    done = agent_dev("undiscard")
    assert (done.returncode, done.stdout) == (0, f"session {first} is waiting\n")
    assert done.stderr == "agent-dev: an open session is already named one; the restored session has no name\n"
    assert {row["session"]: row["name"] for row in agent_dev.sessions()} == {first: None, second: "one"}


def test_a_session_that_is_not_in_the_trash_is_a_usage_error(agent_dev: AgentDev) -> None:
    done = agent_dev("undiscard", "nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no session nobody in the trash" in done.stderr
    done = agent_dev("undiscard")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no discarded session for" in done.stderr
