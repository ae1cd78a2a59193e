"""Sessions, several at once and one by one: how they are listed, merged, discarded and named."""

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.sandbox.waiting import end, state, waiting_agent

# Several at once


def test_sessions_at_once_do_not_see_each_others_changes(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "echo first >new; echo first >README.md") as first:
        done = agent_dev("--", "sh", "-c", "cat README.md; ls; echo second >other")
        assert done.stdout == "# Shop\nREADME.md\nsub\n"
        end(first)
    ids = [session["session"] for session in agent_dev.sessions()]
    assert [agent_dev.changes(one) for one in ids] == [{"README.md": "edited", "new": "added"}, {"other": "added"}]


def test_a_running_session_is_listed_as_running(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "true", "--name", "mine") as process:
        rows = agent_dev.sessions()
        assert [(row["name"], row["state"]) for row in rows] == [("mine", "running")]
        end(process)


def test_a_name_that_an_open_session_here_has_is_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    assert agent_dev("--name", "p", "--", "touch", "new").returncode == 0
    for words, code in ((("--name", "p", "--", "touch", "x"), 2), (("tx", "--name", "p", "--", "touch", "x"), 125)):
        done = agent_dev(*words)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.splitlines()[0] == "agent-dev: --name p: a session of that name is waiting here"
    assert len(agent_dev.sessions()) == 1
    assert not (agent_dev.repo / "x").exists()
    (tmp_path / "elsewhere").mkdir()
    assert agent_dev("--name", "p", "--", "touch", "x", cwd=tmp_path / "elsewhere").returncode == 0
    assert agent_dev("merge", "--all", agent_dev.sessions()[0]["session"]).returncode == 0
    assert agent_dev("--name", "p", "--", "touch", "x").returncode == 0  # that one is merged


def test_a_name_of_a_running_session_is_refused(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "true", "--name", "mine") as process:
        assert "is running here" in agent_dev("--name", "mine", "--", "true").stderr
        end(process)


def test_a_session_is_listed_in_its_own_repository_and_with_all(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev("--", "touch", "new")
    (tmp_path / "elsewhere").mkdir()
    assert agent_dev.sessions(cwd=tmp_path / "elsewhere") == []
    assert [row["root"] for row in agent_dev.sessions(everywhere=True, cwd=tmp_path / "elsewhere")] == [str(agent_dev.repo)]


@pytest.mark.parametrize("how", [("--all",), (), ("--plain",)], ids=str)
def test_a_running_session_cannot_be_merged(agent_dev: AgentDev, how: tuple[str, ...]) -> None:
    with waiting_agent(agent_dev, "touch new") as process:
        done = agent_dev("merge", *how)
        assert done.returncode == 1
        assert "still running" in done.stderr
        assert not (agent_dev.repo / "new").exists()
        end(process)


def test_one_session_can_be_merged_while_another_runs(agent_dev: AgentDev) -> None:
    agent_dev("--name", "one", "--", "touch", "new")
    with waiting_agent(agent_dev, "touch other") as process:
        assert agent_dev("merge", "one", "--all").returncode == 0
        assert (agent_dev.repo / "new").exists()
        end(process)
    assert agent_dev.changes() == {"other": "added"}


# States


def test_a_session_with_changes_waits(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    assert state(agent_dev) == ["waiting"]


def test_a_session_of_which_something_is_left_still_waits(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new", "other")
    assert agent_dev("merge", "--take", "new").returncode == 0
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"other": "added"})


def test_a_session_that_was_taken_whole_is_merged(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    agent_dev("merge", "--all")
    assert state(agent_dev) == ["merged"]
    assert agent_dev.sessions() == []


def test_a_discarded_session_lies_in_the_trash_with_all_it_held(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo kept >new")
    [session] = [row["session"] for row in agent_dev.sessions()]
    done = agent_dev("discard")
    assert done.returncode == 0, done.stderr
    assert agent_dev.sessions(everywhere=True) == []
    assert agent_dev.leavings() == [f"trash/{session}"]
    assert [path.read_text() for path in (agent_dev.state / "trash").rglob("new")] == ["kept\n"]
    record = json.loads((agent_dev.state / "trash" / session / "session.json").read_text())
    assert record["state"] == "discarded"
    assert not (agent_dev.repo / "new").exists()


def test_a_running_session_cannot_be_discarded(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "touch new") as process:
        assert agent_dev("discard").returncode == 1
        assert agent_dev.sessions()[0]["state"] == "running"
        end(process)
    assert agent_dev.changes() == {"new": "added"}


@pytest.mark.parametrize("verb", ["status", "merge", "discard", "resume", "stop", "commits"])
def test_a_session_that_does_not_exist_is_one_line_and_a_usage_error(agent_dev: AgentDev, verb: str) -> None:
    agent_dev("--", "touch", "new")
    done = agent_dev(verb, "no-such-session")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no session no-such-session" in done.stderr.splitlines()[0]


@pytest.mark.parametrize("verb", ["status", "merge", "discard", "resume", "stop", "commits", "diff"])
def test_without_any_session_a_word_changes_nothing_and_says_so(agent_dev: AgentDev, verb: str) -> None:
    done = agent_dev(verb)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no session of" in done.stderr
    assert not agent_dev.state.exists()


def test_without_a_name_the_newest_session_of_this_repository_is_meant(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "older")
    agent_dev("--", "touch", "newer")
    assert agent_dev.changes() == {"newer": "added"}


# Who looks keeps nobody out


def test_a_pager_that_shows_a_session_keeps_nobody_out(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "seq 100000 >long; echo new >new")
    with agent_dev.started("diff") as diff:
        assert diff.stdout is not None
        assert diff.stdout.readline().startswith("diff --git")  # more than a pipe takes: it waits for who reads
        assert agent_dev("status").returncode == 0
        assert agent_dev("merge", "--take", "new").returncode == 0
    assert (agent_dev.repo / "new").read_text() == "new\n"


def test_the_patch_of_a_session_can_be_piped_into_its_merge(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo more >>README.md; echo new >new")
    program = str(PROGRAM)
    words = ["sh", "-c", f"{program} diff | {program} merge --patch -"]
    done = subprocess.run(words, cwd=agent_dev.repo, env=agent_dev.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (agent_dev.repo / "new").read_text() == "new\n"


def test_a_session_that_another_agent_dev_has_open_is_said_to_be_that_and_not_to_run(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    [folder] = (agent_dev.state / "sessions").iterdir()
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        done = agent_dev("status")
        assert (done.returncode, done.stderr.splitlines()[0]) == (
            1,
            f"agent-dev: session {folder.name} is open in another agent-dev",
        )
    finally:
        os.close(fd)
    assert agent_dev("status").returncode == 0
