"""Trees of thousands of nested directories: each command ends quickly, in bounded memory, and reports what it left out."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_dev.fs import walk
from agent_dev.fs.entry import TOO_DEEP, parents_of
from tests.harness.program import PYTHON, AgentDev
from tests.harness.scale import stride

BOUND = ("prlimit", f"--as={400 << 20}")  # one copy of all paths takes 170 MiB for the first tree, 360 MiB for the last
MAKE = """
import os, sys
open("other", "w").write("text")
for _ in range(int(sys.argv[1])):
    os.mkdir("d" * int(sys.argv[2]))
    os.chdir("d" * int(sys.argv[2]))
open("leaf", "w").write("text")
"""
TREES = [(1200, 240), (2000, 200), (6000, 20), (3000, 1)][:: min(2, stride(1))]


def run(agent_dev: AgentDev, *words: str, code: int = 0) -> str:
    done = agent_dev(*words, before=BOUND, timeout=180)
    assert done.returncode == code, done.stderr[-500:]
    return done.stdout


@pytest.mark.parametrize(("depth", "length"), TREES)
@pytest.mark.slow
def test_a_deep_tree_of_the_agent_slows_no_command(agent_dev: AgentDev, depth: int, length: int) -> None:
    run(agent_dev, "--no-merge", "--", PYTHON, "-c", MAKE, str(depth), str(length))
    changes = {change["path"]: change for change in json.loads(run(agent_dev, "status", "--json"))["changes"]}
    (deep,) = changes.keys() - {"other"}
    assert changes[deep]["conflict"] == f"{TOO_DEEP} merged"
    run(agent_dev, "diff")
    number = json.loads(run(agent_dev, "checkpoint", "--json"))["checkpoint"]
    run(agent_dev, "resume", "--", "rm", "other")
    run(agent_dev, "rollback", str(number))
    run(agent_dev, "merge", "--all", code=1)  # the deep directory is left
    assert (agent_dev.repo / "other").read_text() == "text"
    assert not (agent_dev.repo / deep.partition("/")[0]).exists()
    run(agent_dev, "undo")
    run(agent_dev, "discard")
    run(agent_dev, "clean", "--all")


def test_a_deep_tree_of_the_user_slows_no_command(agent_dev: AgentDev, tmp_path: Path) -> None:
    (agent_dev.repo / "deep").mkdir()
    subprocess.run([PYTHON, "-c", MAKE, "3000", "40"], cwd=agent_dev.repo / "deep", check=True)
    run(agent_dev, "--no-merge", "--", "sh", "-c", "echo new >new; echo changed >deep/other; rm -r deep/" + "d" * 40)
    paths = [change["path"] for change in json.loads(run(agent_dev, "status", "--json"))["changes"]]
    assert {"new", "deep/other"} <= set(paths)
    run(agent_dev, "merge", "--take", "new")
    assert (agent_dev.repo / "new").exists()
    done = agent_dev("backup", "once", "--to", tmp_path / "backup", agent_dev.repo, before=BOUND, timeout=180)
    assert "is not read and not kept" in done.stdout + done.stderr
    shutil.rmtree(tmp_path / "backup")
    subprocess.run(["rm", "-rf", agent_dev.repo / "deep"], check=True)


def test_parents_of_deep_paths_share_their_memory() -> None:
    path = b"/".join([b"d"] * 2000)
    assert parents_of(path + b"/x") == (*parents_of(path), path)
    assert all(one is other for one, other in zip(parents_of(path + b"/x"), parents_of(path + b"/y"), strict=True))


def test_a_deep_directory_is_reported_and_not_entered(tmp_path: Path) -> None:
    subprocess.run([PYTHON, "-c", MAKE, "50", "200"], cwd=tmp_path, check=True)
    found = list(walk.walk(str(tmp_path)))
    assert [one.is_too_deep for one in found] == [False] * (len(found) - 1) + [True]
    assert len(found) == 1 + 4097 // 201 + 1
    subprocess.run(["rm", "-rf", tmp_path / ("d" * 200)], check=True)
