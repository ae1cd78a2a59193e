"""The agent's private git directory is complete, separate from the user's, and stays valid while the user's git works."""

import os
from pathlib import Path

import pytest

from agent_dev.paths import RUN
from tests.disk.git.private_git_copy import HOST_ACTIONS, PrivateClone, files_of, refs_of
from tests.harness.repository import age_index_entries, commit, git, repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "root")


def test_the_copy_is_complete(root: Path) -> None:
    inside = PrivateClone(root).enter()

    assert git(inside, "log", "--format=%s").split() == ["second", "first"]
    assert refs_of(inside) == refs_of(root)
    assert git(inside, "fsck", "--full", "--strict") in ("", "notice: No default references\n")


def test_status_is_as_clean_as_outside(root: Path) -> None:
    (root / "new").touch()
    (root / "a.txt").write_text("edited\n")
    git(root, "add", "sub")
    inside = PrivateClone(root).enter()

    assert git(inside, "status", "--porcelain") == git(root, "status", "--porcelain")


def test_a_commit_stays_inside(root: Path) -> None:
    before = refs_of(root)
    inside = PrivateClone(root).enter()
    (inside / "made").write_text("by the agent\n")
    made = commit(inside, "agent's")

    assert refs_of(root) == before
    assert git(root, "cat-file", "-t", made, check=False).strip() != "commit"
    assert git(inside, "fsck", "--full") == ""


@pytest.mark.parametrize(
    "command", ["checkout -q -b x", "gc -q", "stash", "tag v1", "branch -D other", "reset -q --hard HEAD~1", "repack -qad"]
)
def test_changes_of_the_agent_change_nothing_outside(root: Path, command: str) -> None:
    git(root, "branch", "other")
    before = {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}
    inside = PrivateClone(root).enter()
    (inside / "a.txt").write_text("agent's\n")
    git(inside, *command.split())

    assert {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("action", HOST_ACTIONS)
def test_maintenance_by_the_users_git_does_not_break_the_agent(root: Path, action: str) -> None:
    inside = PrivateClone(root).enter()
    HOST_ACTIONS[action](root)

    assert git(inside, "log", "--format=%s").split() == ["second", "first"]
    assert git(inside, "fsck", "--full") == ""


@pytest.mark.parametrize("packed", [False, True])
def test_packed_and_loose_objects_are_hard_linked_into_the_object_store(*, root: Path, packed: bool) -> None:
    if packed:
        git(root, "gc", "-q")
    clone = PrivateClone(root)
    ((outside, shown),) = clone.made.stores

    assert shown == f"{RUN}/git/0/objects"
    assert files_of(Path(outside)) == files_of(root / ".git/objects") - {"info/alternates"}
    assert all(os.path.samefile(Path(outside) / name, root / ".git/objects" / name) for name in files_of(Path(outside)))


def test_the_copy_shares_no_inode_with_the_original(root: Path) -> None:
    git(root, "gc", "-q")
    copy = PrivateClone(root).copy
    inodes = {path.stat().st_ino for path in (root / ".git").rglob("*") if path.is_file()}

    assert [path for path in copy.rglob("*") if path.is_file() and path.stat().st_ino in inodes] == []


def test_the_copy_contains_no_object(root: Path) -> None:
    assert files_of(PrivateClone(root).copy / "objects") == {"info/alternates"}


def test_the_index_keeps_its_mtime(root: Path) -> None:
    age_index_entries(root)
    copy = PrivateClone(root).copy

    assert (copy / "index").stat().st_mtime_ns == (root / ".git/index").stat().st_mtime_ns
    assert (copy / "index").read_bytes() == (root / ".git/index").read_bytes()


def test_a_hook_stays_executable_and_samples_are_not_copied(root: Path) -> None:
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    (hook.parent / "update.sample").touch()
    copy = PrivateClone(root).copy

    assert os.access(copy / "hooks/pre-commit", os.X_OK)
    assert not (copy / "hooks/update.sample").exists()


@pytest.mark.parametrize(
    "name", ["index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock", "config.lock", "logs/HEAD.lock", "gc.pid"]
)
def test_no_lock_is_copied(root: Path, name: str) -> None:
    (root / ".git" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / ".git" / name).touch()
    inside = PrivateClone(root).enter()

    assert not [path for path in (inside / ".git").rglob("*") if path.name.endswith((".lock", "gc.pid"))]
    commit(inside, "works")


@pytest.mark.parametrize("name", ["lfs/objects/x", "annex/x", "agent-dev/x"])
def test_large_directories_and_agent_dev_files_are_not_copied(root: Path, name: str) -> None:
    (root / ".git" / name).parent.mkdir(parents=True)
    (root / ".git" / name).touch()

    assert not (PrivateClone(root).copy / name).exists()


def test_a_fifo_or_symlink_in_the_git_directory_does_not_hang(root: Path) -> None:
    os.mkfifo(root / ".git/fifo")
    (root / ".git/link").symlink_to("/etc/passwd")
    copy = PrivateClone(root).copy

    assert not (copy / "fifo").exists()
    assert os.readlink(copy / "link") == "/etc/passwd"


@pytest.mark.parametrize("state", ["MERGE_HEAD", "rebase", "bisect"])
def test_a_rebase_or_merge_in_progress_continues_inside(root: Path, state: str) -> None:
    git(root, "checkout", "-q", "-b", "other", "HEAD~1")
    (root / "a.txt").write_text("theirs\n")
    commit(root, "theirs")
    match state:
        case "MERGE_HEAD":
            git(root, "merge", "main", check=False)
        case "rebase":
            git(root, "rebase", "main", check=False)
        case _:
            git(root, "bisect", "start", "HEAD", "HEAD~1", check=False)
    inside = PrivateClone(root).enter()

    assert git(inside, "status") == git(root, "status")
