"""Every entry of index files that git wrote is parsed correctly."""

from pathlib import Path

import pytest

from agent_dev.git.formats.index_format import GITLINK, parse_index
from tests.harness.repository import commit, git, repository


def entries(root: Path, oid_size: int = 20) -> list[tuple[bytes, str, int]]:
    return [(one.path, one.oid.hex(), one.mode) for one in parse_index((root / ".git/index").read_bytes(), oid_size)]


def reported(root: Path) -> list[tuple[bytes, str, int]]:
    """Return the entries of stage 0 that `git ls-files` lists."""
    listed = []
    for line in git(root, "ls-files", "-s", "-z").split("\0"):
        if line:
            facts, _, path = line.partition("\t")
            mode, oid, stage = facts.split()
            if stage == "0":
                listed.append((path.encode("utf-8", "surrogateescape"), oid, int(mode, 8)))
    return listed


NAMES = [
    "a",
    "a.b",
    "ab",
    "dir/a",
    "dir/b",
    "dir.x",
    "x" * 200,
    "ä",
    "with space",
    "new\nline",
    "tab\t",
    '"quoted"',
    *(f"n{n:04}" for n in range(300)),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "root")
    for name in NAMES:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(name)
    (root / "program").write_text("#!/bin/sh\n")
    (root / "program").chmod(0o755)
    (root / "link").symlink_to("a")
    commit(root, "names")
    return root


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_entry_matches_git_ls_files(root: Path, version: str) -> None:
    git(root, "update-index", "--index-version", version)

    assert entries(root) == reported(root)


@pytest.mark.parametrize("version", ["3", "4"])
def test_entries_with_extended_flags_match_git_ls_files(root: Path, version: str) -> None:
    (root / "later").touch()
    git(root, "add", "-N", "later")
    git(root, "update-index", "--skip-worktree", "a")
    git(root, "update-index", "--index-version", version)

    assert entries(root) == reported(root)


def test_a_sha256_index_matches_git_ls_files(tmp_path: Path) -> None:
    root = repository(tmp_path / "root", "--object-format=sha256")

    assert entries(root, 32) == reported(root)


def test_an_entry_has_the_stat_of_its_file(root: Path) -> None:
    status = (root / "dir/a").stat()
    (one,) = (entry for entry in parse_index((root / ".git/index").read_bytes()) if entry.path == b"dir/a")

    assert (one.size, one.mtime, one.ctime) == (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    assert one.inode == status.st_ino & 0xFFFFFFFF


@pytest.mark.parametrize("version", ["2", "4"])
def test_unmerged_paths_are_skipped(root: Path, version: str) -> None:
    git(root, "checkout", "-q", "-b", "other", "HEAD~1")
    (root / "a").write_text("theirs")
    commit(root, "theirs")
    git(root, "merge", "main", check=False)
    git(root, "update-index", "--index-version", version)

    assert entries(root) == reported(root)
    assert b"a" not in [path for path, _, _ in entries(root)]


def test_extensions_change_nothing(root: Path) -> None:
    for words in ("update-index --untracked-cache", "status", "write-tree", "update-index --fsmonitor"):
        git(root, *words.split())

    assert entries(root) == reported(root)


def test_a_submodule_is_an_entry(root: Path, tmp_path: Path) -> None:
    repository(tmp_path / "library")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "library"), "vendor")

    assert entries(root) == reported(root)
    assert GITLINK in {mode for _, _, mode in entries(root)}


def test_the_own_entries_of_a_split_index_are_read(root: Path) -> None:
    git(root, "update-index", "--split-index")
    (root / "a").write_text("edited")
    git(root, "add", "a")

    assert set(entries(root)) <= {*reported(root), *((b"", oid, mode) for _, oid, mode in reported(root))}
