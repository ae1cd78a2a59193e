"""Kill a process of a run at each step of its start and end: nothing is left that the next start does not remove."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import pytest

from tests.harness.loop_disk import OTHER_TESTS_MOUNT
from tests.harness.program import AgentDev, processes, tree, wait_until
from tests.harness.scale import repeat, seeded_random

POINTS = repeat(20)  # number of a run's steps that are tried; 1000 tries all
NETWORK_POINTS = repeat(1)  # of each process
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
SOCKETS = frozenset(("bind", "listen", "accept", "_accept", "send", "sendmsg", "sendto", "recv", "recvmsg", "recvfrom"))
wanted, step, counts = os.environ["WHO"], int(os.environ["STEP"]), os.environ.get("COUNT")
me, count, forks = "0", 0, 0
def look(frame, event, called):
    global count
    if event != "c_call":
        return
    name, module = called.__name__, getattr(called, "__module__", None)
    if (name in SEEN and module in ("posix", "fcntl")) or (name in SOCKETS and module is None):
        count += 1
        if count == step and me == wanted:
            os.kill(os.getpid(), 9)
        if counts:  # at each step, because some processes are killed at the end
            file = os.open(f"{{counts}}.{{me}}", os.O_WRONLY | os.O_CREAT)
            os.write(file, str(count).encode())
            os.close(file)
def forking():
    global forks
    forks += 1
def forked():
    global me, count, forks
    me, count, forks = f"{{me}}.{{forks}}", 0, 0
os.register_at_fork(before=forking, after_in_child=forked)
from agent_dev.cli.main import main
sys.setprofile(look)
main()
"""


SCRIPT = "echo new >new; sleep 0.05"


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
    words = [str(program), "--no-merge", "--", "bash", "-c", env.pop("SCRIPT", SCRIPT), marker]
    environ = agent_dev.environment({"WHO": who, "STEP": str(step), **env})
    done = subprocess.run(words, cwd=agent_dev.repo, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode


def counted(agent_dev: AgentDev, program: Path, folder: Path, **env: str) -> dict[str, int]:
    """Return the number of steps of each process of a run."""
    for number in range(2):  # the very first start does more
        assert run(agent_dev, program, "counted", "", 0, COUNT=str(folder / f"count{number}"), **env) == 0
        agent_dev("discard")
    assert agent_dev("--", "true").returncode == 0
    wait_until(lambda: not unswept(agent_dev), "the run that changed nothing is gone", 60)
    found = {path.name.partition(".")[2]: int(path.read_text() or 0) for path in folder.glob("count1.*")}
    for path in folder.glob("count?.*"):
        path.unlink()
    return found


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


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has before a run that is killed, and must have afterwards."""

    agent_dev: AgentDev
    folder: Path
    home: dict[str, str]
    mounts: list[str]
    ours: set[str]
    names: list[str]
    agents: dict[str, str]
    kept: set[str]

    @classmethod
    def seen(cls, agent_dev: AgentDev, folder: Path) -> "Machine":
        """Return the machine as it is now."""
        names, agents = sorted(os.listdir(folder)), tree(agent_dev.agent_home)
        return cls(agent_dev, folder, rest(agent_dev), mounts(), ours(), names, agents, kept(agent_dev))

    def expect_nothing_left(self, marker: str, at: object) -> None:
        """Fail unless the next start removes what a killed run left, and its session can be discarded."""
        agent_dev = self.agent_dev
        wait_until(lambda: not processes(marker), f"every process is gone after step {at}", 60)
        assert agent_dev("--", "true").returncode == 0, at
        wait_until(lambda: not unswept(agent_dev), f"the next start sweeps what is left of step {at}", 60)
        assert rest(agent_dev) == self.home, at
        assert not [one for one in mounts() if one not in self.mounts], at  # other tests unmount theirs
        assert ours() == self.ours, at
        assert sorted(os.listdir(self.folder)) == self.names, at
        wait_until(lambda: tree(agent_dev.agent_home) == self.agents, f"the agent home is as it was after step {at}", 60)
        for session in agent_dev.sessions():
            assert session["state"] in ("waiting", "killed"), at
            assert agent_dev("discard", session["session"]).returncode == 0, at
        wait_until(
            lambda: kept(agent_dev) == self.kept, f"state and cache as before step {at}: {kept(agent_dev) ^ self.kept}", 60
        )


@pytest.mark.parametrize("which", ["launcher", "others"])
def test_a_run_killed_at_each_step_of_start_and_end_leaves_nothing(
    agent_dev: AgentDev, stepped: Path, tmp_path: Path, which: str
) -> None:
    marker, steps = f"marker-{token_hex(6)}", counted(agent_dev, stepped, tmp_path)
    selected = {who: steps[who] for who in steps if (who == "0") == (which == "launcher")}
    assert sum(selected.values()) > 60
    points = [(who, step) for who, count in sorted(selected.items()) for step in range(1, count + 1)]
    machine = Machine.seen(agent_dev, tmp_path)
    for at in points[:: max(1, len(points) // POINTS)]:
        code = run(agent_dev, stepped, marker, *at)
        # How often the launcher polls the agent differs between runs.
        assert which == "others" or code == -9 or (code == 0 and at[1] > 0.5 * selected["0"]), at
        machine.expect_nothing_left(marker, at)


# Says in a file what it reached; with a network of its own, no connection may outlive the run's processes.
CONNECT = "echo new >new; exec 3<>/dev/tcp/127.0.0.1/$PORT && read -t 20 line <&3; echo got $line >got; sleep 0.05"


def network_settings(agent_dev: AgentDev, marker: str, server: int, published: int, agent: Path) -> None:
    """Configure a network with every process: gateway, opener, broker, and the filter of an ssh-agent."""
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True, exist_ok=True)
    key = {"host": "api.example.org", "variable": "API_KEY", "command": ["sh", "-c", f"echo key; : {marker}"]}
    settings = {"net": "allow", "allow": [f"localhost:{server}"], "publish": [f"{published}:3000"], "credentials": {"api": key}}
    settings |= {"share": ["ssh-agent"], "ssh": {"sign_git": True}, "set": {"PORT": str(server)}}
    (folder / "config.yaml").write_text(json.dumps(settings) + "\n")
    agent_dev.env["SSH_AUTH_SOCK"] = str(agent)


@contextmanager
def greeting_server() -> Iterator[int]:
    """Serve a line to each client on the host's loopback; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                while True:
                    client, _ = server.accept()
                    client.sendall(b"OUT\n")
                    client.close()
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_a_network_with_a_process_killed_at_each_step_leaves_nothing(agent_dev: AgentDev, stepped: Path, tmp_path: Path) -> None:
    marker, chance, agent = f"marker-{token_hex(6)}", seeded_random(), tmp_path / "ssh-agent"
    with greeting_server() as server, socket.socket(socket.AF_UNIX) as ssh_agent, socket.socket() as probe:
        ssh_agent.bind(str(agent))
        ssh_agent.listen()
        probe.bind(("127.0.0.1", 0))
        published = probe.getsockname()[1]
        probe.close()
        network_settings(agent_dev, marker, server, published, agent)
        steps = counted(agent_dev, stepped, tmp_path, SCRIPT=CONNECT)
        assert len(steps) > 6, "gateway, opener and filter are among the processes"
        machine = Machine.seen(agent_dev, tmp_path)
        for who, count in sorted(steps.items()):
            for step in chance.sample(range(1, count + 1), min(count, NETWORK_POINTS)):
                code = run(agent_dev, stepped, marker, who, step, SCRIPT=CONNECT)
                assert code in (-9, 0, 125, 126, 137), (who, step)  # 126: the supervisor is gone
                wait_until(lambda: not processes(marker), f"every process is gone after step {step} of {who}", 60)
                with socket.create_server(("127.0.0.1", published)):
                    pass
                machine.expect_nothing_left(marker, (who, step))
                assert not os.listdir(agent_dev.state / "homes/networks"), (who, step)
