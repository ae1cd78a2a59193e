"""The files that git's index identifies in a lower snapshot, for every kind of index; the repository is only read."""

from pathlib import Path

import pytest

from tests.disk.overlay.snapshot_world import is_in_index, stored, taken
from tests.harness.repository import age_index_entries, git, has_run, make_trap, plant_traps, repository, state_of

# --- the index ---


def test_the_index_is_copied_with_its_mtime(root: Path) -> None:
    taken(root)
    one, copy = (root / ".git/index").stat(), (root.parent / "base/index").stat()

    assert copy.st_mtime_ns == one.st_mtime_ns
    assert (root.parent / "base/index").read_bytes() == (root / ".git/index").read_bytes()


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_index_version_identifies_unchanged_files(root: Path, version: str) -> None:
    git(root, "update-index", "--index-version", version)

    assert is_in_index(taken(root), 0, b"sub/b.txt")


def test_with_a_torn_index_every_file_is_stored(root: Path) -> None:
    data = (root / ".git/index").read_bytes()
    (root / ".git/index").write_bytes(data[: len(data) // 2])
    one = taken(root)

    assert one.is_complete
    assert stored(one, "a.txt") == b"more\n"


def test_an_edited_file_that_git_tracks_and_a_rule_ignores_is_stored(root: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    (root / "kept.log").write_bytes(b"1\n")
    (root / "other.log").write_bytes(b"2\n")
    git(root, "add", "-f", "kept.log")
    (root / "kept.log").write_bytes(b"edited\n")
    one = taken(root)

    assert (stored(one, "kept.log"), stored(one, "other.log")) == (b"edited\n", None)


def test_a_split_index_loses_no_edit(root: Path) -> None:
    git(root, "update-index", "--split-index")
    (root / "a.txt").write_bytes(b"edited\n")
    one = taken(root)

    assert stored(one, "a.txt") == b"edited\n"
    assert is_in_index(one, 0, b"sub/b.txt")


def test_a_sha256_repository_gives_the_same_snapshot(tmp_path: Path) -> None:
    root = repository(tmp_path / "root", "--object-format=sha256")
    age_index_entries(root)
    (root / "a.txt").write_bytes(b"edited\n")
    one = taken(root)

    assert (is_in_index(one, 0, b"sub/b.txt"), stored(one, "a.txt")) == (True, b"edited\n")


def test_a_repository_without_commits_is_supported(tmp_path: Path) -> None:
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


def test_where_git_fails_every_file_is_stored(root: Path) -> None:
    (root / ".git/HEAD").write_text("nonsense\n")
    (root / "new").write_bytes(b"new")

    assert stored(taken(root), "new") == b"new"


# --- nothing of the repository is executed or written ---


def test_no_program_of_the_repository_is_executed(root: Path, tmp_path: Path) -> None:
    planted = make_trap(tmp_path / "traps")
    plant_traps(root / ".git", planted)
    (root / ".gitattributes").write_text("* filter=trap\n")
    (root / "a.txt").write_bytes(b"edited\n")
    (root / "new").write_bytes(b"new\n")
    one = taken(root)

    assert not has_run(planted)
    assert (stored(one, "a.txt"), stored(one, "new")) == (b"edited\n", b"new\n")


def test_the_planted_trap_itself_works(root: Path, tmp_path: Path) -> None:
    planted = make_trap(tmp_path / "traps")
    plant_traps(root / ".git", planted)
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
