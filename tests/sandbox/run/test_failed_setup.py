"""A setup process, or the sandbox's init, that fails before the agent starts: an error in one line, and no agent."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, processes

PROGRAM = """#!{python}
import os, sys
sys.path.insert(0, {root!r})
from agent_dev.sandbox import setup_process
{change}
from agent_dev.cli.main import main
main()
"""
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


@pytest.mark.parametrize(
    ("change", "reason"),
    [(INIT_FAILS, "Too many open files"), (SETUP_ENDS_FIRST, "the setup process exited")],
    ids=("init fails", "the setup process ends first"),
)
def test_no_agent_starts(agent_dev: AgentDev, tmp_path: Path, change: str, reason: str) -> None:
    program = tmp_path / "changed"
    program.write_text(PROGRAM.format(python=sys.executable, root=str(Path(__file__).parents[3]), change=change))
    marker = tmp_path / "rw" / "started"
    marker.parent.mkdir()
    words = (program, "--rw", marker.parent, "--", "touch", marker)
    done = subprocess.run(
        [sys.executable, *words], env=agent_dev.environment(), cwd=agent_dev.repo, capture_output=True, text=True, check=False
    )
    assert (done.returncode, marker.exists(), done.stdout) == (125, False, "")
    assert f"cannot prepare the sandbox: {reason}" in done.stderr
    assert not processes(str(marker))
    assert agent_dev.sessions() == []
