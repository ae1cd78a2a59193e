"""The launcher killed at each step of a start and of an end: nothing is left but what the next start takes away."""

import os
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest

from tests.harness.program import AgentDev, processes, tree, wait_until

POINTS = int(os.environ.get("AGENT_DEV_TEST_POINTS", "40"))  # how many of a run's steps are tried
REPOSITORY = Path(__file__).parents[2]
# It counts the calls of the kernel that change something, in the launcher alone, and ends it before the one that is wanted.
PROGRAM = """#!{python}
import os, sys
sys.path.insert(0, {root!r})
SEEN = frozenset((
    "mkdir", "rename", "replace", "link", "symlink", "unlink", "rmdir", "remove", "truncate", "ftruncate", "chmod", "fchmod",
    "setxattr", "removexattr", "open", "write", "fsync", "fork", "posix_spawn", "pipe", "pipe2", "pidfd_open", "kill", "waitpid",
    "waitid", "setpgid", "tcsetpgrp", "close", "flock", "read", "dup2", "utime", "memfd_create"))
wanted, launcher, count = int(os.environ["STEP"]), os.getpid(), 0
def look(frame, event, called):
    global count
    if event == "c_call" and called.__name__ in SEEN and called.__module__ in ("posix", "fcntl") and os.getpid() == launcher:
        count += 1
        if count == wanted:
            os.kill(launcher, 9)
leave = os._exit
def left(code):
    if os.getpid() == launcher and os.environ.get("COUNT"):
        sys.setprofile(None)
        with open(os.environ["COUNT"], "w") as file:
            file.write(str(count))
    leave(code)
os._exit = left
from agent_dev.cli import main
sys.setprofile(look)
main()
"""


def mounts() -> list[str]:
    """Return the host's mounts."""
    return sorted(line.split(" ", 4)[-1] for line in Path("/proc/self/mountinfo").read_text().splitlines())


def ours() -> set[str]:
    """Return what bears our name where every program makes its files."""
    return {f"{place}/{name}" for place in ("/tmp", "/var/tmp", "/dev/shm", "/run") for name in _names(place)}


def _names(place: str) -> list[str]:
    # Other tests at work have prefixes of their own behind the name.
    return [name for name in os.listdir(place) if name.startswith((".agent-dev", "agent-dev.")) or name == "agent-dev"]


@pytest.fixture
def stepped(tmp_path: Path) -> Path:
    """The program that ends at a step."""
    path = tmp_path / "stepped"
    path.write_text(PROGRAM.format(python=sys.executable, root=str(REPOSITORY)))
    path.chmod(0o755)
    return path


def run(agent_dev: AgentDev, program: Path, marker: str, step: int, **env: str) -> int:
    """Run an agent that changes a file, and end its launcher at a step; return how it ended."""
    words = [str(program), "--no-merge", "--", "sh", "-c", "echo new >new; sleep 0.05", marker]
    environ = agent_dev.environment({"STEP": str(step), **env})
    done = subprocess.run(words, cwd=agent_dev.repo, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode


def rest(agent_dev: AgentDev) -> dict[str, str]:
    """Return the user's home, without what is the agent's."""
    return {path: what for path, what in tree(agent_dev.home).items() if not f"{path}/".startswith("aihome/")}


def test_killed_at_each_step_of_start_and_end_nothing_is_left(agent_dev: AgentDev, stepped: Path, tmp_path: Path) -> None:
    marker, counted = f"marker-{token_hex(6)}", tmp_path / "count"
    for _ in range(2):  # the first start of all does more
        assert run(agent_dev, stepped, marker, 0, COUNT=str(counted)) == 0
        agent_dev("discard")
    steps = int(counted.read_text())
    assert steps > 60
    counted.unlink()
    home, host, temporary, folders = rest(agent_dev), mounts(), ours(), sorted(os.listdir(tmp_path))
    agents = tree(agent_dev.agent_home)
    for step in range(1, steps, max(1, steps // POINTS)):
        code = run(agent_dev, stepped, marker, step)
        assert code == -9 or (code == 0 and step > 0.5 * steps), step  # how often it looks at its agent differs
        wait_until(lambda: not processes(marker), f"every process is gone after step {step}", 60)
        assert agent_dev("--", "true").returncode == 0, step
        assert rest(agent_dev) == home, step
        assert mounts() == host, step
        assert ours() == temporary, step
        assert sorted(os.listdir(tmp_path)) == folders, step
        wait_until(lambda: tree(agent_dev.agent_home) == agents, f"the agent home is as it was after step {step}", 60)
        for session in agent_dev.sessions():
            assert session["state"] in ("waiting", "killed"), step
            assert agent_dev("discard", session["session"]).returncode == 0, step
