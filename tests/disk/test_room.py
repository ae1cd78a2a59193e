"""The watch over disks and the control groups: what they say and ask for, without a sandbox."""

import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_dev.checkpoint.content_pool import Pool
from agent_dev.fs.disk_space import FINE, LOW, NONE, Room
from agent_dev.sandbox import cgroup_limits as cgroup
from agent_dev.sandbox.cgroup_limits import Group

MIB = 1 << 20


class Disk:
    """A disk of 1000 MiB whose free space the test says."""

    def __init__(self, free: int) -> None:
        self.free = free

    def __call__(self, _: str | int) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=self.free, f_frsize=MIB, f_blocks=1000)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(800)
    monkeypatch.setattr(os, "statvfs", made)
    return made


def watch_over(place: Path, *more: Any) -> Room:
    return Room({str(place): os.statvfs(place)}, *more)


@pytest.mark.parametrize(("free", "level"), [(800, FINE), (451, FINE), (449, LOW), (301, LOW), (299, NONE), (0, NONE)])
def test_as_much_as_was_written_stays_free_for_the_merge_and_a_tenth_beside(
    tmp_path: Path, disk: Disk, free: int, level: int
) -> None:
    watch = watch_over(tmp_path)
    disk.free = free
    assert watch.look() == level
    assert bool(watch.why) == (level != FINE)


def test_what_the_agent_wrote_before_anybody_looked_counts(tmp_path: Path, disk: Disk) -> None:
    start = {str(tmp_path): os.statvfs(tmp_path)}
    disk.free = 0
    assert Room(start).look() == NONE


def test_the_user_says_how_much_stays_free(tmp_path: Path, disk: Disk) -> None:
    watch = watch_over(tmp_path, 790 * MIB)
    assert watch.look() == FINE
    disk.free = 794
    assert watch.look() == LOW


def test_on_a_disk_that_is_nearly_full_half_of_what_is_left_may_be_used(tmp_path: Path, disk: Disk) -> None:
    disk.free = 40
    watch = watch_over(tmp_path)
    assert watch.look() == FINE
    disk.free = 29
    assert watch.look() == LOW


def test_the_less_room_there_is_the_sooner_it_looks_again(tmp_path: Path, disk: Disk) -> None:
    watch = watch_over(tmp_path, 0)
    pauses = []
    for disk.free in (800, 500, 420, 401):
        watch.look()
        pauses.append(watch.pause)
    assert pauses == sorted(pauses, reverse=True)
    assert pauses[0] > 100 > pauses[-1] >= 5


def test_what_checkpoints_hold_need_not_fit_once_more(tmp_path: Path, disk: Disk) -> None:
    watch = watch_over(tmp_path, 0, str(tmp_path / "kept"))
    disk.free = 399
    assert watch.look() == LOW
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/content").write_bytes(os.urandom(4 * MIB))
    assert watch.look() == FINE
    disk.free = 396
    assert watch.look() == LOW


@pytest.mark.parametrize("held", range(0, 800, 25))
def test_a_checkpoint_that_is_taken_ends_no_agent(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    """All that the session holds changed since the one before, and is copied as far as there is room."""
    monkeypatch.setattr(os, "fstatvfs", disk)
    watch, contents = watch_over(tmp_path), Pool(-1, held * MIB)
    disk.free -= held
    before = watch.look()
    with suppress(OSError):
        for _ in range(0, held, 5):
            contents.leave_room(5 * MIB)
            disk.free -= 5
    assert watch.look() == before
    assert held > 100 or disk.free == 800 - 2 * held


# Control groups


def test_systemd_is_asked_for_a_scope_where_no_group_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busctl, said = tmp_path / "busctl", tmp_path / "said"
    busctl.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{said}\n')
    busctl.chmod(0o755)
    monkeypatch.setattr(cgroup, "places", lambda _: ())
    monkeypatch.setattr(cgroup, "_groups", lambda _: {"": f"{tmp_path}/agent-dev-7.scope"})
    group = Group("7", {"memory": 5 << 20, "processes": 9, "time": 1}, str(busctl), {})
    group.hold(42)
    words = said.read_text().split()
    assert words[words.index("StartTransientUnit") :] == [
        *("StartTransientUnit", "ssa(sv)a(sa(sv))", "agent-dev-7.scope", "fail", "3", "PIDs", "au", "1", "42"),
        *("MemoryMax", "t", str(5 << 20), "TasksMax", "t", "9", "0"),
    ]
    assert group.held == ("memory", "processes")


def test_without_any_way_nothing_is_held_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "places", lambda _: (str(tmp_path),))  # a folder that is no group
    group = Group("7", {"memory": 5 << 20}, "", {})
    group.hold(os.getpid())
    assert group.held == ()
    assert list(tmp_path.iterdir()) == []


def test_what_a_group_refused_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "places", lambda _: ())
    monkeypatch.setattr(cgroup, "_groups", lambda _: {"": f"{tmp_path}/agent-dev-7.scope"})
    (tmp_path / "agent-dev-7.scope").mkdir()
    group = Group("7", {"memory": 5 << 20, "processes": 9}, "/bin/true", {})
    group.hold(42)
    assert group.told() == ""
    (tmp_path / "agent-dev-7.scope/pids.events").write_text("max 3\n")
    assert group.told() == "processes"
    (tmp_path / "agent-dev-7.scope/memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\n")
    assert group.told() == "memory"
