"""Kill a process of a run at each step of its start and end: nothing is left that the next start does not remove."""

import os
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest

from tests.harness.loop_disk import OTHER_TESTS_MOUNT
from tests.harness.program import AgentDev, processes, tree, wait_until
from tests.harness.scale import repeat

POINTS = repeat(20)  # number of a run's steps that are tried; 1000 tries all
REPOSITORY = Path(__file__).parents[2]
# Each process of the run counts its calls of functions that change something, and the selected one is killed before one of them.
# `0` is the launcher, `0.1` the first process that it forks, the setup process, and `0.1.1` the one that becomes bubblewrap.
PROGRAM = """#!{python}
import os, sys
sys.path.insert(0, {root!r})
SEEN = frozenset((
    "mkdir", "rename", "replace", "link", "symlink", "unlink", "rmdir", "remove", "truncate", "ftruncate", "chmod", "fchmod",
    "setxattr", "removexattr", "open", "write", "fsync", "fork", "posix_spawn", "pipe", "pipe2", "pidfd_open", "kill", "waitpid",
    "waitid", "setpgid", "tcsetpgrp", "close", "flock", "read", "dup2", "utime", "memfd_create"))
wanted, step, counts = os.environ["WHO"], int(os.environ["STEP"]), os.environ.get("COUNT")
me, count, forks = "0", 0, 0
def look(frame, event, called):
    global count
    if event == "c_call" and called.__name__ in SEEN and called.__module__ in ("posix", "fcntl"):
        count += 1
        if count == step and me == wanted:
            os.kill(os.getpid(), 9)
def forking():
    global forks
    forks += 1
def forked():
    global me, count, forks
    me, count, forks = f"{{me}}.{{forks}}", 0, 0
os.register_at_fork(before=forking, after_in_child=forked)
def noting(leave):
    def left(*words):
        sys.setprofile(None)
        if counts:
            file = os.open(counts, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(file, f"{{me}} {{count}}\\n".encode())
            os.close(file)
        leave(*words)
    return left
os._exit, os.execve = noting(os._exit), noting(os.execve)
from agent_dev.cli.main import main
sys.setprofile(look)
main()
"""


def mounts() -> list[str]:
    """Return the host's mounts, except those of other running tests."""
    found = (line.split(" ", 4)[-1] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return sorted(line for line in found if not OTHER_TESTS_MOUNT.search(line))


def ours() -> set[str]:
    """Return the paths named after agent-dev in the directories where any program creates files."""
    return {f"{place}/{name}" for place in ("/tmp", "/var/tmp", "/dev/shm", "/run") for name in _names(place)}


def _names(place: str) -> list[str]:
    # Other running tests use longer prefixes.
    return [name for name in os.listdir(place) if name.startswith((".agent-dev", "agent-dev.")) or name == "agent-dev"]


@pytest.fixture
def stepped(tmp_path: Path) -> Path:
    """Return the path of the program that is killed at a step."""
    path = tmp_path / "stepped"
    path.write_text(PROGRAM.format(python=sys.executable, root=str(REPOSITORY)))
    path.chmod(0o755)
    return path


def run(agent_dev: AgentDev, program: Path, marker: str, who: str, step: int, **env: str) -> int:
    """Run an agent that changes a file, kill one of the run's processes at a step, and return the launcher's exit status."""
    words = [str(program), "--no-merge", "--", "sh", "-c", "echo new >new; sleep 0.05", marker]
    environ = agent_dev.environment({"WHO": who, "STEP": str(step), **env})
    done = subprocess.run(words, cwd=agent_dev.repo, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode


def counted(agent_dev: AgentDev, program: Path, folder: Path) -> dict[str, int]:
    """Return the number of steps of each process of a run."""
    for number in range(2):  # the very first start does more
        assert run(agent_dev, program, "counted", "", 0, COUNT=str(folder / f"count{number}")) == 0
        agent_dev("discard")
    assert agent_dev("--", "true").returncode == 0
    wait_until(lambda: not unswept(agent_dev), "the run that changed nothing is gone", 60)
    rows = (line.split() for line in (folder / "count1").read_text().splitlines())
    for number in range(2):
        (folder / f"count{number}").unlink()
    return {who: int(count) for who, count in rows}


def rest(agent_dev: AgentDev) -> dict[str, str]:
    """Return the content of the user's home, except the agent home."""
    return {path: what for path, what in tree(agent_dev.home).items() if not f"{path}/".startswith("aihome/")}


def kept(agent_dev: AgentDev) -> set[str]:
    """Return the paths in the state and cache directories, except the trash and the records about agent homes."""
    found = (place for top in (agent_dev.state, agent_dev.home.parent / "cache") for place in os.walk(top))
    names = (f"{place}/{name}" for place, folders, files in found for name in (*folders, *files))
    return {name for name in names if not name.startswith((f"{agent_dev.state}/trash/", f"{agent_dev.state}/homes/"))}


def unswept(agent_dev: AgentDev) -> list[str]:
    """Return the paths that the next start removes: sessions without a record, and unfinished removals."""
    sessions = (path for path in agent_dev.session_directories() if path.startswith("sessions/"))
    unborn = [path for path in sessions if not (agent_dev.state / path / "session.json").exists()]
    return unborn + [path for path in agent_dev.session_directories() if path.startswith("gone/")]


@pytest.mark.parametrize("which", ["launcher", "others"])
def test_a_run_killed_at_each_step_of_start_and_end_leaves_nothing(
    agent_dev: AgentDev, stepped: Path, tmp_path: Path, which: str
) -> None:
    marker, steps = f"marker-{token_hex(6)}", counted(agent_dev, stepped, tmp_path)
    chosen = {who: steps[who] for who in steps if (who == "0") == (which == "launcher")}
    assert sum(chosen.values()) > 60
    points = [(who, step) for who, count in sorted(chosen.items()) for step in range(1, count + 1)]
    home, host, temporary, folders = rest(agent_dev), mounts(), ours(), sorted(os.listdir(tmp_path))
    agents, store = tree(agent_dev.agent_home), kept(agent_dev)
    for at in points[:: max(1, len(points) // POINTS)]:
        code = run(agent_dev, stepped, marker, *at)
        # How often the launcher polls the agent differs between runs.
        assert which == "others" or code == -9 or (code == 0 and at[1] > 0.5 * chosen["0"]), at
        wait_until(lambda: not processes(marker), f"every process is gone after step {at}", 60)
        assert agent_dev("--", "true").returncode == 0, at
        wait_until(lambda: not unswept(agent_dev), f"the next start sweeps what is left of step {at}", 60)
        assert rest(agent_dev) == home, at
        assert not [one for one in mounts() if one not in host], at  # other tests unmount theirs
        assert ours() == temporary, at
        assert sorted(os.listdir(tmp_path)) == folders, at
        wait_until(lambda: tree(agent_dev.agent_home) == agents, f"the agent home is as it was after step {at}", 60)
        for session in agent_dev.sessions():
            assert session["state"] in ("waiting", "killed"), at
            assert agent_dev("discard", session["session"]).returncode == 0, at
        wait_until(lambda: kept(agent_dev) == store, f"state and cache as before step {at}: {kept(agent_dev) ^ store}", 60)
