"""Before a merge begins, a power cut cannot leave files behind: a stage is found without writing, and a pending mark exists."""

import os
from pathlib import Path

import pytest

from agent_dev.fs import dir_tree, durable
from agent_dev.merge_engine import pending_marks, slots
from agent_dev.session import store


def test_finding_a_staging_directory_creates_nothing(tmp_path: Path) -> None:
    real, folder = tmp_path / "real", tmp_path / "merges"
    real.mkdir()
    folder.mkdir()
    times = [os.stat(place).st_mtime_ns for place in (real, folder)]
    tree = dir_tree.Tree(str(real))
    for place in (f"{folder}/stage", f"{real}/.agent-dev-stage.x"):
        assert slots.find_stage_path((place,), tree) == place
    assert slots.find_stage_path((f"{tmp_path}/is/not/there", f"{folder}/stage"), tree) == f"{folder}/stage"
    tree.close()
    assert [os.stat(place).st_mtime_ns for place in (real, folder)] == times
    assert os.listdir(real) == os.listdir(folder) == []


def test_a_staging_directory_on_another_file_system_is_not_used(tmp_path: Path) -> None:
    tree = dir_tree.Tree(str(tmp_path))
    assert slots.find_stage_path(("/dev/shm/agent-dev-stage", f"{tmp_path}/stage"), tree) == f"{tmp_path}/stage"
    tree.close()


def test_a_pending_mark_exists_at_every_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = store.Store(str(tmp_path))
    pending_marks.mark_pending(place, "merge")
    seen: list[list[str]] = []
    monkeypatch.setattr(durable, "hook", lambda *_: seen.append(sorted(os.listdir(place.pending))))
    pending_marks.mark_pending(place, "merge", 1)
    seen.append(sorted(os.listdir(place.pending)))
    assert seen[0] == ["merge~0"]
    assert seen[-1] == ["merge~1"]
    assert all(len(names) == 1 for names in seen)
