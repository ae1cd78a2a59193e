"""Imports and undos of commits work in every kind of repository and leave `git status` clean."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, git, repository


def sha256(place: Path) -> Path:
    return repository(place, "--object-format=sha256")


def packed(place: Path) -> Path:
    repository(place)
    git(place, "gc", "-q")
    return place


def borrowed(place: Path) -> Path:
    repository(place.with_name("lender"))
    git(place.parent, "clone", "-q", "--shared", "lender", place.name)
    return place


def shallow(place: Path) -> Path:
    repository(place.with_name("whole"))
    git(place.parent, "clone", "-q", "--depth", "1", f"file://{place.parent}/whole", place.name)
    return place


def partial(place: Path) -> Path:
    whole = repository(place.with_name("whole"))
    git(whole, "config", "uploadpack.allowFilter", "true")
    git(place.parent, "clone", "-q", "--filter=blob:none", f"file://{whole}", place.name)
    return place


def sparse(place: Path) -> Path:
    repository(place)
    git(place, "sparse-checkout", "set", "--no-cone", "/a.txt")
    return place


def sparse_index(place: Path) -> Path:
    repository(place)
    (place / "more/deep").mkdir(parents=True)
    (place / "more/deep/file").write_text("m")
    commit(place, "more")
    git(place, "sparse-checkout", "set", "--cone", "--sparse-index", "sub")
    return place


def below_a_bare_one(place: Path) -> Path:
    repository(place.with_name("whole"))
    git(place.parent, "clone", "-q", "--bare", "whole", "bare.git")
    git(place.with_name("bare.git"), "worktree", "add", "-q", str(place))
    return place


def separate(place: Path) -> Path:
    return repository(place, f"--separate-git-dir={place.with_name('elsewhere.git')}")


def submodule(place: Path) -> Path:
    inner = repository(place.with_name("inner"))
    outer = repository(place.with_name("outer"))
    git(outer, "submodule", "add", "-q", str(inner), "sub module")
    commit(outer, "submodule")
    return outer / "sub module"


def index_version_4(place: Path) -> Path:
    repository(place)
    git(place, "update-index", "--index-version", "4")
    return place


def without_commits(place: Path) -> Path:
    place.mkdir()
    git(place, "init", "-q")
    return place


KINDS: dict[str, Callable[[Path], Path]] = {
    "sha256": sha256,
    "packed": packed,
    "borrowed": borrowed,
    "shallow": shallow,
    "partial": partial,
    "sparse": sparse,
    "a sparse index": sparse_index,
    "below a bare one": below_a_bare_one,
    "separate": separate,
    "a submodule": submodule,
    "an index of version 4": index_version_4,
    "without commits": without_commits,
}


@pytest.mark.parametrize("kind", KINDS)
def test_commits_are_imported_and_undone(tmp_path: Path, kind: str) -> None:
    root = KINDS[kind](tmp_path / "root")
    git(root, "config", "user.name", "Grace")
    before = git(root, "for-each-ref"), git(root, "status", "--porcelain", "--branch")
    with GitSession(tmp_path, root) as session:
        session.write("a.txt", "agent\n")
        session.write("new/file", "n\n")
        session.run_agent_git("add", "--sparse", "a.txt", "new/file")
        session.run_agent_git("commit", "-q", "-m", "one")
        session.end()
        start = session.files()
        done = session.import_commits()

        assert done.merge, (done.reason, done.conflicts)
        assert git(root, "status", "--porcelain") == ""
        assert git(root, "log", "-1", "--format=%s").strip() == "one"
        assert (root / "a.txt").read_text() == "agent\n"
        assert (root / "new/file").read_text() == "n\n"
        assert "error" not in git(root, "fsck", "--no-dangling", check=False)
        assert session.undo().skipped == ()
        assert session.files() == start
        assert (git(root, "for-each-ref"), git(root, "status", "--porcelain", "--branch")) == before
        session.redo()
        assert git(root, "status", "--porcelain") == ""
