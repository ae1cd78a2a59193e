"""A group counts as unwritable only if the user owns no file of it, and none below it that a delegation hands over."""

import os
from pathlib import Path

import pytest

from agent_dev.linux import cgroups

FILES = (
    "cgroup.procs",
    "memory.max",
    "a/cgroup.procs",
    "a/memory.max",
    "a/b/cgroup.procs",
    "a/b/c/cgroup.procs",
    "d/cgroup.procs",
)
NOT_HANDED_OVER = "a/memory.max"


@pytest.fixture
def group(tmp_path: Path) -> Path:
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path


@pytest.mark.parametrize("ours", ["", ".", "a", "a/b", "a/b/c", "d", *FILES])
def test_one_file_of_the_user_is_found_at_any_depth(group: Path, monkeypatch: pytest.MonkeyPatch, ours: str) -> None:
    number = os.stat(group / ours).st_ino if ours else -1
    monkeypatch.setattr(cgroups, "_is_ours", lambda found: found.st_ino == number)
    assert cgroups._is_unwritable(str(group)) is (ours in ("", NOT_HANDED_OVER))


def test_a_group_that_is_missing_or_has_too_many_below_may_be_writable(group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_is_ours", lambda _: False)
    assert not cgroups._is_unwritable(str(group / "missing"))
    assert cgroups._is_unwritable(str(group))
    monkeypatch.setattr(cgroups, "_MAX_GROUPS", 3)
    assert not cgroups._is_unwritable(str(group))
