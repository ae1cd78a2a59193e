"""Directory trees of agent-dev are removed completely, and nothing outside of them is."""

import os
from pathlib import Path
from typing import Any

import pytest

from agent_dev.fs import durable
from agent_dev.fs.rmtree import remove_tree
from tests.disk.fs.test_walk import make_deep
from tests.harness import trees
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory


def test_a_tree_with_all_file_types_is_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/f").write_bytes(b"x")
    (tree / "a/l").symlink_to("/etc/passwd")
    os.mkfifo(tree / "a/b/p")
    trees.whiteout(tree / "w")
    remove_tree(str(tree))

    assert os.listdir(tmp_path) == []


def test_a_missing_path_counts_as_removed(tmp_path: Path) -> None:
    remove_tree(str(tmp_path / "none"))


def test_a_single_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    remove_tree(str(tmp_path / "f"))

    assert os.listdir(tmp_path) == []


def test_a_symlink_is_removed_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/f").touch()
    (tmp_path / "l").symlink_to("kept")
    remove_tree(str(tmp_path / "l"))

    assert sorted(os.listdir(tmp_path)) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["f"]


def test_no_symlink_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(0o750)
    (tmp_path / "kept/f").touch()
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/dir").symlink_to(tmp_path / "kept")
    (tmp_path / "tree/up").symlink_to("..")
    remove_tree(str(tmp_path / "tree"))

    assert os.listdir(tmp_path / "kept") == ["f"]
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o750


def test_a_sibling_with_a_similar_name_stays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a2").mkdir()
    remove_tree(str(tmp_path / "a"))

    assert os.listdir(tmp_path) == ["a2"]


def test_a_tree_three_thousand_deep_is_removed(abyss: Path) -> None:
    (abyss / "tree").mkdir()
    make_deep(abyss / "tree")
    before = len(os.listdir("/proc/self/fd"))
    remove_tree(str(abyss / "tree"))

    assert os.listdir(abyss) == []
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o222, 0o333, 0o444, 0o555])
def test_an_unreadable_or_read_only_directory_is_removed(mode: int) -> None:
    def act() -> None:
        (place / "tree/work/work/in").mkdir(parents=True)
        (place / "tree/work/work/in/f").touch()
        (place / "tree/empty").mkdir()
        for closed in ("tree/work/work/in", "tree/work/work", "tree/empty"):
            (place / closed).chmod(mode)
        remove_tree(str(place / "tree"))

        assert os.listdir(place) == []

    with ordinary_users_directory() as place:
        call_as_ordinary_user(act)


@pytest.mark.parametrize("name", [b"\n", b"\xff", b" ", b"-rf", b"a" * 255])
def test_any_name_is_removed(tmp_path: Path, name: bytes) -> None:
    (tmp_path / "tree").mkdir()
    os.makedirs(os.path.join(os.fsencode(tmp_path), b"tree", name, name))
    remove_tree(str(tmp_path / "tree"))

    assert os.listdir(tmp_path) == []


def test_a_symlink_that_replaces_an_unreadable_directory_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tree/shut", "victim"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "victim").chmod(0o755)
    real = os.open
    swapped: list[bool] = []

    def swapping(path: str, *words: Any, **more: Any) -> int:
        if path == "shut" and not swapped:
            swapped.append(True)
            (tmp_path / "tree/shut").rmdir()
            (tmp_path / "tree/shut").symlink_to(tmp_path / "victim")
            raise PermissionError(13, "shut")
        return real(path, *words, **more)

    monkeypatch.setattr(os, "open", swapping)
    with pytest.raises(OSError, match="Not a directory"):
        remove_tree(str(tmp_path / "tree"))

    assert swapped
    assert (tmp_path / "victim").stat().st_mode & 0o777 == 0o755


def test_a_chmod_by_name_does_not_follow_symlinks(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "link").symlink_to("victim")
    os.mkfifo(tmp_path / "fifo", 0o600)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        durable.chmod_at(b"fifo", folder, 0o644)
        with pytest.raises(OSError, match="symbolic links"):
            durable.chmod_at(b"link", folder, 0o777)
    finally:
        os.close(folder)

    assert [oct((tmp_path / name).stat().st_mode & 0o777) for name in ("fifo", "victim")] == ["0o644", "0o644"]
