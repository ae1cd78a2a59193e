"""What a power cut could catch before a merge has begun: nothing is made to find a place, and a mark is always there."""

import os
from pathlib import Path

import pytest

from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.merge.engine import pending
from agent_dev.merge_engine import slots as stage
from agent_dev.session import store


def test_finding_a_place_for_staged_things_makes_nothing(tmp_path: Path) -> None:
    real, folder = tmp_path / "real", tmp_path / "merges"
    real.mkdir()
    folder.mkdir()
    times = [os.stat(place).st_mtime_ns for place in (real, folder)]
    tree = files.Tree(str(real))
    for place in (f"{folder}/stage", f"{real}/.agent-dev-stage.x"):
        assert stage.choose((place,), tree) == place
    assert stage.choose((f"{tmp_path}/is/not/there", f"{folder}/stage"), tree) == f"{folder}/stage"
    tree.close()
    assert [os.stat(place).st_mtime_ns for place in (real, folder)] == times
    assert os.listdir(real) == os.listdir(folder) == []


def test_a_place_on_another_file_system_is_not_chosen(tmp_path: Path) -> None:
    tree = files.Tree(str(tmp_path))
    assert stage.choose(("/dev/shm/agent-dev-stage", f"{tmp_path}/stage"), tree) == f"{tmp_path}/stage"
    tree.close()


def test_there_is_a_mark_at_every_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = store.Store(str(tmp_path))
    pending.add(place, "merge")
    seen: list[list[str]] = []
    monkeypatch.setattr(disk, "watcher", lambda *_: seen.append(sorted(os.listdir(place.pending))))
    pending.add(place, "merge", 1)
    seen.append(sorted(os.listdir(place.pending)))
    assert seen[0] == ["merge~0"]
    assert seen[-1] == ["merge~1"]
    assert all(len(names) == 1 for names in seen)
