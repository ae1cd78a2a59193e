"""Imported commits are not offered again until an undo; a session is merged once its files and commits are imported."""

import json
import subprocess

import pytest

from tests.harness.program import AgentDev
from tests.harness.repository import git

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


def marks(agent_dev: AgentDev, session: str) -> dict[str, bool]:
    """Return by subject whether `commits` and `status` mark a commit as imported; both agree."""
    found = {one["subject"]: one["imported"] for one in json.loads(agent_dev.do("commits", session, "--json"))["commits"]}
    assert found == {one["subject"]: one["imported"] for one in json.loads(agent_dev.do("status", session, "--json"))["commits"]}
    lines = agent_dev.do("commits", session).splitlines()
    for subject, is_imported in found.items():
        assert any(line.endswith(f" {subject} (imported)" if is_imported else f" {subject}") for line in lines)
    return found


def commit_ids(agent_dev: AgentDev, session: str) -> dict[str, str]:
    return {one["subject"]: one["id"] for one in json.loads(agent_dev.do("commits", session, "--json"))["commits"]}


def test_a_picked_commit_is_marked_as_imported_until_an_undo(agent_dev: AgentDev) -> None:
    session = agent_dev.ended_session(COMMIT)
    agent_dev.do("merge", "--commits", commit_ids(agent_dev, session)["three"])
    assert marks(agent_dev, session) == {"three": True, "two": False}
    agent_dev.do("undo")
    assert marks(agent_dev, session) == {"three": False, "two": False}


def test_a_commit_that_the_user_picked_by_hand_is_marked_by_its_patch(agent_dev: AgentDev) -> None:
    session = agent_dev.ended_session(COMMIT)
    patch = agent_dev.do("commits", session, "--patch", commit_ids(agent_dev, session)["three"])
    subprocess.run(["git", "apply", "--index"], input=patch, text=True, cwd=agent_dev.repo, check=True)
    git(agent_dev.repo, "commit", "-qm", "by hand")
    assert marks(agent_dev, session) == {"three": True, "two": False}
    assert "to import commits" in agent_dev.do("commits", session)


def test_commits_that_the_user_merged_by_hand_are_not_offered_again(agent_dev: AgentDev) -> None:
    session = agent_dev.ended_session(COMMIT)
    agent_dev.do("merge", "--commits", "--as", "other")
    git(agent_dev.repo, "commit", "-q", "--allow-empty", "-m", "mine")
    git(agent_dev.repo, "merge", "-q", "--no-edit", "other")
    git(agent_dev.repo, "branch", "-qD", "other")
    assert agent_dev.do("commits", session) == "no commits\n"
