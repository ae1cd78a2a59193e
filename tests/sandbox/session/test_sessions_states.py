"""Concurrent and single sessions: their states and names, how they are listed, merged and discarded."""

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.sandbox.waiting import end, state, waiting_agent

# Concurrent sessions


def test_concurrent_sessions_do_not_see_each_others_changes(agent_dev: AgentDev) -> None:
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


def test_only_one_of_two_concurrent_runs_gets_the_name(agent_dev: AgentDev) -> None:
    words = ("--no-merge", "--name", "p", "--", "sh", "-c", "echo here; read line; :")
    for _ in range(5):
        with agent_dev.start(*words) as one, agent_dev.start(*words) as two:
            first = [process.stdout.readline() if process.stdout else "" for process in (one, two)]
            assert sorted(first) == ["", "here\n"]
            printed = one.communicate()[1] + two.communicate()[1]
            assert sorted((one.returncode, two.returncode)) in ([0, 2], [0, 125]), printed
            assert "--name p: " in printed
        assert agent_dev("--name", "p", "--", "true").returncode == 0


def test_the_name_of_an_open_session_of_this_repository_is_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    assert agent_dev("--name", "p", "--", "touch", "new").returncode == 0
    for words, code in ((("--name", "p", "--", "touch", "x"), 2), (("tx", "--name", "p", "--", "touch", "x"), 125)):
        done = agent_dev(*words)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.splitlines()[0] == "agent-dev: --name p: a waiting session of this repository has that name"
    assert len(agent_dev.sessions()) == 1
    assert not (agent_dev.repo / "x").exists()
    (tmp_path / "elsewhere").mkdir()
    assert agent_dev("--name", "p", "--", "touch", "x", cwd=tmp_path / "elsewhere").returncode == 0
    assert agent_dev("merge", "--all", agent_dev.sessions()[0]["session"]).returncode == 0
    assert agent_dev("--name", "p", "--", "touch", "x").returncode == 0  # the first one is merged, so its name is free


def test_the_name_of_a_running_session_is_refused(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "true", "--name", "mine") as process:
        assert agent_dev("--name", "mine", "--", "true").stderr.splitlines() == [
            "agent-dev: --name mine: a running session of this repository has that name",
            "agent-dev: hint: use another name, or first agent-dev stop mine",
        ]
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


def test_a_partly_merged_session_still_waits(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new", "other")
    assert agent_dev("merge", "--take", "new").returncode == 0
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"other": "added"})


def test_a_fully_merged_session_is_merged(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    agent_dev("merge", "--all")
    assert state(agent_dev) == ["merged"]
    assert agent_dev.sessions() == []


def test_a_discarded_session_is_in_the_trash_with_all_its_content(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo kept >new")
    [session] = [row["session"] for row in agent_dev.sessions()]
    done = agent_dev("discard")
    assert done.returncode == 0, done.stderr
    assert [(row["session"], row["state"]) for row in agent_dev.sessions(everywhere=True)] == [(session, "discarded")]
    assert agent_dev.session_directories() == [f"trash/{session}"]
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
def test_an_unknown_session_is_a_usage_error_in_one_line(agent_dev: AgentDev, verb: str) -> None:
    agent_dev("--", "touch", "new")
    done = agent_dev(verb, "no-such-session")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no session no-such-session" in done.stderr.splitlines()[0]


@pytest.mark.parametrize("verb", ["status", "merge", "discard", "resume", "stop", "commits", "diff"])
def test_without_any_session_a_verb_reports_it_and_changes_nothing(agent_dev: AgentDev, verb: str) -> None:
    done = agent_dev(verb)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no {'running' if verb == 'stop' else 'waiting'} session for" in done.stderr
    assert not agent_dev.state.exists()


def test_without_a_name_the_newest_session_of_this_repository_is_selected(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "older")
    agent_dev("--", "touch", "newer")
    assert agent_dev.changes() == {"newer": "added"}


# Readers do not lock a session


def test_a_pager_that_shows_a_session_does_not_lock_it(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "seq 100000 >long; echo new >new")
    with agent_dev.start("diff") as diff:
        assert diff.stdout is not None
        assert diff.stdout.readline().startswith("diff --git")  # the patch exceeds the pipe's capacity: `diff` still runs
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


@pytest.mark.parametrize("words", [("status",), ("diff",), ("commits",), ("commits", "--patch"), ("merge", "--html", "-")])
def test_a_session_on_another_screen_can_be_read_but_not_changed(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    agent_dev.do("--no-merge", "--", "sh", "-c", "echo new >new; git add new; git commit -qm Add")
    [folder] = (agent_dev.state / "sessions").iterdir()
    usual = agent_dev.do(*words)
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        busy = f"agent-dev: session {folder.name} is open in another agent-dev"
        done, refused = agent_dev(*words), agent_dev("merge", "--all")
    finally:
        os.close(fd)
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, f"{busy}; this is a snapshot")
    assert done.stdout == usual
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (1, busy)


def test_a_session_that_cannot_be_searched_hides_no_other(agent_dev: AgentDev) -> None:
    """One `sudo agent-dev` with the user's HOME leaves a session of root."""
    for name in ("one", "two"):
        agent_dev.do("--no-merge", "--name", name, "--", "touch", name)
    shut = agent_dev.state / "sessions" / str(agent_dev.sessions()[0]["session"])
    shut.chmod(0)
    try:
        for words in (("status", "two"), ("diff", "two"), ("clean",), ("doctor",), ("merge", "two", "--all"), ("undo",)):
            agent_dev.do(*words)
        states = {row["session"]: row["state"] for row in agent_dev.sessions()}
        assert states.pop(shut.name) == ("waiting" if os.geteuid() == 0 else "damaged")  # root may search everything
        assert [*states.values()] == ["waiting"]
    finally:
        shut.chmod(0o700)
    agent_dev.do("merge", "one", "--all")
