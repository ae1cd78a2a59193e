"""Run commands as an ordinary user on a small ext4 or xfs with increasing free space: nothing is lost, and with free space again
the work continues.

ext4 may reserve blocks for root, so that the disk is never quite full for root.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest

from agent_dev.errors import AgentDevError
from agent_dev.fs import background_removal, durable
from agent_dev.fs.rmtree import remove_tree
from agent_dev.merge_engine import pending_marks
from tests.faults.test_kill_everywhere import ACTIONS, AFTER, BEFORE, ENDS, World, differing
from tests.harness import trees, users
from tests.harness.disks import loop_disk
from tests.harness.faults import faults
from tests.harness.scale import stride
from tests.harness.trees import Tree

STRIDE = max(1, stride(29) // 3)
SMALL = {"ext4": ("-N", "512"), "xfs": ("-i", "maxpct=1")}  # few inodes
WHERE = ("all of it", "the tree", "the state")  # the part that is on the small file system


class Bytes:
    """A filler of a file system's blocks: one large file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = os.open(folder / "filler", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, left: int) -> None:
        """Fill the file system except for `left` blocks; blocks reserved for root do not count."""
        block = os.statvfs(self._folder).f_frsize
        step = os.statvfs(self._folder).f_bavail
        while step:
            try:
                os.posix_fallocate(self._fd, os.fstat(self._fd).st_size, step * block)
            except OSError:  # not that many free blocks
                step //= 2
        os.ftruncate(self._fd, os.fstat(self._fd).st_size - left * block)
        durable.sync_file_system_of(str(self._folder))

    def give(self) -> None:
        """Free all blocks that the filler takes."""
        os.ftruncate(self._fd, 0)
        durable.sync_file_system_of(str(self._folder))


class Inodes:
    """A filler of a file system's inodes: empty files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "filler"
        self._folder.mkdir()

    def take(self, left: int) -> None:
        """Use all inodes except `left`, as far as the file system allocates them one by one."""
        try:
            for number in itertools.count(len(os.listdir(self._folder))):
                os.close(os.open(self._folder / str(number), os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError:  # no free inode
            self._give(left)

    def give(self) -> None:
        """Free some hundreds of inodes."""
        self._give(400)

    def _give(self, count: int) -> None:
        most = len(os.listdir(self._folder))
        for number in range(max(0, most - count), most):
            os.unlink(self._folder / str(number))
        durable.sync_file_system_of(str(self._folder))


FILLERS: dict[str, type[Bytes | Inodes]] = {"bytes": Bytes, "inodes": Inodes}


@contextmanager
def world(small: Path, where: str) -> Iterator[World]:
    with TemporaryDirectory(dir=small) as here, TemporaryDirectory(dir=faults.memory_directory()) as there:
        real = Path(there if where == "the state" else here)
        state = Path(there if where == "the tree" else here) / "state"
        one = World(real, state)
        one.let_go()
        yield one


def printed(act: Callable[[], object]) -> str:
    """Call `act`; return the message of its error, "" if it succeeds."""
    try:
        act()
    except AgentDevError as error:
        return error.message
    return ""


def without_stages(one: World) -> Tree:
    """Return the tree without stages."""
    return {path: node for path, node in trees.read(one.ended.real).items() if not path.startswith(b".agent-dev-stage.")}


def expect_nothing_halfway(one: World) -> None:
    """Assert that each path is as before or as after, also if a failed command left a stage."""
    tree = without_stages(one)
    assert all(tree.get(path) in (BEFORE.get(path), AFTER.get(path)) for path in {*tree, *BEFORE, *AFTER}), differing(tree)


def tried(one: World, action: str, filler: Bytes | Inodes, left: int, *, has_room_at_home: bool) -> tuple[str, bool]:
    """Run a command with `left` free blocks or inodes, then recover; return the side of the tree, and whether the command
    succeeded.

    `has_room_at_home`: the state directory is on another file system.
    """
    prepare, act = ACTIONS[action]
    prepare(one)
    begun = without_stages(one)
    filler.take(left)
    message = printed(lambda: act(one))
    expect_nothing_halfway(one)
    if message.endswith("nothing was changed"):
        assert without_stages(one) == begun
        assert pending_marks.unfinished_merges(one.ended.store) == () or not has_room_at_home
    if not message:
        assert one.side() == ENDS[action]
    printed(one.recover)
    expect_nothing_halfway(one)
    filler.give()
    one.recover()
    side = one.expect_rest()
    if side != ENDS[action]:
        act(one)
        assert one.expect_rest() == ENDS[action]
    return side, not message


def every(small: Path, where: str, action: str, filler: Bytes | Inodes) -> int:
    """Try a command with increasing free space until it succeeded three times in a row; return the number of tries."""
    sides, enough, count = set(), 0, 0
    for left in itertools.count(0, STRIDE):
        with world(small, where) as one:
            side, is_done = tried(one, action, filler, left, has_room_at_home=where == "the tree")
        sides.add(side)
        enough, count = enough + is_done if is_done else 0, count + 1
        if enough == 3:
            break
    assert ENDS[action] in sides
    return count


@pytest.mark.only_root
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("what", FILLERS)
@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("action", ACTIONS)
def test_on_a_full_disk_nothing_is_lost_and_with_free_space_work_continues(
    action: str, kind: str, what: str, where: str, record_property: Callable[[str, object], None]
) -> None:
    if reason := loop_disk.missing_requirement(kind):
        pytest.skip(reason)
    with loop_disk.disk(kind, *SMALL[kind]) as small, users.ordinary_users_directory() as reported:
        os.chown(small.folder, users.NOBODY, users.NOBODY)
        small.folder.parent.chmod(0o755)

        def act() -> None:
            with mock.patch.object(background_removal, "remove_in_background", remove_tree):  # not in another process
                count = every(small.folder, where, action, FILLERS[what](small.folder))
            (reported / "count").write_text(str(count))

        users.call_as_ordinary_user(act)
        record_property("points", int((reported / "count").read_text()))
