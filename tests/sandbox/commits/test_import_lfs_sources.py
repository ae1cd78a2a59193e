"""Imported LFS files get the content named by the commit's pointer from any store that has it; missing content is reported."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import AgentDev

MAKE = "head -c {} /dev/urandom >a.bin; git add -A; git commit -qm {}"


@pytest.fixture
def lfs(agent_dev: AgentDev) -> AgentDev:
    """Return a repository that contains an LFS file of 3,000 bytes."""
    agent_dev.git("lfs", "install")
    (agent_dev.repo / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (agent_dev.repo / "a.bin").write_bytes(bytes(range(250)) * 12)
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-q", "-m", "start")
    return agent_dev


def run(agent_dev: AgentDev, script: str) -> None:
    done = agent_dev("--no-merge", "--", "sh", "-ec", script)
    assert done.returncode == 0, done.stderr


def run_import(agent_dev: AgentDev, code: int = 0) -> dict[str, Any]:
    done = agent_dev("merge", "--include-risky", "--commits", "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def pointer(agent_dev: AgentDev, path: str = "a.bin") -> tuple[str, int]:
    """Return the SHA-256 and the size in the pointer of the last commit."""
    rows = dict(line.split(" ", 1) for line in agent_dev.git("show", f"HEAD:{path}").splitlines())
    return rows["oid"].removeprefix("sha256:"), int(rows["size"])


def is_content(agent_dev: AgentDev, path: str = "a.bin") -> bool:
    data = (agent_dev.repo / path).read_bytes()
    return (hashlib.sha256(data).hexdigest(), len(data)) == pointer(agent_dev, path)


def is_as_git_checks_it_out(agent_dev: AgentDev) -> bool:
    """Return whether the status is clean, and git checks out the same files from the user's own LFS store."""
    before = {path: path.read_bytes() for path in agent_dev.repo.glob("*.bin")}
    assert agent_dev.git("status", "--porcelain") == ""
    agent_dev.git("lfs", "fsck")
    for path in before:
        path.unlink()
    agent_dev.git("checkout", "--", ".")
    return before == {path: path.read_bytes() for path in agent_dev.repo.glob("*.bin")}


@pytest.mark.parametrize("size", [1024, 1 << 20, 23 << 20])
def test_lfs_files_of_any_size_are_checked_out(lfs: AgentDev, size: int) -> None:
    start = (lfs.repo / "a.bin").read_bytes()
    run(lfs, MAKE.format(size, "one"))
    run_import(lfs)

    assert (lfs.repo / "a.bin").stat().st_size == size
    assert is_content(lfs)
    assert is_as_git_checks_it_out(lfs)
    assert lfs("undo").returncode == 0
    assert (lfs.repo / "a.bin").read_bytes() == start
    assert lfs.git("status", "--porcelain") == ""


@pytest.mark.parametrize("size", [2000, 23 << 20])
def test_the_committed_lfs_content_is_checked_out_not_a_later_one(lfs: AgentDev, size: int) -> None:
    run(lfs, f"{MAKE.format(size, 'two')}; head -c {size + 1} /dev/urandom >a.bin")
    run_import(lfs)

    assert (lfs.repo / "a.bin").stat().st_size == size
    assert is_content(lfs)
    assert is_as_git_checks_it_out(lfs)


def test_the_lfs_content_of_another_branch_is_not_checked_out(lfs: AgentDev) -> None:
    run(
        lfs,
        f"git mv a.bin b.bin; git commit -qm rename; git checkout -q -b later; {MAKE.format(900, 'x').replace('a.bin', 'b.bin')}",
    )
    done = lfs("merge", "--include-risky", "--commits", "main")  # 900 random bytes may have no NUL, and look like odd text

    assert done.returncode == 0, done.stdout
    assert (lfs.repo / "b.bin").stat().st_size == 3000
    assert not (lfs.repo / "a.bin").exists()
    assert is_content(lfs, "b.bin")
    assert is_as_git_checks_it_out(lfs)


@pytest.mark.parametrize("size", [2000, 23 << 20])
def test_lfs_content_only_in_the_working_tree_is_checked_out_and_stored(lfs: AgentDev, size: int) -> None:
    run(lfs, f"{MAKE.format(size, 'one')}; rm -rf .git/lfs")
    run_import(lfs)

    assert is_content(lfs)
    assert is_as_git_checks_it_out(lfs)


def test_lfs_content_found_only_in_the_users_store_is_checked_out(lfs: AgentDev) -> None:
    start = (lfs.repo / "a.bin").read_bytes()
    (lfs.repo / "a.bin").write_bytes(b"second\n")
    lfs.git("commit", "-qam", "second")
    run(lfs, "git checkout -q HEAD~1 -- a.bin; git commit -qm back; echo other >a.bin; rm -rf .git/lfs")
    run_import(lfs)

    assert (lfs.repo / "a.bin").read_bytes() == start
    assert is_as_git_checks_it_out(lfs)


FORGE = (
    "find .git/lfs/objects -type f | while read f; do chmod u+w $f; tr '\\0-\\177' '\\1-\\200' <$f >/tmp/x; cp /tmp/x $f; done"
)


@pytest.mark.parametrize("forge", ["rm -rf .git/lfs", FORGE], ids=["nowhere", "other bytes"])
def test_missing_lfs_content_is_reported_and_its_pointer_checked_out(lfs: AgentDev, forge: str) -> None:
    run(lfs, f"{MAKE.format(2000, 'one')}; echo plain >plain; git add plain; git commit -qm plain; echo later >a.bin; {forge}")
    found = run_import(lfs, code=1)

    assert [row["path"] for row in found["skipped"]] == ["a.bin"]
    assert "git lfs pull" in found["skipped"][0]["reason"]
    assert (lfs.repo / "plain").read_text() == "plain\n"
    assert (lfs.repo / "a.bin").read_text().startswith("version https://git-lfs.github.com/spec/v1\n")
    assert lfs.git("status", "--porcelain") == ""
    assert lfs("undo").returncode == 0
    assert (lfs.repo / "a.bin").stat().st_size == 3000


def test_an_edit_of_the_user_blocks_the_checkout(lfs: AgentDev) -> None:
    run(lfs, MAKE.format(2000, "one"))
    (lfs.repo / "a.bin").write_bytes(b"mine")
    found = run_import(lfs, code=1)

    assert [row["path"] for row in found["conflicts"]] == ["a.bin"]
    assert (lfs.repo / "a.bin").read_bytes() == b"mine"


def test_lfs_files_with_a_changed_mode_keep_their_content(lfs: AgentDev, tmp_path: Path) -> None:
    run(lfs, "chmod +x a.bin; cp a.bin b.bin; git add -A; git commit -qm modes")
    run_import(lfs)

    assert (lfs.repo / "a.bin").stat().st_mode & 0o111
    assert is_content(lfs)
    assert is_content(lfs, "b.bin")
    assert is_as_git_checks_it_out(lfs)
    assert list(tmp_path.glob("**/agent-dev-stage*")) == []
