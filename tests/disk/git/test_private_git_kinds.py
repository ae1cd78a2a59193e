"""The agent's private git directory for other kinds of repositories: clones, submodules, linked worktrees."""

import shutil
from pathlib import Path

import pytest

from tests.disk.git.private_git_copy import PrivateClone, files_of, refs_of
from tests.harness.repository import commit, git, repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "root")


@pytest.mark.parametrize("options", [["--object-format=sha256"], ["--template="]])
def test_other_repository_formats_work(tmp_path: Path, options: list[str]) -> None:
    inside = PrivateClone(repository(tmp_path / "root", *options)).enter()
    commit(inside, "works")

    assert git(inside, "fsck", "--full") == ""


@pytest.mark.parametrize(
    "words", ["update-index --split-index", "update-index --index-version 4", "sparse-checkout set --sparse-index sub"]
)
def test_other_index_versions_work(root: Path, words: str) -> None:
    git(root, *words.split())
    inside = PrivateClone(root).enter()

    assert git(inside, "status", "--porcelain") == ""
    (inside / "sub/new").touch()
    commit(inside, "works")


def test_a_shallow_clone_works(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    inside = PrivateClone(tmp_path / "shallow").enter()
    commit(inside, "works")

    assert git(inside, "log", "--format=%s").split() == ["works", "second"]


@pytest.mark.parametrize("relative", [False, True])
def test_a_clone_with_alternates_works(*, root: Path, tmp_path: Path, relative: bool) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(root), "borrower")
    if relative:
        (tmp_path / "borrower/.git/objects/info/alternates").write_text("../../../root/.git/objects\n")
    commit(tmp_path / "borrower", "own")
    inside = PrivateClone(tmp_path / "borrower").enter()
    shutil.rmtree(root)

    assert git(inside, "log", "--format=%s").split() == ["own", "second", "first"]
    assert git(inside, "fsck", "--full") == ""


def test_a_clone_with_nested_alternates_works(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(root), "middle")
    commit(tmp_path / "middle", "middle")
    git(tmp_path, "clone", "-q", "--shared", str(tmp_path / "middle"), "last")
    inside = PrivateClone(tmp_path / "last").enter()

    assert git(inside, "log", "--format=%s").split() == ["middle", "second", "first"]


def test_circular_alternates_terminate(root: Path) -> None:
    (root / ".git/objects/info/alternates").write_text(f"{root}/.git/objects\n")

    assert len(PrivateClone(root).made.stores) >= 1


def test_a_submodule_works(root: Path, tmp_path: Path) -> None:
    repository(tmp_path / "library")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "library"), "vendor/library")
    commit(root, "with a library")
    inside = PrivateClone(root).enter()
    shutil.rmtree(tmp_path / "library")
    (inside / "vendor/library/new").touch()
    commit(inside / "vendor/library", "in the library")
    commit(inside, "new library")

    assert git(inside, "submodule", "status").split()[0] == git(inside / "vendor/library", "rev-parse", "HEAD").strip()
    assert git(inside / "vendor/library", "fsck", "--full") == ""
    assert git(root / "vendor/library", "log", "-1", "--format=%s").strip() == "second"


def test_submodules_with_slashes_and_nested_ones_have_their_own_stores(root: Path, tmp_path: Path) -> None:
    repository(tmp_path / "leaf")
    repository(tmp_path / "library")
    git(tmp_path / "library", "submodule", "--quiet", "add", str(tmp_path / "leaf"), "leaf")
    commit(tmp_path / "library", "with a leaf")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "library"), "a/b")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "leaf"), "a/c")
    git(root, "submodule", "--quiet", "update", "--init", "--recursive")
    commit(root, "with libraries")
    clone = PrivateClone(root)
    shown = [place for _, place in clone.made.stores]
    inside = clone.enter()

    assert len(shown) == len(set(shown)) == 4
    assert git(inside, "submodule", "status", "--recursive") == git(root, "submodule", "status", "--recursive")


def test_a_linked_worktree_has_its_own_index_and_no_others(root: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        git(root, "worktree", "add", "-q", str(tmp_path / name))
    one = root / ".git/worktrees/one"
    copy = PrivateClone(tmp_path / "one", linked=str(one)).copy

    assert (copy / "worktrees/one/index").read_bytes() == (one / "index").read_bytes()
    assert not (copy / "worktrees/two/index").exists()
    assert (copy / "worktrees/two/HEAD").read_bytes() == (root / ".git/worktrees/two/HEAD").read_bytes()


def test_a_commit_in_a_linked_worktree_works(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "one"))
    clone = PrivateClone(tmp_path / "one", linked=str(root / ".git/worktrees/one"))
    before = refs_of(root)
    # As in the sandbox, where the copy is mounted over the common directory.
    (root / ".git").rename(tmp_path / "aside")
    clone.copy.rename(root / ".git")
    alternates = root / ".git/objects/info/alternates"
    alternates.write_text(alternates.read_text().replace(clone.made.stores[0][1], clone.made.stores[0][0]))
    (tmp_path / "one/new").touch()
    commit(tmp_path / "one", "in the linked tree")

    assert git(tmp_path / "one", "log", "-1", "--format=%s").strip() == "in the linked tree"
    assert git(tmp_path / "one", "fsck", "--full") == ""
    shutil.rmtree(root / ".git")
    (tmp_path / "aside").rename(root / ".git")
    assert refs_of(root) == before


def test_a_linked_worktree_within_the_root_has_its_index(root: Path) -> None:
    git(root, "worktree", "add", "-q", "trees/one")
    copy = PrivateClone(root).copy

    assert (copy / "worktrees/one/index").read_bytes() == (root / ".git/worktrees/one/index").read_bytes()


@pytest.mark.parametrize(("part", "data"), [("HEAD", b""), ("HEAD", b"0" * 40 + b"\n"), ("commondir", b""), ("gitdir", b"")])
def test_an_incomplete_linked_worktree_is_left_out(root: Path, tmp_path: Path, part: str, data: bytes) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "one"))
    (root / ".git/worktrees/one" / part).write_bytes(data)
    inside = PrivateClone(root).enter()

    assert not (inside / ".git/worktrees/one").exists()
    commit(inside, "works")


def test_the_submodules_of_a_linked_worktree_borrow_their_objects(root: Path, tmp_path: Path) -> None:
    repository(tmp_path / "library")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "library"), "library")
    commit(root, "with a library")
    git(root, "worktree", "add", "-q", str(tmp_path / "one"))
    git(tmp_path / "one", "submodule", "--quiet", "update", "--init")
    own = root / ".git/worktrees/one/modules/library"
    clone = PrivateClone(tmp_path / "one", linked=str(own.parents[1]))

    assert files_of(clone.copy / "worktrees/one/modules/library/objects") == {"info/alternates"}
    stores = {Path(outside) for outside, _ in clone.made.stores}
    assert any(files_of(store) == files_of(own / "objects") for store in stores)
    assert len(stores) == 3
