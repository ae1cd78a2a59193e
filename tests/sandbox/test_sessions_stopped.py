"""Sessions that are stopped, and sessions whose launcher was killed: the agent ends, and its work is kept."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from agent_dev.linux import pid_namespace as leftovers
from tests.harness.program import PROGRAM, AgentDev, inside, processes, wait_until
from tests.sandbox.waiting import WAIT, state, wait_gone, waiting_agent

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


def test_a_launcher_killed_while_the_base_is_taken_is_seen_to_be_and_what_comes_next_waits(
    agent_dev: AgentDev, tmp_path: Path
) -> None:
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    wait = f": >{asked}; until test -e {answered}; do sleep 0.02; done"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *ls-files*) {wait} ;; esac\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    words = ("--", "sh", "-c", f"echo more >>README.md; {WAIT}")
    with agent_dev.started(*words, env={"PATH": f"{slow.parent}:{agent_dev.env['PATH']}"}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until(asked.exists, "its base is being taken")
        process.kill()
        process.communicate(timeout=10)  # whoever reads its output waits for nobody else
    assert state(agent_dev) == ["killed"]
    assert "not merged" in agent_dev("--", "true").stderr
    with agent_dev.started("merge", "--all") as merging:
        answered.touch()
        _, said = merging.communicate(timeout=60)
    assert (merging.returncode, (agent_dev.repo / "README.md").read_text()) == (0, "# Shop\nmore\n"), said


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
