"""Sparse files: each command ends in seconds, and holes stay holes."""

import json
import os
from pathlib import Path

import pytest

from tests.harness.program import AgentDev

SOON = 90  # seconds on a busy machine; reading one hole of 10 GiB takes 20 on an idle one
MAKE = "truncate -s {size} x; printf data | dd of=x bs=1 seek=5000000000 conv=notrunc status=none; truncate -s {size} empty"


def run(agent_dev: AgentDev, *words: str) -> str:
    done = agent_dev(*words, timeout=SOON)
    assert done.returncode == 0, done.stderr
    return done.stdout


def holds(path: Path, size: int) -> bool:
    """Return whether a file has this size, and contains only the one piece of data between holes."""
    with open(path, "rb") as file:
        place = os.lseek(file.fileno(), 0, os.SEEK_DATA)
        data = os.pread(file.fileno(), 4, 5_000_000_000)
    found = path.stat()
    return (found.st_size, data) == (size, b"data") and place >= 4_900_000_000 and found.st_blocks * 512 <= 1 << 20


@pytest.mark.parametrize("size", [10 << 30, 1 << 40])
def test_a_sparse_file_slows_no_command(agent_dev: AgentDev, size: int) -> None:
    real = agent_dev.repo / "x"
    run(agent_dev, "--no-merge", "--", "sh", "-c", MAKE.format(size=size))
    run(agent_dev, "status")
    run(agent_dev, "diff")
    number = json.loads(run(agent_dev, "checkpoint", "--json"))["checkpoint"]
    run(agent_dev, "resume", "--", "sh", "-c", "rm empty; echo 1 >x")
    run(agent_dev, "rollback", str(number))
    run(agent_dev, "merge", "--all", "--include-risky")
    assert holds(real, size)
    assert (agent_dev.repo / "empty").stat().st_blocks == 0
    run(agent_dev, "undo")
    assert not real.exists()
    run(agent_dev, "discard")
    run(agent_dev, "clean", "--all")


def test_a_sparse_file_in_the_users_tree_is_edited_quickly(agent_dev: AgentDev) -> None:
    size, real = 10 << 30, agent_dev.repo / "x"
    run(agent_dev, "--no-merge", "--", "sh", "-c", MAKE.format(size=size))
    run(agent_dev, "merge", "--all", "--include-risky")
    run(agent_dev, "--no-merge", "--", "sh", "-c", "chmod 600 x; printf more | dd of=empty bs=1 conv=notrunc status=none")
    assert "empty" in run(agent_dev, "status")
    run(agent_dev, "merge", "--all", "--include-risky")
    assert holds(real, size)
    assert real.stat().st_mode & 0o777 == 0o600
    with (agent_dev.repo / "empty").open("rb") as file:
        assert file.read(5) == b"more\0"
    run(agent_dev, "undo")
    assert holds(real, size)
    run(agent_dev, "backup", "once", str(agent_dev.repo), "--to", str(agent_dev.home.parent / "backups"))
