"""An import of commits includes the LFS contents that they name and the commits of submodules."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness.git.git_kinds import KINDS
from tests.harness.program import AgentDev

PICTURE = "agent's picture\n"
OID = hashlib.sha256(PICTURE.encode()).hexdigest()
STORED = f".git/lfs/objects/{OID[:2]}/{OID[2:4]}/{OID}"
DRAW = f'printf "{PICTURE[:-1]}\\n" >a.png && git add -A && git commit -qm Draw'


@pytest.fixture
def with_lfs(agent_dev: AgentDev) -> AgentDev:
    agent_dev.git("lfs", "install")
    (agent_dev.repo / ".gitattributes").write_text("*.png filter=lfs diff=lfs merge=lfs -text\n")
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-q", "-m", "Track pictures")
    return agent_dev


def run_import(agent_dev: AgentDev, *words: str, cwd: Path | None = None, code: int = 0) -> dict[str, Any]:
    done = agent_dev("merge", "--include-risky", "--commits", *words, "--json", cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_lfs_files_are_imported_with_their_commits(with_lfs: AgentDev) -> None:
    with_lfs("--", "sh", "-c", f"{DRAW} && echo other >b.png && git add b.png && git reset -q && rm b.png")
    assert run_import(with_lfs, "--as", "theirs", "--dry-run")["lfs"] == 1
    assert not (with_lfs.repo / ".git/lfs/objects").exists()
    assert run_import(with_lfs, "--as", "theirs")["lfs"] == 1
    assert [path.name for path in (with_lfs.repo / ".git/lfs/objects").rglob("*") if path.is_file()] == [OID]
    assert list((with_lfs.repo / ".git/lfs/tmp").iterdir()) == []
    with_lfs.git("checkout", "-q", "theirs")

    assert (with_lfs.repo / "a.png").read_text() == PICTURE
    with_lfs.git("lfs", "fsck")


@pytest.mark.parametrize(
    "forge",
    [
        f"chmod u+w {STORED}; tr a-z A-Z <a.png >{STORED}",
        f"echo more >>{STORED}",
        f"cp a.png /tmp/there; ln -sf /tmp/there {STORED}",
        f"rm {STORED}; mkfifo {STORED}",
        "mv .git/lfs /tmp/lfs; ln -s /tmp/lfs .git/lfs",
    ],
    ids=["other bytes", "more bytes", "a link", "a fifo", "links above it"],
)
def test_an_lfs_object_that_does_not_match_its_name_is_not_imported(with_lfs: AgentDev, forge: str) -> None:
    with_lfs("--", "sh", "-c", f"{DRAW}; {forge}; echo later >a.png")
    assert [row["path"] for row in run_import(with_lfs, code=1)["skipped"]] == ["a.png"]

    assert with_lfs.git("log", "-1", "--format=%s") == "Draw\n"
    assert [path for path in (with_lfs.repo / ".git").glob("lfs/**/*") if not path.is_dir()] == []


def test_forged_lfs_objects_are_reported(with_lfs: AgentDev) -> None:
    with_lfs("--", "sh", "-c", f"{DRAW}; chmod u+w {STORED}; tr a-z A-Z <a.png >{STORED}; echo later >a.png")

    assert f"{OID}: its content does not match its hash" in with_lfs("merge", "--include-risky", "--commits").stdout


MOVE = "git -C lib commit -q --allow-empty -m one && git -C lib commit -q --allow-empty -m two && git commit -qam Moved"


@pytest.mark.parametrize("kind", ["with a submodule", "a linked work tree with a submodule"])
def test_commits_of_a_submodule_are_imported(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    cwd = KINDS[kind](agent_dev, tmp_path).cwd
    refs = agent_dev.git("for-each-ref", "--format=%(objectname) %(refname)", cwd=cwd / "lib")
    agent_dev("--", "sh", "-c", MOVE, cwd=cwd)
    (row,) = run_import(agent_dev, cwd=cwd)["submodules"]
    (tmp_path / "library").rename(tmp_path / "gone")  # nothing can be fetched from it
    agent_dev.git("submodule", "update", cwd=cwd)

    assert row["reason"] is None
    assert agent_dev.git("log", "-2", "--format=%s", cwd=cwd / "lib") == "two\none\n"
    after = agent_dev.git("for-each-ref", "--format=%(objectname) %(refname)", cwd=cwd / "lib")
    assert sorted(after.splitlines()) == sorted([*refs.splitlines(), f"{row['commit']} {row['ref']}"])
    assert agent_dev.git("fsck", "--no-progress", "--no-dangling", cwd=cwd / "lib") == ""
    assert agent_dev.git("status", "--porcelain", cwd=cwd) == ""


def with_inner(agent_dev: AgentDev, folder: Path) -> Path:
    """Add a submodule `lib` that has a submodule `inner`, whose sources are moved away; return the repository."""
    for name in ("deep", "middle"):
        agent_dev.git("clone", "-q", agent_dev.repo, folder / name)
    add = ("-c", "protocol.file.allow=always", "submodule", "-q", "add")
    agent_dev.git(*add, folder / "deep", "inner", cwd=folder / "middle")
    agent_dev.git("commit", "-qm", "Add inner", cwd=folder / "middle")
    agent_dev.git(*add, folder / "middle", "lib")
    agent_dev.git("commit", "-qm", "Add lib")
    agent_dev.git("-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init", "--recursive")
    for name in ("deep", "middle"):
        (folder / name).rename(folder / f"{name} is gone")  # nothing can be fetched from it
    return agent_dev.repo


INNER = "cd lib/inner && echo deep >deep && git add deep && git commit -qm Deep && cd .. && git commit -qam Middle && cd .. "
BOTH = f"{INNER} && git commit -qam Top"


def test_commits_of_nested_submodules_are_imported(agent_dev: AgentDev, tmp_path: Path) -> None:
    place = with_inner(agent_dev, tmp_path)
    assert agent_dev("--", "sh", "-ec", BOTH).returncode == 0
    rows = run_import(agent_dev)["submodules"]
    agent_dev.git("submodule", "update", "--recursive")

    assert [(row["path"], row["reason"]) for row in rows] == [("lib", None), ("lib/inner", None)]
    assert (place / "lib/inner/deep").read_text() == "deep\n"
    for one in ("lib", "lib/inner"):
        assert agent_dev.git("fsck", "--no-progress", "--no-dangling", cwd=place / one) == ""
    assert agent_dev.git("status", "--porcelain") == ""


def test_a_nested_submodule_that_the_user_lacks_is_reported(agent_dev: AgentDev, tmp_path: Path) -> None:
    place = with_inner(agent_dev, tmp_path)
    assert agent_dev("--", "sh", "-ec", BOTH).returncode == 0
    agent_dev.git("submodule", "-q", "deinit", "-f", "inner", cwd=place / "lib")
    shutil.rmtree(place / ".git/modules/lib/modules/inner")
    rows = {row["path"]: row for row in run_import(agent_dev)["submodules"]}

    assert rows["lib"]["reason"] is None
    assert "stays in the session" in rows["lib/inner"]["reason"]


def test_lfs_files_of_a_submodule_are_imported_into_the_submodule(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev.git("lfs", "install")
    place = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    track = "echo '*.png filter=lfs diff=lfs merge=lfs -text' >.gitattributes"
    done = agent_dev("--", "sh", "-ec", f"cd lib; {track}; {DRAW}; cd ..; git commit -qam Moved")
    assert done.returncode == 0, done.stderr
    found = run_import(agent_dev)
    agent_dev.git("submodule", "update", cwd=place)

    assert (found["lfs"], found["rejected_lfs"]) == (1, [])
    assert (place / "lib/a.png").read_text() == PICTURE
    assert [path.name for path in (place / ".git/modules/lib/lfs/objects").rglob("*") if path.is_file()] == [OID]
    assert not (place / ".git/lfs/objects").exists()
    agent_dev.git("lfs", "fsck", cwd=place / "lib")


def test_forged_lfs_objects_of_a_submodule_are_not_imported(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev.git("lfs", "install")
    place = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    track = "echo '*.png filter=lfs diff=lfs merge=lfs -text' >.gitattributes"
    stored = STORED.replace(".git/", ".git/modules/lib/")
    forge = f"cd ..; chmod u+w {stored}; tr a-z A-Z <lib/a.png >{stored}"
    assert agent_dev("--", "sh", "-ec", f"cd lib; {track}; {DRAW}; {forge}; git commit -qam Moved").returncode == 0

    assert run_import(agent_dev, code=1)["rejected_lfs"] == [OID]
    assert [path for path in (place / ".git/modules/lib/lfs").rglob("*") if path.is_file()] == []


def test_hostile_commits_of_a_submodule_are_not_imported_but_the_rest_is(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    before = agent_dev.git("count-objects", "-v", cwd=cwd / "lib")
    tree = "printf '40000 .git\\0' >/tmp/t; git rev-parse HEAD^{tree} | xxd -r -p >>/tmp/t"
    bad = f"cd lib; {tree}; new=$(git commit-tree -m bad $(git hash-object -t tree -w --literally /tmp/t))"
    agent_dev("--", "sh", "-c", f"{bad}; git update-ref HEAD $new; cd ..; git add lib; git commit -qm Moved", cwd=cwd)
    (row,) = run_import(agent_dev, cwd=cwd)["submodules"]

    assert agent_dev.git("log", "-1", "--format=%s", cwd=cwd) == "Moved\n"
    assert "hasDotgit" in row["reason"]
    assert row["ref"] is None
    assert agent_dev.git("for-each-ref", "refs/agent-dev", cwd=cwd / "lib") == ""
    assert agent_dev.git("count-objects", "-v", cwd=cwd / "lib") == before


def test_commits_of_a_new_submodule_are_reported_as_not_imported(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    new = "git init -q /tmp/n; git -C /tmp/n commit -q --allow-empty -m first"
    agent_dev(
        "--", "sh", "-c", f"{new}; git -c protocol.file.allow=always submodule -q add /tmp/n new; git commit -qm New", cwd=cwd
    )

    assert "stays in the session" in agent_dev("merge", "--include-risky", "--commits", cwd=cwd).stdout
