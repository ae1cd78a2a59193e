"""What most tests start is a fork of a process that has imported the program; it does what an executed program does."""

import os
import subprocess

import pytest

from tests.harness import preloaded
from tests.harness.program import PYTHON, AgentDev, processes, wait_until

INHERITED = """
import json, os, signal, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([
    os.umask(0), os.getcwd(), sys.stdin.read(), sorted(os.environ), sorted(os.listdir("/proc/self/fd")),
    {name: status[name].strip() for name in ("SigBlk", "SigIgn", "Uid", "Gid", "NoNewPrivs")},
]))
"""
COMMANDS = (
    ("--no-merge", "--", PYTHON, "-I", "-c", INHERITED),
    ("status",),
    ("sessions", "--json"),
    ("tx", "--", "sh", "-c", "echo to-stdout; echo to-stderr >&2; exit 3"),
    ("merge", "no-such-session"),
    ("no-such-agent",),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_fork_behaves_as_an_executed_program(
    agent_dev: AgentDev, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_dev.do("sessions")  # starts the process that is forked, with the mask of before
    before = os.umask(0o027)
    try:
        assert preloaded.can_run(agent_dev.environment(), "typed")
        forked = agent_dev(*words, input="typed")
        monkeypatch.setattr(AgentDev, "may_fork", False)
        executed = agent_dev(*words, input="typed")
    finally:
        os.umask(before)
    assert (forked.returncode, forked.stdout, forked.stderr) == (executed.returncode, executed.stdout, executed.stderr)


def test_a_fork_is_killed_at_its_timeout(agent_dev: AgentDev) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        agent_dev("--", "sleep", "1000.021", timeout=1)
    wait_until(lambda: not processes("1000.021"), "the sandbox ends with its launcher")
