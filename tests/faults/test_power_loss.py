"""Cut the power at any change to a real ext4 or xfs: after the next start the tree is entirely before or after, and nothing is
lost.

The state directory is on the same file system, or on another one that keeps its power: there a record may be durable although the
change that it describes is not.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import pytest

from agent_dev.fs import background_removal
from agent_dev.fs import durable as hand
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import pid_namespace
from agent_dev.merge import recover, undo
from agent_dev.merge_engine import pending_marks
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.disks import loop_disk
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults
from tests.harness.scale import stride
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

STRIDE = stride(29)  # the power is cut at every n-th change

BEFORE: Tree = {
    b"edited": Node(FILE, b"one\ntwo\n" * 2000, 0o644),
    b"gone": Node(FILE, b"gone", 0o600),
    b"dir": Node(DIRECTORY, b"", 0o2775),
    b"dir/lost": Node(FILE, b"lost"),
    b"turned": Node(DIRECTORY, b"", 0o755),
    b"turned/c": Node(FILE, b"c"),
    b"mode": Node(DIRECTORY, b"", 0o755),
    b"untouched": Node(FILE, b"mine", 0o640),
}
AFTER: Tree = {
    b"edited": Node(FILE, b"one\n2\nthree\n" * 3000, 0o755),
    b"link": Node(SYMLINK, b"edited", 0o777),
    b"turned": Node(FILE, b"a file now"),
    b"mode": Node(DIRECTORY, b"", 0o700),
    b"new": Node(DIRECTORY, b"", 0o750),
    b"new/x": Node(FILE, b"x" * 5000),
    b"shut": Node(DIRECTORY, b"", 0o500),
    b"untouched": Node(FILE, b"mine", 0o640),
}


class World:
    """An ended session on a file system of its own, with the commands on it."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.ended = EndedSession(folder, BEFORE, trees.upper_of(BEFORE, AFTER), state)
        os.close(self.ended.session.lock)
        self.real = str(self.ended.real)
        self.here = CommandContext(self.ended.store, self.real, self.real, ENVIRON)
        self.all = trees.differences(BEFORE, AFTER)

    def merge(self) -> None:
        self.ended.merge_all()

    def undo(self) -> None:
        undo.undo(self.here, "", lambda _: None)

    def redo(self) -> None:
        undo.redo(self.here, "", lambda _: None)

    def recover(self) -> None:
        recover.recover_root(self.ended.store, self.real, ENVIRON, lambda _: None)

    def expect_rest(self) -> str:
        tree = trees.read(self.ended.real)
        assert tree in (BEFORE, AFTER), {path for path in {*tree, *BEFORE, *AFTER} if tree.get(path) != BEFORE.get(path)}
        side = "before" if tree == BEFORE else "after"
        assert (self.ended.kinds(), self.ended.conflicts()) == ((self.all if side == "before" else {}), {}), side
        assert pending_marks.unfinished_merges(self.ended.store) == ()
        return side


ACTIONS: dict[str, tuple[tuple[Callable[[World], None], ...], str]] = {
    "merge": ((World.merge,), "after"),
    "undo": ((World.merge, World.undo), "before"),
    "redo": ((World.merge, World.undo, World.redo), "after"),
}


@contextmanager
def world(kind: str, where: str) -> Iterator[tuple[World, loop_disk.Disk]]:
    with loop_disk.disk(kind) as disk, tempfile.TemporaryDirectory() if where == "elsewhere" else nullcontext() as other:
        folder = disk.folder / "project"
        folder.mkdir()
        one = World(folder, Path(other) / "state" if other else folder / "state")
        hand.sync_file_system_of(str(disk.folder))
        with mock.patch.object(background_removal, "remove_in_background", remove_tree):  # no other process keeps the disk busy
            yield one, disk


@pytest.mark.only_root
@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("kind", loop_disk.SIZES)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_power_cut_anywhere_leaves_the_state_before_or_after(
    action: str, kind: str, where: str, record_property: Callable[[str, object], None]
) -> None:
    reason = loop_disk.missing_requirement(kind)
    if reason:
        pytest.skip(reason)
    (*prepare, act), end = ACTIONS[action]
    number, tried, more, sides = 1, 0, True, set()
    while more:
        with world(kind, where) as (one, disk):
            for earlier in prepare:
                earlier(one)
            hand.sync_file_system_of(str(disk.folder))
            more = faults.killed_at(number, lambda: act(one), before=disk.cut_power)
            if not more:
                disk.cut_power()
            disk.reboot()
            with mock.patch.object(pid_namespace, "boot_id", return_value="another one"):
                one.recover()
                sides.add(side := one.expect_rest())
            assert more or side == end, "success was reported"
        tried += 1
        number += STRIDE
    record_property("points", tried)
    assert sides == {"before", "after"}
