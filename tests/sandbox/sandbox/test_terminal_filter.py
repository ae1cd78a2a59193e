"""A real terminal inside: ioctls that inject input, lock or hang it up are refused; resizing works (CONTAINMENT A1-A4, A22)."""

import json
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, PYTHON, AgentDev
from tests.harness.terminal import REQUESTS, TERMINAL_PATHS, Shell, Terminal

GARBAGE = [0, 1 << 32, 0xDEADBEEF << 32, 0xFFFFFFFF << 32]

# Try each ioctl through each path of the terminal; write the names of the errors to a file in its home.
PROBE = """if True:
    import ctypes, errno, json, os, platform
    libc = ctypes.CDLL(None, use_errno=True)
    ioctl = {"x86_64": 16, "aarch64": 29}[platform.machine()]
    requests, garbage, ways = json.loads(os.environ["PROBE"])
    word = ctypes.create_string_buffer(b"\\x0a" * 64)
    found = {}
    for way in ways:
        fd = 0 if way == "stdin" else os.open(way, os.O_RDWR | os.O_NOCTTY)
        for name, request in requests.items():
            for upper in garbage:
                result = libc.syscall(ioctl, fd, ctypes.c_ulong(request | upper), word)
                error = ctypes.get_errno() if result < 0 else 0
                found[f"{way} {name} {upper:x}"] = errno.errorcode.get(error, str(error))
    with open(os.path.expanduser("~/found.json"), "w") as file:
        json.dump(found, file)
"""


CASES = [f"{way} {name} {upper:x}" for way in TERMINAL_PATHS for name in REQUESTS for upper in GARBAGE]


@pytest.fixture
def probe(agent_dev: AgentDev, tmp_path: Path) -> Path:
    """Return a shell script that runs the probe inside."""
    inside = tmp_path / "probe.py"
    inside.write_text(PROBE)
    tried = json.dumps([REQUESTS, GARBAGE, TERMINAL_PATHS])
    script = tmp_path / "probe.sh"
    script.write_text(f"{PROGRAM} --ro {inside} --env 'PROBE={tried}' -- {PYTHON} -I {inside}\n")
    return script


def shell(agent_dev: AgentDev) -> Shell:
    return Shell(env=agent_dev.terminal_environment(), cwd=agent_dev.repo)


def test_every_ioctl_that_injects_into_the_users_terminal_is_refused(agent_dev: AgentDev, probe: Path) -> None:
    with shell(agent_dev) as person:
        person.run(f"sh {probe}")
        assert person.status == 0, person.text()
    found: dict[str, str] = json.loads((agent_dev.agent_home / "found.json").read_text())
    assert list(found) == CASES
    assert {case: error for case, error in found.items() if error != "EPERM"} == {}


def test_nothing_is_typed_into_the_users_shell(agent_dev: AgentDev, probe: Path) -> None:
    with shell(agent_dev) as person:
        person.run(f"sh {probe}")
        assert person.run("read -t 0; echo waiting=$?").strip() == "waiting=1"


def test_the_terminal_settings_are_restored_afterwards(agent_dev: AgentDev, probe: Path) -> None:
    with shell(agent_dev) as person:
        before = person.stty()
        person.run(f"sh {probe}")
        assert person.stty() == before
        assert person.run("echo open >/dev/tty").strip() == "open"  # TIOCEXCL would have prevented it


def test_the_filter_applies_to_a_child_with_its_own_terminal_too(agent_dev: AgentDev) -> None:
    code = """if True:
        import errno, fcntl, json, os, pty
        ours, its = pty.openpty()
        try:
            fcntl.ioctl(its, 0x5412, b"x")
            print(json.dumps("typed"))
        except OSError as error:
            print(json.dumps(errno.errorcode[error.errno]))
    """
    assert agent_dev.run_python_inside(code) == "EPERM"


def test_an_ordinary_terminal_ioctl_works(agent_dev: AgentDev) -> None:
    with Terminal(
        [PROGRAM, "--", "stty", "size"], rows=31, cols=97, env=agent_dev.terminal_environment(), cwd=agent_dev.repo
    ) as t:
        assert t.wait_exit() == 0
        assert t.text().startswith("31 97\n")


WATCH = """if True:
    import os, signal
    signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"size %d %d\\n" % os.get_terminal_size()))
    print("ready", flush=True)
    while True:
        signal.pause()
"""


def test_a_resize_reaches_the_agent_with_sigwinch(agent_dev: AgentDev) -> None:
    words = [str(PROGRAM), "--", PYTHON, "-I", "-c", WATCH]
    with Terminal(words, env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as terminal:
        terminal.wait_for("ready")
        terminal.resize(13, 51)
        terminal.wait_for("size 51 13")
        terminal.resize(40, 120)
        terminal.wait_for("size 120 40")
