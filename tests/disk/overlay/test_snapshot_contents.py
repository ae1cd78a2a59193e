"""The content of a lower snapshot: the identity of every path, and the bytes of files that git's index does not identify."""

import os
import shutil
from pathlib import Path

import pytest

from agent_dev.fs.entry import FileType
from tests.disk.overlay.snapshot_world import is_in_index, stored, taken
from tests.harness.repository import commit, git

# --- identities ---


def test_every_path_has_its_identity(root: Path) -> None:
    (root / "link").symlink_to("a.txt")
    os.mkfifo(root / "pipe")
    (root / "empty").mkdir(0o700)
    entries = taken(root).entries(0)

    assert set(entries) == {b"a.txt", b"sub", b"sub/b.txt", b"link", b"pipe", b"empty"}
    for path, entry in entries.items():
        status = (root / os.fsdecode(path)).lstat()
        assert (entry.inode, entry.size, entry.mtime, entry.ctime) == (
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        assert entry.mode == status.st_mode & 0o7777
    assert entries[b"link"].target == b"a.txt"


@pytest.mark.parametrize("name", [b"\n", b"\xff\xfe", b"\x1b[2J", b" ", b'"', b"\\", "ä".encode()])
def test_any_name_round_trips(root: Path, name: bytes) -> None:
    with open(os.path.join(os.fsencode(root), name), "xb") as file:
        file.write(b"bytes")
    one = taken(root)

    assert one.entries(0)[name].type is FileType.FILE
    assert stored(one, os.fsdecode(name)) == b"bytes"


def test_the_roots_own_git_directory_is_excluded(root: Path) -> None:
    assert not any(path.startswith(b".git") for path in taken(root).entries(0))


def test_each_root_has_its_own_table(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x").write_bytes(b"x")
    one = taken(root, roots=(str(root), str(tmp_path / "other")))

    assert set(one.entries(1)) == {b"x"}
    assert Path(one.stored_path(1, b"x") or "").read_bytes() == b"x"


# --- bytes ---


def test_files_identified_by_the_index_are_not_stored(root: Path) -> None:
    one = taken(root)

    assert is_in_index(one, 0, b"a.txt")
    assert stored(one, "a.txt") is None


def test_an_edited_file_is_stored_raw(root: Path) -> None:
    (root / "a.txt").write_bytes(b"line\r\n\xff$Id$")
    one = taken(root)

    assert stored(one, "a.txt") == b"line\r\n\xff$Id$"
    assert not is_in_index(one, 0, b"a.txt")


def test_an_edit_with_the_same_size_and_mtime_is_stored(root: Path) -> None:
    before = (root / "a.txt").stat()
    (root / "a.txt").write_bytes(b"MORE\n")
    os.utime(root / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert stored(taken(root), "a.txt") == b"MORE\n"


def test_an_untracked_file_is_stored(root: Path) -> None:
    (root / "new").write_bytes(b"new")
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/new").write_bytes(b"deep")
    one = taken(root)

    assert (stored(one, "new"), stored(one, "deep/er/new")) == (b"new", b"deep")


def test_an_ignored_file_has_only_its_identity(root: Path) -> None:
    (root / ".gitignore").write_text("*.o\nbuild/\n")
    (root / "x.o").write_bytes(b"object")
    (root / "build").mkdir()
    (root / "build/y").write_bytes(b"built")
    one = taken(root)

    assert {b"x.o", b"build/y"} <= set(one.entries(0))
    assert (stored(one, "x.o"), stored(one, "build/y")) == (None, None)
    assert not is_in_index(one, 0, b"x.o")


def test_a_file_as_new_as_the_index_is_stored(root: Path) -> None:
    index = (root / ".git/index").stat().st_mtime_ns
    os.utime(root / "a.txt", ns=(index, index))
    git(root, "update-index", "--refresh", "-q", check=False)
    os.utime(root / ".git/index", ns=(index, index))
    one = taken(root)

    assert stored(one, "a.txt") == b"more\n"
    assert not is_in_index(one, 0, b"a.txt")


def test_an_edit_in_the_instant_of_a_commit_is_not_mistaken_for_it(root: Path) -> None:
    for number in range(5):
        (root / "a.txt").write_bytes(b"%d-a\n" % number)
        commit(root, "again")
        (root / "a.txt").write_bytes(b"%d-b\n" % number)
        one = taken(root)

        assert stored(one, "a.txt") == b"%d-b\n" % number
        shutil.rmtree(root.parent / "base")


def test_a_file_in_a_merge_conflict_is_stored(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "other", "HEAD~1")
    (root / "a.txt").write_text("theirs\n")
    commit(root, "theirs")
    git(root, "merge", "main", check=False)
    assert "UU a.txt" in git(root, "status", "--porcelain")

    assert stored(taken(root), "a.txt") == (root / "a.txt").read_bytes()


@pytest.mark.parametrize("word", ["--assume-unchanged", "--skip-worktree"])
def test_an_edit_of_an_assume_unchanged_file_is_stored(root: Path, word: str) -> None:
    git(root, "update-index", word, "a.txt")
    (root / "a.txt").write_bytes(b"overlooked\n")

    assert stored(taken(root), "a.txt") == b"overlooked\n"


def test_many_hard_links_of_one_file_are_stored_once_without_descriptors(root: Path) -> None:
    (root / "x").write_bytes(b"linked")
    for number in range(1_200):
        os.link(root / "x", root / f"x{number}")
    before = len(os.listdir("/proc/self/fd"))
    one = taken(root)

    assert len(os.listdir("/proc/self/fd")) == before
    assert {stored(one, f"x{number}") for number in range(1_200)} == {b"linked"}
    assert len(list((root.parent / "base/content").iterdir())) == 1
