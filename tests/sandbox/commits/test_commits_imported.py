"""Imported commits are not offered again until an undo; a session is merged once its files and commits are imported."""

import pytest

from tests.harness.program import AgentDev

COMMIT = "echo 2 >README.md; git commit -qam two; echo 3 >n; git add n; git commit -qm three"


@pytest.mark.parametrize("how", [(), ("--squash", "-m", "both")])
def test_imported_commits_are_not_offered_again_until_an_undo(agent_dev: AgentDev, how: tuple[str, ...]) -> None:
    session = agent_dev.ended_session(COMMIT)
    agent_dev.do("merge", "--commits", *how)
    assert {row["session"]: row["state"] for row in agent_dev.sessions(everywhere=True)} == {session: "merged"}
    assert agent_dev.do("commits", session) == "no commits\n"
    agent_dev.do("undo")
    assert "three" in agent_dev.do("commits", session)
    agent_dev.do("redo")
    assert agent_dev.do("commits", session) == "no commits\n"


def test_a_session_is_not_waiting_once_files_and_commits_are_imported(agent_dev: AgentDev) -> None:
    session = agent_dev.ended_session(COMMIT)
    agent_dev.do("merge", "--commits", "--as", "other")
    assert agent_dev.do("commits", session) == "no commits\n"
    assert "commit" not in agent_dev.do("status", session).partition("\n")[2]
    agent_dev.do("merge", "--all", session)
    assert agent_dev.sessions() == []


def test_two_branches_imported_in_turn_leave_nothing(agent_dev: AgentDev) -> None:
    side = "git checkout -qb side HEAD~1; echo 4 >m; git add m; git commit -qm four; git checkout -q -"
    session = agent_dev.ended_session(f"{COMMIT}; {side}")
    agent_dev.do("merge", "--commits")
    assert "side" in agent_dev.do("commits", session)
    agent_dev.do("merge", session, "--commits", "side", "--as", "side")
    assert agent_dev.do("commits", session) == "no commits\n"
    assert agent_dev.sessions() == []
