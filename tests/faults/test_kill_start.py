"""Kill a process of a run at each step of its start and end: nothing is left that the next start does not remove."""

import json
import os
import shlex
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from secrets import token_hex

import pytest

from tests.harness.disks.loop_disk import OTHER_TESTS_MOUNT
from tests.harness.internet import LOCAL_PORT, in_internet
from tests.harness.program import PYTHON, AgentDev, processes, tree, wait_until
from tests.harness.scale import repeat, seeded_random
from tests.harness.servers.brokered_host import API, FOLDER, REAL

POINTS = repeat(20)  # number of a run's steps that are tried; 1000 tries all
NETWORK_POINTS = repeat(1)  # of each process, and again of each that works
WORKING = 3  # steps more than without work
REPOSITORY = Path(__file__).parents[2]
# Each process of the run counts its calls of functions that change something, and the selected one is killed before one of them.
# `0` is the launcher, `0.1` the first process that it forks, the setup process, and `0.1.1` the one that becomes bubblewrap.
PROGRAM = """#!{python}
import os, sys, threading
sys.path.insert(0, {root!r})
SEEN = frozenset((
    "mkdir", "rename", "replace", "link", "symlink", "unlink", "rmdir", "remove", "truncate", "ftruncate", "chmod", "fchmod",
    "setxattr", "removexattr", "open", "write", "fsync", "fork", "posix_spawn", "pipe", "pipe2", "pidfd_open", "kill", "waitpid",
    "waitid", "setpgid", "tcsetpgrp", "close", "flock", "read", "dup2", "utime", "memfd_create"))
SOCKETS = frozenset((
    "bind", "listen", "accept", "_accept", "connect", "send", "sendall", "sendmsg", "sendto", "recv", "recvmsg", "recvfrom"))
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
threading.setprofile(look)
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


def run(agent_dev: AgentDev, program: Path, marker: str, who: str, step: int, *, before: Sequence[str] = (), **env: str) -> int:
    """Run an agent that changes a file, kill one of the run's processes at a step, and return the launcher's exit status."""
    words = [*before, str(program), "--no-merge", "--", "bash", "-c", env.pop("SCRIPT", SCRIPT), marker]
    environ = agent_dev.environment({"WHO": who, "STEP": str(step), **env})
    done = subprocess.run(words, cwd=agent_dev.repo, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode


def counted(run_at: Callable[..., int], agent_dev: AgentDev, folder: Path, *scripts: str) -> list[dict[str, int]]:
    """Run each script once; return the number of steps of each process of each run. The very first start does more."""
    found = []
    for number, script in enumerate(scripts):
        assert run_at("", 0, COUNT=str(folder / f"count{number}"), SCRIPT=script) == 0
        agent_dev("discard")
        found.append([*folder.glob(f"count{number}.*")])
    assert agent_dev("--", "true").returncode == 0
    wait_until(lambda: not unswept(agent_dev), "the run that changed nothing is gone", 60)
    steps = [{path.name.partition(".")[2]: int(path.read_text() or 0) for path in files} for files in found]
    for path in folder.glob("count?.*"):
        path.unlink()
    return steps


def rest(agent_dev: AgentDev) -> dict[str, str]:
    """Return the content of the user's home, except the agent home."""
    return {path: what for path, what in tree(agent_dev.home).items() if not f"{path}/".startswith("aihome/")}


def kept(agent_dev: AgentDev) -> set[str]:
    """Return the paths in the state and cache directories, except the trash, the records about agent homes, and copies of /etc.

    /etc differs in each small internet.
    """
    cache = agent_dev.home.parent / "cache"
    found = (place for top in (agent_dev.state, cache) for place in os.walk(top))
    names = (f"{place}/{name}" for place, folders, files in found for name in (*folders, *files))
    others = (f"{agent_dev.state}/trash/", f"{agent_dev.state}/homes/", f"{cache}/agent-dev/etc-")
    return {name for name in names if not name.startswith(others)}


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
    marker = f"marker-{token_hex(6)}"
    _, steps = counted(partial(run, agent_dev, stepped, marker), agent_dev, tmp_path, SCRIPT, SCRIPT)
    selected = {who: steps[who] for who in steps if (who == "0") == (which == "launcher")}
    assert sum(selected.values()) > 60
    points = [(who, step) for who, count in sorted(selected.items()) for step in range(1, count + 1)]
    machine = Machine.seen(agent_dev, tmp_path)
    for at in points[:: max(1, len(points) // POINTS)]:
        code = run(agent_dev, stepped, marker, *at)
        # How often the launcher polls the agent differs between runs.
        assert which == "others" or code == -9 or (code == 0 and at[1] > 0.5 * selected["0"]), at
        machine.expect_nothing_left(marker, at)


# Uses each part of a network of the sandbox's own: the host's loopback, the broker without and with TLS, the ssh-agent's filter.
WORK = """
import http.client, os, socket, ssl
with socket.create_connection(("127.0.0.1", {local}), 20) as one:
    assert one.recv(100).startswith(b"OUT")
tls = http.client.HTTPSConnection({host!r}, timeout=20, context=ssl._create_unverified_context())
for one in (http.client.HTTPConnection({host!r}, timeout=20), tls):
    one.request("GET", "/v1", headers={{"x-api-key": os.environ["API_KEY"]}})
    assert b"(real)" in one.getresponse().read()
with socket.socket(socket.AF_UNIX) as one:
    one.settimeout(20)
    one.connect(os.environ["SSH_AUTH_SOCK"])
    one.sendall({request!r})
    assert one.recv(100) == {answer!r}
"""
LIST_KEYS, NO_KEYS = b"\0\0\0\1\x0b", b"\0\0\0\5\x0c\0\0\0\0"
# Ends with the exit code of its arguments, once nothing listens on the published port any more.
RELEASED = """
import socket, subprocess, sys, time
code = subprocess.run(sys.argv[2:]).returncode
deadline = time.monotonic() + 60
while True:
    try:
        socket.create_server(("127.0.0.1", int(sys.argv[1]))).close()
        sys.exit(code % 256)
    except OSError:
        if time.monotonic() > deadline:
            sys.exit(99)  # it is still open
        time.sleep(0.05)
"""
PUBLISHED = 18080  # in the small internet of one run


@dataclass(frozen=True, slots=True)
class Networked:
    """Runs with every process of a network: gateway, opener, broker, and the filter of an ssh-agent."""

    agent_dev: AgentDev
    program: Path
    marker: str

    def run(self, who: str, step: int, **env: str) -> int:
        """Run an agent that uses the network, kill one of the run's processes at a step, and return the exit status."""
        internet, *others = in_internet()
        before = (internet, f"{FOLDER}={self.agent_dev.home}", *others, sys.executable, "-c", RELEASED, str(PUBLISHED))
        return run(self.agent_dev, self.program, self.marker, who, step, before=before, **env)

    def configure(self, ssh_agent: Path) -> None:
        """Write the settings."""
        certificate = next(word.partition("=")[2] for word in in_internet() if word.startswith("AGENT_DEV_TEST_CERTIFICATE="))
        key = {"host": API, "variable": "API_KEY", "command": ["sh", "-c", f"printenv MY_KEY; : {self.marker}"]}
        settings: dict[str, object] = {"net": "allow", "allow": [f"localhost:{LOCAL_PORT}"], "publish": [f"{PUBLISHED}:3000"]}
        settings |= {"upstream_ca": certificate, "credentials": {"api": key}, "share": ["ssh-agent"], "ssh": {"sign_git": True}}
        folder = Path(self.agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(json.dumps(settings) + "\n")
        self.agent_dev.env |= {"SSH_AUTH_SOCK": str(ssh_agent), "MY_KEY": REAL}

    def files_with_the_key(self) -> list[str]:
        """Return the files of the user, the state, the cache and the temporary directories that contain the real key."""
        places = (place for top in (str(self.agent_dev.home.parent), *ours()) for place in os.walk(top))
        found = (f"{folder}/{name}" for folder, _, names in places for name in names)
        return [path for path in found if REAL.encode() in _content(path)]


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes() if stat.S_ISREG(os.lstat(path).st_mode) else b""
    except OSError:
        return b""  # it is gone, or a process of the agent's made it unreadable


@contextmanager
def empty_ssh_agent(path: Path) -> Iterator[None]:
    """Serve an ssh-agent without keys on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def answer(client: socket.socket) -> None:
            with client, suppress(ConnectionError):  # the filter was killed
                while client.recv(100):
                    client.sendall(NO_KEYS)

        def serve() -> None:
            try:
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        yield


def test_a_network_with_a_process_killed_at_each_step_leaves_nothing(agent_dev: AgentDev, stepped: Path, tmp_path: Path) -> None:
    chance, networked = seeded_random(), Networked(agent_dev, stepped, f"marker-{token_hex(6)}")
    program = WORK.format(local=LOCAL_PORT, host=API, request=LIST_KEYS, answer=NO_KEYS)
    work = f"echo new >new; {PYTHON} -I -c {shlex.quote(program)} 2>/dev/null || exit 1; sleep 0.05"
    with empty_ssh_agent(tmp_path / "ssh-agent"):
        networked.configure(tmp_path / "ssh-agent")
        _, idle, steps = counted(networked.run, agent_dev, tmp_path, SCRIPT, SCRIPT, work)
        assert len(steps) > 6, "gateway, opener and filter are among the processes"
        points = [(who, step) for who, count in sorted(steps.items()) for step in sample(chance, 0, count)]
        at_work = {who: (idle[who], count) for who, count in steps.items() if count > idle.get(who, count) + WORKING}
        assert len(at_work) > 2, "gateway, filter and supervisor work"
        points += [(who, step) for who, span in sorted(at_work.items()) for step in sample(chance, *span)]
        machine = Machine.seen(agent_dev, tmp_path)
        for who, step in points:
            code = networked.run(who, step, SCRIPT=work)
            assert code in (247, 0, 1, 125, 126, 137), (who, step)  # 1: the work failed; 126: the supervisor is gone
            wait_until(lambda: not processes(networked.marker), f"every process is gone after step {step} of {who}", 60)
            assert not networked.files_with_the_key(), (who, step)
            machine.expect_nothing_left(networked.marker, (who, step))
            assert not os.listdir(agent_dev.state / "homes/networks"), (who, step)


def sample(chance: Random, after: int, last: int) -> list[int]:
    """Return some of the steps after one, to the last."""
    return chance.sample(range(after + 1, last + 1), min(last - after, NETWORK_POINTS))
