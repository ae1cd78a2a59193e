"""The free-space monitor and the cgroup limits: their decisions and requests, without a sandbox."""

import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_dev.checkpoint.content_pool import ContentPool
from agent_dev.fs.disk_space import ENOUGH, EXHAUSTED, LOW, FreeSpace
from agent_dev.linux import cgroups
from agent_dev.sandbox import cgroup_limits
from agent_dev.sandbox.cgroup_limits import LimitGroups

MIB = 1 << 20


class Disk:
    """A simulated disk of 1000 MiB with a settable free space."""

    def __init__(self, free: int) -> None:
        self.free = free

    def __call__(self, _: str | int) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=self.free, f_frsize=MIB, f_blocks=1000)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(800)
    monkeypatch.setattr(os, "statvfs", made)
    return made


def watch_over(place: Path, *more: Any) -> FreeSpace:
    return FreeSpace({str(place): os.statvfs(place)}, *more)


@pytest.mark.parametrize(
    ("free", "level"), [(800, ENOUGH), (451, ENOUGH), (449, LOW), (301, LOW), (299, EXHAUSTED), (0, EXHAUSTED)]
)
def test_the_merges_size_plus_a_tenth_stays_free(tmp_path: Path, disk: Disk, free: int, level: int) -> None:
    watch = watch_over(tmp_path)
    disk.free = free
    assert watch.check() == level
    assert bool(watch.reason) == (level != ENOUGH)


def test_data_written_before_the_first_check_counts(tmp_path: Path, disk: Disk) -> None:
    start = {str(tmp_path): os.statvfs(tmp_path)}
    disk.free = 0
    assert FreeSpace(start).check() == EXHAUSTED


def test_the_user_sets_the_minimum_of_free_space(tmp_path: Path, disk: Disk) -> None:
    watch = watch_over(tmp_path, 790 * MIB)
    assert watch.check() == ENOUGH
    disk.free = 794
    assert watch.check() == LOW


def test_on_a_nearly_full_disk_half_of_the_free_space_may_be_used(tmp_path: Path, disk: Disk) -> None:
    disk.free = 40
    watch = watch_over(tmp_path)
    assert watch.check() == ENOUGH
    disk.free = 29
    assert watch.check() == LOW


def test_less_free_space_shortens_the_check_interval(tmp_path: Path, disk: Disk) -> None:
    watch = watch_over(tmp_path, 0)
    pauses = []
    for disk.free in (800, 500, 420, 401):
        watch.check()
        pauses.append(watch.pause)
    assert pauses == sorted(pauses, reverse=True)
    assert pauses[0] > 100 > pauses[-1] >= 5


def test_checkpoint_contents_are_not_counted_twice(tmp_path: Path, disk: Disk) -> None:
    watch = watch_over(tmp_path, 0, str(tmp_path / "kept"))
    disk.free = 399
    assert watch.check() == LOW
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/content").write_bytes(os.urandom(4 * MIB))
    assert watch.check() == ENOUGH
    disk.free = 396
    assert watch.check() == LOW


@pytest.mark.parametrize("held", range(0, 800, 25))
def test_taking_a_checkpoint_ends_no_agent(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    """Everything in the session changed since the last checkpoint, and is copied as far as the free space allows."""
    monkeypatch.setattr(os, "fstatvfs", disk)
    watch, contents = watch_over(tmp_path), ContentPool(-1, held * MIB)
    disk.free -= held
    before = watch.check()
    with suppress(OSError):
        for _ in range(0, held, 5):
            contents.reserve_space(5 * MIB)
            disk.free -= 5
    assert watch.check() == before
    assert held > 100 or disk.free == 800 - 2 * held


# Control groups


def test_systemd_creates_a_scope_where_no_cgroup_can_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busctl, printed = tmp_path / "busctl", tmp_path / "said"
    busctl.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{printed}\n')
    busctl.chmod(0o755)
    monkeypatch.setattr(cgroup_limits, "possible_parents", lambda _: ())
    monkeypatch.setattr(cgroups, "groups_of", lambda _: {"": f"{tmp_path}/agent-dev-7.scope"})
    missing: list[str] = []
    group = LimitGroups("7", {"memory": 5 << 20, "processes": 9, "time": 1}, str(busctl), {}, missing.extend)
    group.add_process(42, "inner")
    words = printed.read_text().split()
    assert words[words.index("StartTransientUnit") :] == [
        *("StartTransientUnit", "ssa(sv)a(sa(sv))", "agent-dev-7.scope", "fail", "3", "PIDs", "au", "1", "42"),
        *("MemoryMax", "t", str(5 << 20), "TasksMax", "t", "9", "0"),
    ]
    assert group._groups.keys() == {"memory", "processes"}
    assert not missing


def test_without_a_usable_cgroup_nothing_is_limited_or_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_limits, "possible_parents", lambda _: (str(tmp_path),))  # not a cgroup
    missing: list[str] = []
    group = LimitGroups("7", {"memory": 5 << 20, "processes": 9, "time": 1}, "", {}, missing.extend)
    group.add_process(os.getpid(), "inner")
    assert not group._groups
    assert missing == ["memory", "processes"]
    assert list(tmp_path.iterdir()) == []


def test_a_limit_reached_in_a_cgroup_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_limits, "possible_parents", lambda _: ())
    monkeypatch.setattr(cgroups, "groups_of", lambda _: {"": f"{tmp_path}/agent-dev-7.scope"})
    (tmp_path / "agent-dev-7.scope").mkdir()
    group = LimitGroups("7", {"memory": 5 << 20, "processes": 9}, "/bin/true", {})
    group.add_process(42, "inner")
    assert group.reached_limit() == ""
    (tmp_path / "agent-dev-7.scope/pids.events").write_text("max 3\n")
    assert group.reached_limit() == "processes"
    (tmp_path / "agent-dev-7.scope/memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\n")
    assert group.reached_limit() == "memory"
