"""Ignored paths: they match a rule of the real tree and have nothing to do with a tracked file."""

import os
import subprocess
from pathlib import Path

import pytest

from agent_dev.git import check_ignore

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/dev/null"}
TRACKED = ("kept/here.log", "a[b].log", "*.log", "deep/er/x.log", "plain.c")
PATHS = (
    *("new.log", "kept/here.log", "kept/other.log", "kept", "a[b].log", "ab.log", "deep", "deep/er", "deep/er/y.log"),
    *("plain.c/under.log", "plain.c", "module", "module/inside.log", "new.c", "link/behind.log", "\udcff.log", ":!x.log"),
)


def git(folder: Path, *words: str) -> bytes:
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.invalid")
    return subprocess.run(("git", "-C", folder, *named, *words), env=ENVIRON, capture_output=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("*.log\nkept/\ndeep/\nmodule/\n")
    for name in TRACKED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    git(tmp_path, "init", "-q", "module")
    git(tmp_path / "module", "commit", "-q", "--allow-empty", "-m", "Start")
    git(tmp_path, "add", "-f", "--", ".gitignore", "module", *map(":(literal){}".format, TRACKED))
    (tmp_path / "link").symlink_to("deep")
    return tmp_path


@pytest.mark.parametrize("more", [0, 100], ids=["few directories", "many directories"])
def test_paths_with_a_tracked_file_are_not_ignored(repository: Path, more: int) -> None:
    names = [f"d{number}/x.log" for number in range(more)]
    found = check_ignore.find_ignored(str(repository), [os.fsencode(name) for name in (*PATHS, *names)], (), ENVIRON)

    ignored = ("new.log", "kept/other.log", "ab.log", "deep/er/y.log", "\udcff.log", ":!x.log", *names)
    assert {*map(os.fsdecode, found)} == {*ignored}


def test_nothing_is_ignored_if_git_cannot_read_the_index(repository: Path) -> None:
    (repository / ".git/index").write_bytes(b"DIRC damaged")

    assert check_ignore.find_ignored(str(repository), [b"new.log"], (), ENVIRON) == frozenset()
