"""What git's index vouches for in a base, whatever its kind, and that nothing of the repository is executed or written."""

from pathlib import Path

import pytest

from tests.disk.base_world import old_repository, stored, taken
from tests.harness.repository import git, has_run, make_old, plant, repository, state_of, trap


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return old_repository(tmp_path / "root")


# --- the index ---


def test_the_index_is_copied_with_its_mtime(root: Path) -> None:
    taken(root)
    one, copy = (root / ".git/index").stat(), (root.parent / "base/index").stat()

    assert copy.st_mtime_ns == one.st_mtime_ns
    assert (root.parent / "base/index").read_bytes() == (root / ".git/index").read_bytes()


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_any_version_of_the_index_vouches(root: Path, version: str) -> None:
    git(root, "update-index", "--index-version", version)

    assert taken(root).is_in_index(0, b"sub/b.txt")


def test_a_torn_index_vouches_for_nothing_and_everything_is_stored(root: Path) -> None:
    data = (root / ".git/index").read_bytes()
    (root / ".git/index").write_bytes(data[: len(data) // 2])
    one = taken(root)

    assert one.is_complete
    assert stored(one, "a.txt") == b"more\n"


def test_a_split_index_loses_no_edit(root: Path) -> None:
    git(root, "update-index", "--split-index")
    (root / "a.txt").write_bytes(b"edited\n")
    one = taken(root)

    assert stored(one, "a.txt") == b"edited\n"
    assert one.is_in_index(0, b"sub/b.txt")


def test_a_repository_with_sha256_is_taken_alike(tmp_path: Path) -> None:
    root = repository(tmp_path / "root", "--object-format=sha256")
    make_old(root)
    (root / "a.txt").write_bytes(b"edited\n")
    one = taken(root)

    assert (one.is_in_index(0, b"sub/b.txt"), stored(one, "a.txt")) == (True, b"edited\n")


def test_a_repository_without_commits_is_taken(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q")
    (root / "x").write_bytes(b"x")

    assert stored(taken(root), "x") == b"x"


def test_a_nested_repository_without_a_commit_stops_nothing(root: Path) -> None:
    (root / "nested").mkdir()
    git(root / "nested", "init", "-q")
    (root / "nested/x").write_bytes(b"x")
    (root / "new").write_bytes(b"new")
    one = taken(root)

    assert b"nested/x" in one.entries(0)
    assert stored(one, "new") == b"new"


def test_without_git_every_file_is_stored(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/x").write_bytes(b"x")

    assert stored(taken(tmp_path / "root", git="", program=""), "x") == b"x"


def test_where_git_cannot_tell_every_file_is_stored(root: Path) -> None:
    (root / ".git/HEAD").write_text("nonsense\n")
    (root / "new").write_bytes(b"new")

    assert stored(taken(root), "new") == b"new"


# --- nothing of the repository is executed, nothing in it is written ---


def test_no_program_of_the_repository_is_executed(root: Path, tmp_path: Path) -> None:
    planted = trap(tmp_path / "traps")
    plant(root / ".git", planted)
    (root / ".gitattributes").write_text("* filter=trap\n")
    (root / "a.txt").write_bytes(b"edited\n")
    (root / "new").write_bytes(b"new\n")
    one = taken(root)

    assert not has_run(planted)
    assert (stored(one, "a.txt"), stored(one, "new")) == (b"edited\n", b"new\n")


def test_the_trap_of_that_test_works(root: Path, tmp_path: Path) -> None:
    planted = trap(tmp_path / "traps")
    plant(root / ".git", planted)
    (root / ".gitattributes").write_text("* filter=trap\n")
    git(root, "status", check=False)

    assert has_run(planted)


@pytest.mark.parametrize("word", ["", "--split-index", "--untracked-cache"])
def test_nothing_in_the_repository_is_written(root: Path, word: str) -> None:
    if word:
        git(root, "update-index", word)
    (root / "a.txt").write_bytes(b"edited\n")
    before = state_of(root)
    taken(root)

    assert state_of(root) == before
