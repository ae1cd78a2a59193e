"""Too little memory or too few descriptors: one line, the documented exit code, no traceback, and no lost session."""

import re
import subprocess
from functools import cache

import pytest

from tests.harness.program import PROGRAM, AgentDev

MEGABYTE = 1_000_000
STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 40, 400)  # megabytes in addition to those that CPython needs to start
WORDS = {
    "status": ("status",),
    "diff": ("diff",),
    "merge": ("merge", "--all", "--dry-run"),
    "sessions": ("sessions",),
    "commits": ("commits",),
    "help": ("help",),
}
RUNS = {
    "run": ("--no-merge", "--", "touch", "ran"),
    "direct": ("run", "--direct", "--", "touch", "ran"),
    "tx": ("tx", "touch", "ran"),
}


def waiting(agent_dev: AgentDev) -> list[object]:
    return [(one["session"], one["state"]) for one in agent_dev.sessions()]


@cache
def least() -> int:
    """Return the megabytes of address space that an idle Python needs to start."""
    python = PROGRAM.with_name("python")
    for megabytes in range(4, 200):
        limited = ("prlimit", f"--as={megabytes * MEGABYTE}", str(python), "-c", "import os")
        if subprocess.run(limited, capture_output=True, check=False).returncode == 0:
            return megabytes
    raise AssertionError("python does not start with 200 MB")


def expect_one_line(printed: str, code: int) -> None:
    """Check that no traceback is printed, and that a failure takes at most one line and a hint."""
    assert "Traceback" not in printed, printed
    if code:
        assert printed.startswith("agent-dev: "), printed
        assert len(printed.splitlines()) <= 2, printed


@pytest.mark.parametrize("word", WORDS)
def test_a_command_out_of_memory_prints_one_line(agent_dev: AgentDev, word: str) -> None:
    assert agent_dev("--no-merge", "--", "sh", "-c", "echo b >b").returncode == 0
    before, codes = waiting(agent_dev), set()
    for step in STEPS:
        done = agent_dev(*WORDS[word], before=("prlimit", f"--as={(least() + step) * MEGABYTE}"))
        expect_one_line(done.stderr, done.returncode)
        assert done.returncode in (0, 1), done.stderr
        assert not done.returncode or re.search("memory|failed to map", done.stderr)
        codes.add(done.returncode)
    assert 0 in codes
    assert waiting(agent_dev) == before


@pytest.mark.parametrize("word", RUNS)
def test_a_run_out_of_memory_exits_with_125_or_works(agent_dev: AgentDev, word: str) -> None:
    codes = set()
    for step in STEPS:
        done = agent_dev(*RUNS[word], before=("prlimit", f"--as={(least() + step) * MEGABYTE}"))
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (0, 1, 125), done.stderr
        assert not done.returncode or done.stderr.startswith("agent-dev: "), done.stderr
        codes.add(done.returncode)
    assert codes >= {0, 125}, done.stderr


@pytest.mark.parametrize(("mib", "words", "code"), [(63, ("sessions",), 1), (63, ("--", "true"), 125), (64, ("sessions",), 0)])
def test_a_limit_below_the_minimum_is_refused_immediately(
    agent_dev: AgentDev, mib: int, words: tuple[str, ...], code: int
) -> None:
    done = agent_dev(*words, before=("prlimit", f"--as={mib << 20}"))
    assert done.returncode == code
    assert ("the limit is 63 MiB, agent-dev needs 64" in done.stderr) == bool(code), done.stderr


@pytest.mark.parametrize("word", RUNS)
def test_a_run_with_too_few_descriptors_exits_with_125(agent_dev: AgentDev, word: str) -> None:
    for count in (16, 12, 10, 8, 6):
        done = agent_dev(*RUNS[word], before=("prlimit", f"--nofile={count}:{count}"))
        expect_one_line(done.stderr, done.returncode)
        assert done.returncode == 125, done.stderr
        assert "Too many open files" in done.stderr
    assert not (agent_dev.repo / "ran").exists()
    assert waiting(agent_dev) == []


def test_a_resume_with_too_few_descriptors_exits_with_125(agent_dev: AgentDev) -> None:
    assert agent_dev("--no-merge", "--", "sh", "-c", "echo b >b").returncode == 0
    before = waiting(agent_dev)
    for count in (16, 12):
        done = agent_dev("resume", before=("prlimit", f"--nofile={count}:{count}"))
        assert done.returncode == 125, done.stderr
        assert waiting(agent_dev) == before
    assert agent_dev("merge", "--all").returncode == 0
    assert (agent_dev.repo / "b").read_text() == "b\n"
