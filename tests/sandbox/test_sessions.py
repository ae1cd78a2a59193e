"""Sessions: several at once, listed, resumed, stopped, discarded, killed; what each leaves, and what it says."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from agent_dev.host import leftovers
from tests.harness.program import PROGRAM, AgentDev, inside, processes, tree, wait_until

WAIT = "echo ready; read line"


@contextmanager
def waiting_agent(agent_dev: AgentDev, script: str = "true", *options: str) -> Iterator["subprocess.Popen[str]"]:
    """An agent that has done something and waits for a line on its input."""
    with agent_dev.started(*options, "--", "sh", "-c", f"{script}; {WAIT}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def end(process: "subprocess.Popen[str]") -> str:
    """Let a waiting agent go on to its end; return what agent-dev said."""
    _, said = process.communicate("\n", timeout=20)
    return said


def wait_gone(marker: str) -> None:
    """Wait until no process is left that has a marker in its command line."""
    wait_until(lambda: processes(marker) == [], f"every process with {marker} is gone")


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


def test_a_session_is_listed_in_its_own_repository_and_with_all(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev("--", "touch", "new")
    (tmp_path / "elsewhere").mkdir()
    assert agent_dev.sessions(cwd=tmp_path / "elsewhere") == []
    assert [row["root"] for row in agent_dev.sessions(everywhere=True, cwd=tmp_path / "elsewhere")] == [str(agent_dev.repo)]


def test_a_running_session_cannot_be_merged(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "touch new") as process:
        done = agent_dev("merge", "--all")
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


def state(agent_dev: AgentDev) -> list[str]:
    return [row["state"] for row in agent_dev.sessions(everywhere=True)]


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


# What is said


def test_starting_while_another_session_waits_says_so_in_one_line(agent_dev: AgentDev) -> None:
    agent_dev("--name", "first", "--", "touch", "new")
    done = agent_dev("--", "true")
    assert len(done.stderr.splitlines()) == 1
    assert "first" in done.stderr


def test_starting_beside_a_running_session_says_nothing_of_waiting(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "touch new") as process:
        assert agent_dev("--", "true").stderr == ""
        end(process)


@pytest.mark.parametrize("code", [0, 3])
def test_an_exit_that_leaves_changes_prints_the_id_and_the_exact_commands(agent_dev: AgentDev, code: int) -> None:
    done = agent_dev("--", "sh", "-c", f"touch new; exit {code}")
    [session] = [row["session"] for row in agent_dev.sessions()]
    for verb in ("diff", "merge", "discard"):
        assert f"agent-dev {verb} {session}" in done.stderr
    assert done.stdout == ""


def test_an_exit_by_a_signal_that_leaves_changes_prints_the_commands_too(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "touch new; kill -9 $$")
    [session] = [row["session"] for row in agent_dev.sessions()]
    assert f"merge {session}" in done.stderr


def test_the_commands_that_were_printed_work(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    [session] = [row["session"] for row in agent_dev.sessions()]
    assert "new" in agent_dev("status", session).stdout
    assert "new" in agent_dev("diff", session).stdout
    assert agent_dev("discard", session).returncode == 0


# A session without changes


def test_a_session_without_changes_says_nothing(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "cat README.md >/dev/null; git status >/dev/null; mkdir x; rmdir x")
    assert (done.stdout, done.stderr) == ("", "")


def test_a_session_without_changes_leaves_nothing(agent_dev: AgentDev) -> None:
    marker = f"mark-{uuid4().hex}"
    before = tree(agent_dev.repo)
    agent_dev("--", "sh", "-c", f": {marker}; (sleep 60 &) ; git status >/dev/null")
    wait_until(lambda: agent_dev.leavings() == [], "the state directory holds no session")
    wait_until(lambda: list(tree(agent_dev.agent_home)) == ["."], "the agent home is empty")
    wait_gone(marker)
    assert tree(agent_dev.repo) == before


def test_a_session_that_only_stood_elsewhere_leaves_nothing(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "git", "checkout", "-q", "--detach")
    assert (done.stdout, done.stderr) == ("", "")
    wait_until(lambda: agent_dev.leavings() == [], "nothing is left of the session")


def test_a_branch_on_a_commit_of_the_users_is_kept_and_counted_as_no_commit(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "git", "branch", "side")
    assert "0 changes\n" in done.stderr
    assert "no commits; branches or tags that moved: 1" in done.stderr
    assert "agent-dev merge" not in done.stderr  # there is nothing to merge
    assert "no commits\nbranch side: new, nothing → " in agent_dev("commits").stdout
    assert agent_dev.status()["commits"] == []


@pytest.mark.parametrize("count", [1, 2])
def test_as_many_commits_are_said_as_are_listed(agent_dev: AgentDev, count: int) -> None:
    done = agent_dev("--", "sh", "-c", "git branch side; " + "git commit -q --allow-empty -m One; " * count)
    assert f"0 changes, {count} commit{'s' * (count > 1)}\n" in done.stderr
    assert len(agent_dev.status()["commits"]) == count


def test_where_nothing_can_be_merged_no_screen_is_wanted(agent_dev: AgentDev) -> None:
    agent_dev("--", "git", "commit", "-q", "--allow-empty", "-m", "One")
    done = agent_dev("merge")
    assert (done.returncode, done.stderr) == (0, "agent-dev: there is nothing to merge\n")


def test_a_long_session_without_changes_leaves_nothing(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev) as process:
        wait_until(lambda: list((agent_dev.state / "sessions").glob("*/base/*")), "its base was begun")
        assert end(process) == ""
    wait_until(lambda: agent_dev.leavings() == [], "the state directory holds no session")


def test_what_runs_in_the_background_ends_with_the_agent(agent_dev: AgentDev) -> None:
    marker = uuid4().hex  # put together inside, so that the launcher's own command line does not hold it
    last = f'"sleep 30; : ${{MARK}}{marker}"'
    script = f"MARK=mark-; (setsid sh -c {last} &) ; (nohup sh -c {last} >/dev/null 2>&1 &) ; sleep 0.1; cat /proc/[0-9]*/cmdline"
    done = agent_dev("--", "sh", "-c", script)
    assert inside(f"mark-{marker}") == []
    assert done.stdout.count(f"mark-{marker}") >= 2  # they had been there


def test_nothing_is_written_after_the_session_is_over(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "(while :; do date +%N >now; done) & sleep 0.1")
    [upper] = (agent_dev.state / "sessions").glob("*/roots/0/upper")
    before = (upper / "now").stat().st_mtime_ns
    time.sleep(0.05)
    assert (upper / "now").stat().st_mtime_ns == before


# Exit codes


@pytest.mark.parametrize("script", ["exit 0", "exit 3", "exit 1", "exit 125", "exit 127", "exit 255"])
@pytest.mark.parametrize("changes", ["", "touch new; "], ids=["unchanged", "changed"])
def test_the_agents_exit_code_is_kept(agent_dev: AgentDev, script: str, changes: str) -> None:
    assert agent_dev("--", "sh", "-c", changes + script).returncode == int(script.split()[1])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGPIPE])
def test_an_agent_that_dies_by_a_signal_gives_128_and_its_number(agent_dev: AgentDev, number: int) -> None:
    assert agent_dev("--", "sh", "-c", f"kill -{int(number)} $$").returncode == 128 + number


# Resuming


def test_a_resumed_agent_sees_its_own_earlier_changes(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo mine >new; echo more >>README.md; rm sub/app.py; git add -A; git commit -qm Mine")
    done = agent_dev("resume", "--", "sh", "-c", "cat new README.md; ls sub; git log -1 --format=%s")
    assert done.stdout == "mine\n# Shop\nmore\ndeep\nMine\n", done.stderr


def test_a_resumed_agent_sees_the_users_later_edits_of_other_files(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo mine >new; cat sub/app.py >/dev/null")
    (agent_dev.repo / "sub/app.py").write_text("print('three')\n")
    (agent_dev.repo / "sub/later.py").write_text("later\n")
    done = agent_dev("resume", "--", "cat", "sub/app.py", "sub/later.py")
    assert done.stdout == "print('three')\nlater\n"


def test_the_users_later_edits_are_not_the_resumed_agents_changes(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    (agent_dev.repo / "sub/app.py").write_text("print('three')\n")
    agent_dev("resume", "--", "touch", "newer")
    assert agent_dev.changes() == {"new": "added", "newer": "added"}


def test_a_resumed_session_runs_its_own_command_again(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo x >>counted; wc -l <counted")
    assert agent_dev("resume").stdout == "2\n"


def test_a_resumed_session_starts_where_it_was_started(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new", cwd=agent_dev.repo / "sub")
    assert agent_dev("resume", "--", "pwd").stdout == f"{agent_dev.repo}/sub\n"


def test_a_resumed_session_gives_the_agents_exit_code(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    assert agent_dev("resume", "--", "sh", "-c", "exit 7").returncode == 7


def test_a_session_that_cannot_be_resumed_stays_as_it_was(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    assert agent_dev("resume", "--", "no-such-command").returncode == 127
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"new": "added"})


def test_a_resumed_agent_that_undoes_all_leaves_nothing(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    agent_dev("resume", "--", "rm", "new")
    wait_until(lambda: agent_dev.leavings() == [], "the state directory holds no session")


def test_a_running_session_cannot_be_resumed(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "true", "--name", "one") as process:
        done = agent_dev("resume", "one", "--", "echo", "ran")
        assert (done.returncode, done.stdout) == (1, "")
        end(process)


# Stopping


def test_a_session_is_stopped_from_another_terminal_and_kept(agent_dev: AgentDev) -> None:
    marker = f"mark-{uuid4().hex}"
    with waiting_agent(agent_dev, f"touch new; : {marker}") as process:
        assert inside(marker) != []
        done = agent_dev("stop")
        assert done.returncode == 0, done.stderr
        assert inside(marker) == []
        process.wait(20)
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"new": "added"})


def test_a_stopped_session_that_changed_nothing_leaves_nothing(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev) as process:
        assert agent_dev("stop").returncode == 0
        process.wait(20)
    wait_until(lambda: agent_dev.leavings() == [], "the state directory holds no session")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_ends_the_agent_and_keeps_the_session(agent_dev: AgentDev, number: signal.Signals) -> None:
    marker = f"mark-{uuid4().hex}"
    with waiting_agent(agent_dev, f"touch new; : {marker}") as process:
        process.send_signal(number)
        assert process.wait(20) == 128 + number
        assert inside(marker) == []
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"new": "added"})


def test_an_agent_that_will_not_end_is_ended(agent_dev: AgentDev) -> None:
    marker = f"mark-{uuid4().hex}"
    with waiting_agent(agent_dev, f"trap '' TERM HUP INT; touch new; : {marker}; while :; do sleep 1; done & true") as process:
        process.terminate()
        assert process.wait(20) == 128 + signal.SIGTERM
        assert inside(marker) == []
    assert agent_dev.changes() == {"new": "added"}


def test_an_agent_is_asked_to_end_before_it_is_ended(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "trap 'echo saved >saved; exit' TERM") as process:
        process.terminate()
        process.wait(20)
    assert agent_dev.changes() == {"saved": "added"}


# A launcher that was killed


@contextmanager
def killed(agent_dev: AgentDev, script: str) -> Iterator[str]:
    """A session whose launcher was killed while its agent waited; gives the marker in its command line."""
    marker = f"mark-{uuid4().hex}"
    with waiting_agent(agent_dev, f"{script}; : {marker}") as process:
        assert len(processes(marker)) >= 2
        process.kill()
        process.wait(20)
        yield marker


def test_a_killed_launcher_takes_its_agent_along(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new; (setsid sleep 60 &)") as marker:
        wait_gone(marker)


def test_a_session_whose_launcher_was_killed_is_found(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new"):
        assert state(agent_dev) == ["killed"]


def test_a_session_whose_launcher_was_killed_is_said_at_the_next_start(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new"):
        [session] = [row["session"] for row in agent_dev.sessions()]
        done = agent_dev("--", "true")
        assert session in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_session_whose_launcher_was_killed_can_be_merged(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "echo kept >new; echo more >>README.md"):
        assert agent_dev.changes() == {"README.md": "edited", "new": "added"}
        done = agent_dev("merge", "--all")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (agent_dev.repo / "new").read_text() == "kept\n"
        assert (agent_dev.repo / "README.md").read_text() == "# Shop\nmore\n"


def test_a_session_whose_launcher_was_killed_can_be_resumed(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "echo kept >new"):
        done = agent_dev("resume", "--", "sh", "-c", "cat new; echo more >>new")
        assert done.stdout == "kept\n", done.stderr
        assert state(agent_dev) == ["waiting"]


def test_a_session_whose_launcher_was_killed_can_be_discarded(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new"):
        assert agent_dev("discard").returncode == 0
        assert state(agent_dev) == []


def test_what_a_dead_launcher_left_running_is_ended_before_a_merge(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new"):
        [path] = (agent_dev.state / "sessions").glob("*/session.json")
        record = json.loads(path.read_text())
        words = ["unshare", "--user", "--pid", "--fork", "sh", "-c", "echo ready; sleep 60"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as left:  # stands for an agent that lived on
            assert left.stdout is not None
            assert left.stdout.readline() == b"ready\n"
            children = Path(f"/proc/{left.pid}/task/{left.pid}/children")
            inner = children.read_text().split()[0]
            life = leftovers.life(int(inner), os.stat(f"/proc/{inner}/ns/pid").st_ino)
            path.write_text(json.dumps({**record, "life": life.as_row()}))
            merged = agent_dev("merge", "--all")
            try:
                assert left.wait(5) != 0
            finally:
                left.kill()
        assert merged.returncode == 0
    assert (agent_dev.repo / "new").exists()


def test_a_stranger_with_the_number_of_a_dead_namespace_is_left_alone(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new"):
        [path] = (agent_dev.state / "sessions").glob("*/session.json")
        record = json.loads(path.read_text())
        words = ["unshare", "--user", "--pid", "--fork", "sh", "-c", "echo ready; sleep 60"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as stranger:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == b"ready\n"
            inner = int(Path(f"/proc/{stranger.pid}/task/{stranger.pid}/children").read_text().split()[0])
            life = leftovers.life(inner, os.stat(f"/proc/{inner}/ns/pid").st_ino)
            path.write_text(json.dumps({**record, "life": life.but(started="1").as_row()}))
            try:
                assert agent_dev("merge", "--all").returncode == 0
                assert stranger.poll() is None
            finally:
                os.kill(inner, signal.SIGKILL)


def test_what_the_user_edits_after_the_launcher_was_killed_is_not_overwritten(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "echo agent >README.md"):
        (agent_dev.repo / "README.md").write_text("user\n")
        assert agent_dev("merge", "--all").returncode == 1
        assert (agent_dev.repo / "README.md").read_text() == "user\n"


def test_a_launcher_killed_while_it_starts_leaves_no_agent(agent_dev: AgentDev) -> None:
    seed = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"AGENT_DEV_TEST_SEED={seed}")  # noqa: T201  (shown when it fails)
    moments = random.Random(seed)  # noqa: S311  (moments, not secrets)
    markers = []
    for _ in range(int(os.environ.get("AGENT_DEV_TEST_KILLS", "40"))):
        marker = f"mark-{uuid4().hex}"
        words = [str(PROGRAM), "--", "sh", "-c", f"sleep 60; : {marker}"]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            words, cwd=agent_dev.repo, env=agent_dev.environment(), stdin=quiet, stdout=quiet, stderr=quiet
        ) as process:
            time.sleep(moments.uniform(0, 0.080))
            process.kill()
        markers.append(marker)
    for marker in markers:
        wait_gone(marker)
    assert agent_dev("--", "echo", "works").stdout == "works\n"
    assert set(state(agent_dev)) <= {"killed"}


# Identity

OWN = "[user]\n\tname = Agent Smith\n\temail = smith@example.invalid\n"


def author(agent_dev: AgentDev) -> str:
    done = agent_dev("--", "sh", "-c", "git commit -q --allow-empty -m x && git log -1 --format='%an <%ae>, %cn <%ce>'")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_agent_commits_with_the_users_identity(agent_dev: AgentDev) -> None:
    assert author(agent_dev) == "Ada Lovelace <ada@example.invalid>, Ada Lovelace <ada@example.invalid>"


def test_the_repositorys_own_identity_comes_before_the_users(agent_dev: AgentDev) -> None:
    agent_dev.git("config", "user.name", "Ada at Work")
    agent_dev.git("config", "user.email", "ada@work.invalid")
    assert author(agent_dev).startswith("Ada at Work <ada@work.invalid>")


def test_an_identity_for_repositories_below_a_directory_is_found(agent_dev: AgentDev) -> None:
    (agent_dev.home / "work.gitconfig").write_text("[user]\n\temail = ada@included.invalid\n")
    with (agent_dev.home / ".gitconfig").open("a") as file:
        file.write(f'[includeIf "gitdir:{agent_dev.home}/src/"]\n\tpath = work.gitconfig\n')
    assert author(agent_dev).startswith("Ada Lovelace <ada@included.invalid>")


def test_the_agents_own_identity_wins(agent_dev: AgentDev) -> None:
    agent_dev.agent_home.mkdir()
    (agent_dev.agent_home / ".gitconfig").write_text(OWN)
    assert author(agent_dev).startswith("Agent Smith <smith@example.invalid>")


def test_without_any_identity_of_the_users_the_agent_can_commit(agent_dev: AgentDev) -> None:
    (agent_dev.home / ".gitconfig").unlink()
    assert "@" in author(agent_dev)


def test_a_name_with_marks_of_the_format_comes_in_whole(agent_dev: AgentDev) -> None:
    agent_dev.git("config", "--global", "user.name", 'Ada "the \\ #1; Count" Löv')
    outside = agent_dev.git("var", "GIT_AUTHOR_IDENT").split(" <")[0]
    assert author(agent_dev).split(" <")[0] == outside


def test_nothing_else_of_the_users_git_configuration_is_visible(agent_dev: AgentDev) -> None:
    with (agent_dev.home / ".gitconfig").open("a") as file:
        file.write('[credential]\n\thelper = store --file=/canary\n[url "https://canary@host/"]\n\tinsteadOf = canary\n')
    done = agent_dev("--", "git", "config", "--list", "--show-scope")
    outer = [line.split("\t", 1)[1] for line in done.stdout.splitlines() if not line.startswith("local")]
    keys = {line.split("=")[0] for line in outer}
    assert {key for key in keys if not key.startswith("filter.lfs.")} == {"user.name", "user.email"}  # some systems set it
