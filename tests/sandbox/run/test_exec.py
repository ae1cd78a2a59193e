"""`exec` and `shell`: the user's commands in a running session, confined as its agent is."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev, processes_inside, wait_until

Session = subprocess.Popen[str]

FACTS = """
import json, os, pathlib, resource, socket
def text(name):
    return pathlib.Path(f"/proc/self/{name}").read_text()
status = dict(line.split(":", 1) for line in text("status").splitlines())
kept = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters")
limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}
print(json.dumps({
    "namespaces": {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in os.listdir("/proc/self/ns")},
    "status": {name: status[name].split() for name in kept},
    "maps": [text("uid_map"), text("gid_map")],
    "groups": text("cgroup"),
    "mounts": text("mountinfo"),
    "limits": limits,
    "cwd": os.getcwd(),
    "variables": {name: value for name, value in os.environ.items() if name != "_"},
    "host": socket.gethostname(),
    "umask": os.umask(0),
    "descriptors": sorted(os.listdir("/proc/self/fd")),
    "ignored": status["SigIgn"],
    "blocked": status["SigBlk"],
}))
"""
WAIT = "import sys; sys.stdin.read()"


@contextmanager
def running(agent_dev: AgentDev, *options: str | Path, code: str = WAIT) -> Iterator[Session]:
    """Run an agent, Python code, until its stdin ends; wait until it runs."""
    with agent_dev.start("--no-merge", *options, "--", PYTHON, "-uc", f"print('ready')\n{code}") as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.mark.parametrize(
    "options",
    [(), ("--net", "none"), ("--limit", "memory=2G", "--limit", "processes=200")],
    ids=("default", "no network", "limits"),
)
def test_a_command_is_confined_as_the_agent_is(agent_dev: AgentDev, options: tuple[str, ...]) -> None:
    with running(agent_dev, *options, code=FACTS + WAIT) as session:
        assert session.stdout
        agent = json.loads(session.stdout.readline())
        joined = json.loads(agent_dev.do("exec", "--", PYTHON, "-c", FACTS))
    assert joined == agent


def test_without_nesting_a_command_is_confined_as_the_agent_is(agent_dev: AgentDev, tmp_path: Path) -> None:
    profile = tmp_path / "strict.yaml"
    profile.write_text("about: Strict.\ncommand: sh\nnested: false\n")
    with running(agent_dev, "--profile", profile, code=FACTS + WAIT) as session:
        assert session.stdout
        agent = json.loads(session.stdout.readline())
        joined = json.loads(agent_dev.do("exec", "--", PYTHON, "-c", FACTS))
    assert joined == agent


def test_a_command_and_the_agent_see_each_other(agent_dev: AgentDev) -> None:
    code = "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('signal'))\nprint(os.getpid())\n"
    with running(agent_dev, code=code + WAIT) as session:
        assert session.stdout
        pid = session.stdout.readline().strip()
        assert agent_dev("exec", "--", "kill", "-USR1", pid).returncode == 0
        assert session.stdout.readline() == "signal\n"
        agent_dev.do("exec", "--", "sh", "-c", "echo text > made")
    assert agent_dev.changes() == {"made": "added"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("no-such-program",), 127),
        (("/etc/passwd",), 126),
    ],
    ids=("exit", "signal", "not found", "not executable"),
)
def test_the_exit_code_is_the_commands(agent_dev: AgentDev, words: tuple[str, ...], code: int) -> None:
    with running(agent_dev):
        assert agent_dev("exec", "--", *words).returncode == code


def test_streams_are_passed_through(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("from a file\n")
    with running(agent_dev), (tmp_path / "in").open() as source, (tmp_path / "out").open("w") as target:
        assert agent_dev("exec", "--", "cat", input="from a pipe\n").stdout == "from a pipe\n"
        with agent_dev.start("exec", "--", "sh", "-c", "cat; echo error >&2", stdin=source, stdout=target) as process:
            assert process.communicate(timeout=30)[1] == "error\n"
    assert (tmp_path / "out").read_text() == "from a file\n"


def test_it_runs_in_the_users_directory(agent_dev: AgentDev) -> None:
    below = agent_dev.repo / "below"
    below.mkdir()
    with running(agent_dev):
        assert agent_dev("exec", "--", "pwd", cwd=below).stdout == f"{below}\n"


def test_only_variables_of_the_terminal_are_passed(agent_dev: AgentDev) -> None:
    with running(agent_dev):
        shown = agent_dev("exec", "--", "env", env={"TERM": "screen", "SECRET": "x", "PATH": agent_dev.env["PATH"]}).stdout
    assert "TERM=screen\n" in shown
    assert "SECRET" not in shown


def test_the_policy_applies(agent_dev: AgentDev) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("policy: guard\n")
    (folder / "policy.yaml").write_text(
        "guard:\n  rules:\n  - {name: no-who, programs: [whoami], decision: deny, message: not here}\n"
    )
    with running(agent_dev):
        done = agent_dev("exec", "--", "whoami")
        assert (done.returncode, done.stdout) == (126, "")
        assert "not here" in done.stderr
        assert agent_dev("exec", "--", "id", "-u").returncode == 0
        agent_dev.do("exec", "--", "touch", "kept")
    shown = agent_dev.do("log", "--commands")
    assert "whoami" in shown
    assert 'exec "$@"' not in shown  # our own step is not logged


def test_a_command_ends_with_the_session(agent_dev: AgentDev) -> None:
    with running(agent_dev) as session, agent_dev.start("exec", "--", "sh", "-c", "echo begun; exec sleep 86411") as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        session.communicate("")
        _, error = process.communicate(timeout=30)
    assert process.returncode == 137
    assert "ended, and the command was killed" in error
    assert not processes_inside("86411")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_ends_with_its_client(agent_dev: AgentDev, number: int) -> None:
    with running(agent_dev) as session:
        with agent_dev.start("exec", "--", "sh", "-c", "echo begun; exec sleep 86412") as process:
            assert process.stdout
            assert process.stdout.readline() == "begun\n"
            process.send_signal(number)
            process.wait(30)
        wait_until(lambda: not processes_inside("86412"), "the command ended")
        assert session.poll() is None


def test_many_commands_leave_nothing_behind(agent_dev: AgentDev) -> None:
    with running(agent_dev) as session:
        for number in range(12):
            assert agent_dev.do("exec", "--", "echo", str(number)) == f"{number}\n"
        assert len(agent_dev.do("exec", "--", "ps", "-eo", "pid=").splitlines()) <= 4  # init, the agent, ps
        assert session.stdin
        session.stdin.close()
        assert session.wait(30) == 0


def test_a_killed_launcher_ends_the_command(agent_dev: AgentDev) -> None:
    """The command has so much memory that its exit takes longer than that of the process that waits for it."""
    code = "import time\nmemory = b'x' * (1 << 29)\nprint('begun', flush=True)\ntime.sleep(86413)"
    with running(agent_dev) as session, agent_dev.start("exec", "--", PYTHON, "-c", code) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        poll = select.poll()
        for pid in processes_inside("86413"):
            poll.register(os.pidfd_open(pid), select.POLLIN)
        session.kill()
        assert process.wait(30) == 137
        assert len(poll.poll(0)) == 1


def test_the_session_is_found(agent_dev: AgentDev) -> None:
    with running(agent_dev, "--name", "one"):
        assert agent_dev("exec", "one", "--", "true").returncode == 0
        with running(agent_dev, "--name", "two"):
            both = agent_dev("exec", "--", "true")
            assert both.returncode == 2
            assert "several sessions are running: one, two\nagent-dev: hint: agent-dev exec two -- COMMAND\n" in both.stderr
    done = agent_dev("exec", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no running or waiting session" in done.stderr
    assert agent_dev("exec", "nosuch", "--", "true").returncode == 2
    assert agent_dev("exec").returncode == 2


@pytest.mark.parametrize("words", [("exec", "one", "--", "true"), ("shell", "one")], ids=("exec", "shell"))
def test_a_running_sandbox_refuses_the_options_of_a_run(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    with running(agent_dev, "--name", "one"):
        done = agent_dev("--net", "none", "--env", "X=1", *words, input="")
        assert (done.returncode, done.stdout) == (2, "")
        assert "session one is running: its sandbox cannot be changed by --net, --env\n" in done.stderr
        assert agent_dev("-q", "-C", str(agent_dev.repo), *words, input="").returncode == 0


def test_a_shell_is_the_users_own(agent_dev: AgentDev) -> None:
    with running(agent_dev):
        for shell, expected in (("/bin/bash", "bash"), ("/bin/sh", "sh"), ("/home/me/fish", "bash"), (None, "bash")):
            done = agent_dev("shell", env={"SHELL": shell}, input="ps -o comm= -p $$\n")
            assert done.stdout == f"{expected}\n"


def test_in_the_real_tree_a_command_joins_too(agent_dev: AgentDev) -> None:
    with agent_dev.start("run", "--direct", "--", PYTHON, "-c", f"print('ready', flush=True)\n{WAIT}") as session:
        assert session.stdout
        assert session.stdout.readline() == "ready\n"
        agent_dev.do("exec", "--", "sh", "-c", "echo text > made")
        assert (agent_dev.repo / "made").read_text() == "text\n"


def test_a_checkpoint_freezes_and_a_rollback_covers_its_changes(agent_dev: AgentDev) -> None:
    with running(agent_dev) as session:
        agent_dev.do("exec", "--", "sh", "-c", "echo one > made")
        made = json.loads(agent_dev.do("checkpoint", "--json"))["checkpoint"]
        agent_dev.do("exec", "--", "sh", "-c", "echo two > made")
        agent_dev.do("rollback", str(made))
        assert agent_dev.do("exec", "--", "cat", "made") == "one\n"
        assert session.poll() is None
