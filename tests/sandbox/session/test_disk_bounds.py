"""The disk use of many small sessions: state, caches and settings together stay small without any command of the user."""

import os
from pathlib import Path

import pytest

from agent_dev.merge import pack
from tests.harness.program import AgentDev, wait_until
from tests.harness.scale import SCALE

SESSIONS = 300
LARGEST, MOST_ENTRIES = 60_000_000, 10_000  # bytes on disk, files and directories
COMPLETE = 10  # keep_merged_sessions


def disk_use(*folders: Path) -> tuple[int, int]:
    """Return the number of files and directories in some directories, and their bytes on disk, each inode once."""
    sizes: dict[tuple[int, int], int] = {}
    entries = 0
    for folder in folders:
        for parent, names, files in os.walk(folder):
            links = [name for name in names if os.path.islink(f"{parent}/{name}")]
            for path in (parent, *(f"{parent}/{name}" for name in (*files, *links))):
                status = os.lstat(path)
                sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
                entries += 1
    return entries, sum(sizes.values())


def run_and_merge(agent_dev: AgentDev, numbers: range) -> None:
    """Run a session for each number, and merge it: a third as a transaction, the others by two commands."""
    for number in numbers:
        script = f"echo {number} >>README.md; mkdir -p src; echo {number} >src/{number}"
        if number % 3:
            agent_dev.do("--no-merge", "--", "sh", "-c", script)
            agent_dev.do("merge", "--all", "--include-risky")
        else:
            agent_dev.do("tx", "--include-risky", "--", "sh", "-c", script)


def commit_and_import(agent_dev: AgentDev, numbers: range) -> None:
    """Run a session with a commit for each number, and import that."""
    for number in numbers:
        script = f"echo {number} >>README.md; mkdir -p src; echo {number} >src/{number}; git add -A; git commit -qm {number}"
        author = (f"GIT_{role}_{what}=agent" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
        agent_dev.do("--no-merge", "--", "env", *author, "sh", "-ec", script)
        agent_dev.do("merge", "--commits", "--include-risky")


def expect_bounds(agent_dev: AgentDev, count: int) -> None:
    """Assert the bounds for 300 sessions; with fewer, add what the others would leave: a session like the oldest, and a merge."""
    entries, size = disk_use(*(agent_dev.home.parent / top for top in ("state", "cache", "config")))
    print(f"{count} sessions: {entries:,} files and directories, {size / 1e6:.1f} MB")  # noqa: T201
    if count < SESSIONS:
        folders = sorted((agent_dev.state / "sessions").iterdir())
        others = (max(map(disk_use, (agent_dev.state / "merges").iterdir())), max(map(disk_use, folders[:COMPLETE])))
        entries += sum(one[0] for one in others) * (SESSIONS - count)
        size += sum(one[1] for one in others) * (SESSIONS - count)
        entries += pack._MAX_FILES - disk_use(*folders[-COMPLETE - 1 : -1])[0]
        print(f"{SESSIONS} sessions: {entries:,} files and directories, {size / 1e6:.1f} MB")  # noqa: T201
    assert entries <= MOST_ENTRIES
    assert size <= LARGEST


def finish_cleaning(agent_dev: AgentDev) -> None:
    """Let a day pass, so that the next run starts the automatic cleaning; wait for its end."""
    mark, cache = agent_dev.state / "thinned", agent_dev.home.parent / "cache/agent-dev/old"
    cache.touch()
    for path in (mark, cache):
        os.utime(path, (0, 0))
    agent_dev.do("--no-merge", "--name", "last", "--", "touch", "waits")
    assert mark.stat().st_mtime > 0
    wait_until(lambda: not cache.exists(), "the last step of the cleaning", 120)
    wait_until(lambda: not os.listdir(agent_dev.state / "gone"), "the removed directories are deleted", 120)


@pytest.mark.slow
def test_many_small_merged_sessions_stay_within_the_bounds(agent_dev: AgentDev) -> None:
    count = SESSIONS if SCALE >= 100 else 2 * COMPLETE
    run_and_merge(agent_dev, range(count))
    finish_cleaning(agent_dev)
    expect_bounds(agent_dev, count)
    assert agent_dev.changes("last") == {"waits": "added"}
    agent_dev.do("undo")
    assert not (agent_dev.repo / f"src/{count - 1}").exists()
    merges = agent_dev.do("merges").splitlines()
    assert len([line for line in merges if "merged" in line]) >= count - 1, "a merge can no longer be undone"


@pytest.mark.slow
def test_sessions_with_imported_commits_stay_within_the_bounds(agent_dev: AgentDev) -> None:
    count = 2 * COMPLETE
    start = agent_dev.git("rev-parse", "HEAD")
    commit_and_import(agent_dev, range(count))
    finish_cleaning(agent_dev)
    expect_bounds(agent_dev, count)
    for number in reversed(range(count)):  # the newest are complete, the others archived
        agent_dev.do("undo")
        assert not (agent_dev.repo / f"src/{number}").exists()
    assert agent_dev.git("rev-parse", "HEAD") == start
