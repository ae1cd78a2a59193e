"""A setup process, or the sandbox's init, that fails before the agent starts: an error in one line, and no agent."""

import subprocess
from pathlib import Path

import pytest

from tests.harness.changed_program import write_changed_program
from tests.harness.program import PATIENCE, AgentDev, processes
from tests.harness.terminal import Terminal

INIT_FAILS = """
def fail(*_):
    raise OSError(24, "Too many open files")
setup_process._make_files = fail
"""
# Init asks to die with a setup process that has already ended: the kernel would not kill it when the launcher dies.
SETUP_ENDS_FIRST = """
numbers = []
die, enter = setup_process.syscalls.die_with_parent, setup_process.enter_namespaces
def remember():
    numbers.append(os.getpid())
    enter()
def die_late():
    while os.getpid() == 1 and b") Z" not in open(f"/proc/{numbers[0]}/stat", "rb").read():
        pass
    die()
def end(*_):
    os.kill(os.getpid(), 9)
setup_process.enter_namespaces, setup_process.syscalls.die_with_parent = remember, die_late
from agent_dev.sandbox.joining import service
service.wait_for_init = end
"""


SETUP_ENDS_AT_ONCE = """
setup_process.enter_namespaces = lambda: os.kill(os.getpid(), 9)
"""


FAILURES = pytest.mark.parametrize(
    ("change", "reason"),
    [
        (INIT_FAILS, "Too many open files"),
        (SETUP_ENDS_FIRST, "the setup process exited"),
        (SETUP_ENDS_AT_ONCE, "the setup process exited"),
    ],
    ids=("init fails", "the setup process ends first", "the setup process ends before the plan"),
)


@FAILURES
def test_no_agent_starts(agent_dev: AgentDev, tmp_path: Path, change: str, reason: str) -> None:
    program = write_changed_program(tmp_path / "changed", change)
    marker = tmp_path / "rw" / "started"
    marker.parent.mkdir()
    words = (program, "--rw", marker.parent, "--", "touch", marker)
    done = subprocess.run(
        words, env=agent_dev.environment(), cwd=agent_dev.repo, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, marker.exists(), done.stdout) == (125, False, "")
    assert f"cannot prepare the sandbox: {reason}" in done.stderr
    assert not processes(str(marker))
    assert agent_dev.sessions() == []


@FAILURES
def test_a_terminal_shows_the_reason_and_is_as_before(agent_dev: AgentDev, tmp_path: Path, change: str, reason: str) -> None:
    program = write_changed_program(tmp_path / "changed", change)
    script = f"stty -g >{tmp_path}/before; {program} -- true; echo $? >{tmp_path}/code; stty -g >{tmp_path}/after"
    with Terminal(["/bin/sh", "-c", script], env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as terminal:
        assert terminal.wait_exit() == 0
        assert f"cannot prepare the sandbox: {reason}" in terminal.text()
    before, code, after = ((tmp_path / name).read_text() for name in ("before", "code", "after"))
    assert (code, before) == ("125\n", after)
