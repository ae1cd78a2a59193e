"""The end of a session: its messages, no remains without changes, and the agent's exit code."""

import signal
import time
from uuid import uuid4

import pytest

from tests.harness.program import AgentDev, processes_inside, tree, wait_until
from tests.sandbox.waiting import end, wait_gone, waiting_agent

# Messages


def test_a_start_reports_a_waiting_session_in_one_line(agent_dev: AgentDev) -> None:
    agent_dev("--name", "first", "--", "touch", "new")
    done = agent_dev("--", "true")
    assert len(done.stderr.splitlines()) == 1
    assert "first" in done.stderr


def test_a_start_during_a_running_session_reports_no_waiting_session(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "touch new") as process:
        assert agent_dev("--", "true").stderr == ""
        end(process)


@pytest.mark.parametrize("code", [0, 3])
def test_an_exit_with_changes_prints_the_id_and_the_exact_commands(agent_dev: AgentDev, code: int) -> None:
    done = agent_dev("--", "sh", "-c", f"touch new; exit {code}")
    [session] = [row["session"] for row in agent_dev.sessions()]
    for verb in ("diff", "merge", "discard"):
        assert f"agent-dev {verb} {session}" in done.stderr
    assert done.stdout == ""


def test_an_exit_by_a_signal_with_changes_prints_the_commands_too(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "touch new; kill -9 $$")
    [session] = [row["session"] for row in agent_dev.sessions()]
    assert f"merge {session}" in done.stderr


def test_the_printed_commands_work(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    [session] = [row["session"] for row in agent_dev.sessions()]
    assert "new" in agent_dev("status", session).stdout
    assert "new" in agent_dev("diff", session).stdout
    assert agent_dev("discard", session).returncode == 0


# Sessions without changes


def test_a_session_without_changes_prints_nothing(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "cat README.md >/dev/null; git status >/dev/null; mkdir x; rmdir x")
    assert (done.stdout, done.stderr) == ("", "")


def test_a_session_without_changes_leaves_nothing(agent_dev: AgentDev) -> None:
    marker = f"mark-{uuid4().hex}"
    before = tree(agent_dev.repo)
    agent_dev("--", "sh", "-c", f": {marker}; (sleep 60 &) ; git status >/dev/null")
    wait_until(lambda: agent_dev.session_directories() == [], "the state directory holds no session")
    wait_until(lambda: list(tree(agent_dev.agent_home)) == ["."], "the agent home is empty")
    wait_gone(marker)
    assert tree(agent_dev.repo) == before


def test_a_session_that_only_checked_out_elsewhere_leaves_nothing(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "git", "checkout", "-q", "--detach")
    assert (done.stdout, done.stderr) == ("", "")
    wait_until(lambda: agent_dev.session_directories() == [], "nothing is left of the session")


def test_a_branch_on_a_commit_of_the_user_is_kept_and_not_counted(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "git", "branch", "side")
    assert "0 changes\n" in done.stderr
    assert "no commits; moved branches or tags: 1" in done.stderr
    assert "agent-dev merge" not in done.stderr  # nothing can be merged
    assert "no commits\nbranch side: new, nothing → " in agent_dev("commits").stdout
    assert agent_dev.status()["commits"] == []


@pytest.mark.parametrize("count", [1, 2])
def test_the_reported_number_of_commits_is_the_number_listed(agent_dev: AgentDev, count: int) -> None:
    done = agent_dev("--", "sh", "-c", "git branch side; " + "git commit -q --allow-empty -m One; " * count)
    assert f"0 changes, {count} commit{'s' * (count > 1)}\n" in done.stderr
    assert len(agent_dev.status()["commits"]) == count


def test_without_mergeable_changes_no_screen_is_opened(agent_dev: AgentDev) -> None:
    agent_dev("--", "git", "commit", "-q", "--allow-empty", "-m", "One")
    done = agent_dev("merge")
    assert (done.returncode, done.stderr) == (0, "agent-dev: nothing to merge\n")


def test_a_long_session_without_changes_leaves_nothing(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev) as process:
        wait_until(lambda: list((agent_dev.state / "sessions").glob("*/base/*")), "its base was begun")
        assert end(process) == ""
    wait_until(lambda: agent_dev.session_directories() == [], "the state directory holds no session")


def test_background_processes_end_with_the_agent(agent_dev: AgentDev) -> None:
    marker = uuid4().hex  # completed inside, so that it is not in the launcher's own command line
    last = f'"sleep 30; : ${{MARK}}{marker}"'
    both = f'test "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n" | grep -c "sleep 30; : $MARK{marker}")" -ge 2'
    script = f"MARK=mark-; (setsid sh -c {last} &) ; (nohup sh -c {last} >/dev/null 2>&1 &) ; until {both}; do :; done; echo both"
    done = agent_dev("--", "sh", "-c", script)
    assert processes_inside(f"mark-{marker}") == []
    assert done.stdout == "both\n"  # both had been running


def test_nothing_is_written_after_the_session_ends(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "(while :; do date +%N >now; done) & until test -s now; do :; done")
    [upper] = (agent_dev.state / "sessions").glob("*/roots/0/upper")
    before = (upper / "now").stat().st_mtime_ns
    time.sleep(0.05)
    assert (upper / "now").stat().st_mtime_ns == before


# Exit codes


@pytest.mark.parametrize("script", ["exit 0", "exit 3", "exit 1", "exit 125", "exit 127", "exit 255"])
@pytest.mark.parametrize("changes", ["", "touch new; "], ids=["unchanged", "changed"])
def test_the_agents_exit_code_is_preserved(agent_dev: AgentDev, script: str, changes: str) -> None:
    assert agent_dev("--", "sh", "-c", changes + script).returncode == int(script.split()[1])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGPIPE])
def test_an_agent_killed_by_a_signal_exits_with_128_plus_its_number(agent_dev: AgentDev, number: int) -> None:
    assert agent_dev("--", "sh", "-c", f"kill -{int(number)} $$").returncode == 128 + number


@pytest.fixture
def duplicate(agent_dev: AgentDev) -> str:
    """Merge one of two sessions with the same changes; return the name of the other."""
    for name in ("one", "two"):
        agent_dev("--no-merge", "--name", name, "--", "sh", "-c", "echo same >>README.md; echo new >new; rm -f sub/app.py")
    agent_dev.do("merge", "one", "--all")
    return "two"


@pytest.mark.parametrize("option", [None, "--all", "--plain"])
def test_merging_what_is_already_applied_ends_the_session(agent_dev: AgentDev, duplicate: str, option: str | None) -> None:
    before = tree(agent_dev.repo)
    assert "all changes are already in the working tree" in agent_dev.do("status", duplicate)
    done = agent_dev("merge", duplicate, *filter(None, (option,)))
    assert done.returncode == 0
    assert "all changes of this session are already in the working tree" in done.stderr
    assert "agent-dev: session two was discarded; agent-dev undiscard two restores it\n" in done.stderr
    assert (tree(agent_dev.repo), agent_dev("sessions").stdout) == (before, "no running or waiting sessions\n")

    agent_dev.do("undiscard", duplicate)
    agent_dev.do("undo")
    assert "3 changes merged" in agent_dev.do("merge", duplicate, "--all")


def test_a_dry_run_of_what_is_already_applied_keeps_the_session(agent_dev: AgentDev, duplicate: str) -> None:
    done = agent_dev("merge", duplicate, "--all", "--dry-run")
    assert (done.returncode, "already in the working tree" in done.stderr) == (0, True)
    assert "two" in agent_dev("sessions").stdout


def test_a_session_with_a_stash_is_not_ended_by_a_merge(agent_dev: AgentDev) -> None:
    script = "echo x >>README.md; git -c user.name=a -c user.email=a@b stash -q; echo new >new"
    agent_dev.do("--no-merge", "--", "sh", "-ec", script)
    assert agent_dev.changes() == {"new": "added"}
    (agent_dev.repo / "new").write_text("new\n")
    assert agent_dev("merge", "--all").returncode == 0
    assert [one["state"] for one in agent_dev.sessions()] == ["waiting"]
