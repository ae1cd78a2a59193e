"""Refs, reflogs and the stash in the agent's private git directory."""

from pathlib import Path

import pytest

from tests.disk.git.private_git_copy import PrivateClone, files_of, refs_of
from tests.harness.repository import commit, git, repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "root")


def test_loose_packed_and_symbolic_refs_are_all_copied(root: Path) -> None:
    for number in range(5):
        git(root, "branch", f"packed/{number}")
    git(root, "tag", "-a", "-m", "annotated", "v1")
    git(root, "pack-refs", "--all")
    git(root, "update-ref", "refs/heads/packed/0", "HEAD~1")
    git(root, "branch", "loose/deep/er")
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    git(root, "update-ref", "refs/bisect/bad", "HEAD")
    git(root, "update-ref", "refs/strange/x", "HEAD")

    assert refs_of(PrivateClone(root).enter()) == refs_of(root)


def test_a_detached_head_stays_detached(root: Path) -> None:
    git(root, "checkout", "-q", "HEAD~1")

    assert refs_of(PrivateClone(root).enter()) == refs_of(root)


def test_few_loose_refs_override_an_unchanged_packed_refs(root: Path) -> None:
    git(root, "branch", "other", "HEAD~1")
    git(root, "pack-refs", "--all")
    git(root, "update-ref", "refs/heads/other", "HEAD")
    clone = PrivateClone(root)

    assert (clone.copy / "packed-refs").read_bytes() == (root / ".git/packed-refs").read_bytes()
    assert refs_of(clone.enter()) == refs_of(root)


def test_many_loose_refs_override_packed_ones(root: Path) -> None:
    for number in range(150):
        git(root, "update-ref", f"refs/tags/t{number}", "HEAD~1")
    git(root, "pack-refs", "--all")
    head = git(root, "rev-parse", "HEAD").strip()
    for number in range(120):
        (root / f".git/refs/tags/t{number}").write_text(f"{head}\n")

    assert refs_of(PrivateClone(root).enter()) == refs_of(root)


def test_many_refs_are_written_to_one_file(root: Path) -> None:
    head = git(root, "rev-parse", "HEAD").strip()
    folder = root / ".git/refs/remotes/origin"
    folder.mkdir(parents=True)
    for number in range(2_000):
        (folder / f"b{number}").write_text(f"{head}\n")
    clone = PrivateClone(root)

    assert files_of(clone.copy / "refs") == set()
    assert refs_of(clone.enter()) == refs_of(root)


@pytest.mark.parametrize("data", [b"", b"nonsense\n", b"\xff\n", b"0" * 39 + b"\n", b"a\nb\n"])
def test_a_broken_ref_affects_no_other(root: Path, data: bytes) -> None:
    git(root, "branch", "fine")
    (root / ".git/refs/heads/broken").write_bytes(data)
    inside = PrivateClone(root).enter()

    commit(inside, "works")
    assert {"refs/heads/fine", "refs/heads/main"} <= set(git(inside, "for-each-ref", "--format=%(refname)").split())


def test_reflogs_are_copied(root: Path) -> None:
    assert git(PrivateClone(root).enter(), "reflog") == git(root, "reflog")


def test_the_users_stash_is_not_copied_and_the_agent_can_stash(root: Path) -> None:
    (root / "a.txt").write_text("stashed\n")
    git(root, "stash", "-q")
    clone = PrivateClone(root)
    inside = clone.enter()
    assert clone.made.removed_secrets == ("refs/stash",)
    assert git(inside, "stash", "list") == ""
    (inside / "a.txt").write_text("the agent's\n")
    git(inside, "stash", "-q")
    git(inside, "stash", "pop", "-q")
    assert (inside / "a.txt").read_text() == "the agent's\n"


def test_with_many_reflogs_only_those_of_head_and_the_branch_are_copied(root: Path) -> None:
    for number in range(250):
        log = root / f".git/logs/refs/heads/b{number}"
        log.write_text("")
    inside = PrivateClone(root).enter()

    assert files_of(inside / ".git/logs") == {"HEAD", "refs/heads/main"}
    assert git(inside, "reflog", "main") == git(root, "reflog", "main")


def test_a_repository_without_commits_works(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q")
    (root / "x").touch()
    inside = PrivateClone(root).enter()
    commit(inside, "first")

    assert git(inside, "log", "--format=%s").strip() == "first"
