"""Stopped sessions, and sessions whose launcher was killed: the agent is ended, and its changes are kept."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from agent_dev.fs import checksummed_json
from agent_dev.linux import pid_namespace
from tests.harness.program import PROGRAM, AgentDev, processes, processes_inside, wait_until
from tests.harness.scale import repeat, seeded_random
from tests.sandbox.waiting import WAIT, state, wait_gone, waiting_agent

# Stopped sessions


def test_a_session_is_stopped_from_another_terminal_and_kept(agent_dev: AgentDev) -> None:
    marker = f"mark-{uuid4().hex}"
    with waiting_agent(agent_dev, f"touch new; : {marker}") as process:
        assert processes_inside(marker) != []
        done = agent_dev("stop")
        assert done.returncode == 0, done.stderr
        assert processes_inside(marker) == []
        process.wait(20)
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"new": "added"})


def test_a_stopped_session_that_changed_nothing_leaves_nothing(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev) as process:
        assert agent_dev("stop").returncode == 0
        process.wait(20)
    wait_until(lambda: agent_dev.session_directories() == [], "the state directory holds no session")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_ends_the_agent_and_keeps_the_session(agent_dev: AgentDev, number: signal.Signals) -> None:
    marker = f"mark-{uuid4().hex}"
    with waiting_agent(agent_dev, f"touch new; : {marker}") as process:
        process.send_signal(number)
        assert process.wait(20) == 128 + number
        assert processes_inside(marker) == []
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"new": "added"})


@pytest.mark.slow
def test_an_agent_that_ignores_sigterm_is_killed(agent_dev: AgentDev) -> None:
    marker = f"mark-{uuid4().hex}"
    with waiting_agent(agent_dev, f"trap '' TERM HUP INT; touch new; : {marker}; while :; do sleep 1; done & true") as process:
        process.terminate()
        assert process.wait(20) == 128 + signal.SIGTERM
        assert processes_inside(marker) == []
    assert agent_dev.changes() == {"new": "added"}


def test_an_agent_gets_sigterm_before_sigkill(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "trap 'echo saved >saved; exit' TERM") as process:
        process.terminate()
        process.wait(20)
    assert agent_dev.changes() == {"saved": "added"}


# Killed launchers


@contextmanager
def killed(agent_dev: AgentDev, script: str) -> Iterator[str]:
    """Yield the marker in the agent's command line, after its launcher was killed while the agent was waiting."""
    marker = f"mark-{uuid4().hex}"
    with waiting_agent(agent_dev, f"{script}; : {marker}") as process:
        assert len(processes(marker)) >= 2
        process.kill()
        process.wait(20)
        yield marker


def test_a_killed_launcher_kills_its_agent(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new; (setsid sleep 60 &)") as marker:
        wait_gone(marker)


def test_a_session_whose_launcher_was_killed_is_found(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new"):
        assert state(agent_dev) == ["killed"]


def test_the_next_start_reports_a_session_whose_launcher_was_killed(agent_dev: AgentDev) -> None:
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
        assert state(agent_dev) == ["discarded"]


def test_a_launcher_killed_during_the_lower_snapshot_is_detected(agent_dev: AgentDev, tmp_path: Path) -> None:
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    wait = f": >{asked}; until test -e {answered}; do sleep 0.02; done"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *ls-files*) {wait} ;; esac\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    words = ("--", "sh", "-c", f"echo more >>README.md; {WAIT}")
    with agent_dev.start(*words, env={"PATH": f"{slow.parent}:{agent_dev.env['PATH']}"}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until(asked.exists, "its base is being taken")
        process.kill()
        process.communicate(timeout=10)  # no remaining process holds the pipes open
    assert state(agent_dev) == ["killed"]
    assert "unmerged session here" in agent_dev("--", "true").stderr
    with agent_dev.start("merge", "--all") as merging:
        answered.touch()
        _, printed = merging.communicate(timeout=60)
    assert (merging.returncode, (agent_dev.repo / "README.md").read_text()) == (0, "# Shop\nmore\n"), printed


def test_processes_of_a_dead_launcher_are_ended_before_a_merge(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new"):
        [path] = (agent_dev.state / "sessions").glob("*/session.json")
        record = checksummed_json.loads(path.read_bytes())
        words = ["unshare", "--user", "--pid", "--fork", "sh", "-c", "echo ready; sleep 60"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as left:  # in place of an agent that survived
            assert left.stdout is not None
            assert left.stdout.readline() == b"ready\n"
            children = Path(f"/proc/{left.pid}/task/{left.pid}/children")
            inner = children.read_text().split()[0]
            life = pid_namespace.identify(int(inner), os.stat(f"/proc/{inner}/ns/pid").st_ino)
            path.write_bytes(checksummed_json.dumps({**record, "life": life.as_row()}))
            merged = agent_dev("merge", "--all")
            try:
                assert left.wait(5) != 0
            finally:
                left.kill()
        assert merged.returncode == 0
    assert (agent_dev.repo / "new").exists()


def test_an_unrelated_process_with_the_pid_of_a_dead_namespace_is_spared(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "touch new"):
        [path] = (agent_dev.state / "sessions").glob("*/session.json")
        record = checksummed_json.loads(path.read_bytes())
        words = ["unshare", "--user", "--pid", "--fork", "sh", "-c", "echo ready; sleep 60"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as stranger:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == b"ready\n"
            inner = int(Path(f"/proc/{stranger.pid}/task/{stranger.pid}/children").read_text().split()[0])
            life = pid_namespace.identify(inner, os.stat(f"/proc/{inner}/ns/pid").st_ino)
            path.write_bytes(checksummed_json.dumps({**record, "life": life.replace(start_time="1").as_row()}))
            try:
                assert agent_dev("merge", "--all").returncode == 0
                assert stranger.poll() is None
            finally:
                os.kill(inner, signal.SIGKILL)


def test_an_edit_of_the_user_after_the_launcher_was_killed_is_kept(agent_dev: AgentDev) -> None:
    with killed(agent_dev, "echo agent >README.md"):
        (agent_dev.repo / "README.md").write_text("user\n")
        assert agent_dev("merge", "--all").returncode == 1
        assert (agent_dev.repo / "README.md").read_text() == "user\n"


def test_a_launcher_killed_during_the_start_leaves_no_agent(agent_dev: AgentDev) -> None:
    moments = seeded_random()
    markers = []
    for _ in range(repeat(40)):
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


def test_the_log_names_the_limit_that_ended_a_session(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--limit", "time=2s", "--", "sh", "-c", "touch x; sleep 300")
    assert " (stopped: reached the limit time=2s): 1 change\n" in agent_dev.do("log")
    last = json.loads(agent_dev.do("log", "--json"))["events"][-1]
    assert (last["event"], last["limit"]) == ("end", "stopped: reached the limit time=2s")
