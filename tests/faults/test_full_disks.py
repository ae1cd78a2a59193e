"""A small ext4 or xfs with room for less and less, as an ordinary user: nothing is lost, and with room again all goes on.

Root may have blocks of ext4 that nobody else gets, so a disk is never quite full to it.
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
from agent_dev.fs import durable as disk
from agent_dev.fs.rmtree import remove_tree
from agent_dev.merge.engine import pending
from agent_dev.session import removal as ended
from tests.faults.test_kill_everywhere import AFTER, BEFORE, DEEDS, ENDS, World, differing
from tests.harness import faults, loop, trees, users
from tests.harness.trees import Tree

STRIDE = max(1, int(os.environ.get("AGENT_DEV_TEST_STRIDE", "29")) // 3)
SMALL = {"ext4": ("-N", "512"), "xfs": ("-i", "maxpct=1")}  # few inodes
WHERE = ("all of it", "the tree", "the state")  # what lies on the small file system


class Bytes:
    """What takes the blocks of a file system: one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = os.open(folder / "filler", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, left: int) -> None:
        """Leave so many blocks, and no more than that to whom they are not kept for."""
        block = os.statvfs(self._folder).f_frsize
        step = os.statvfs(self._folder).f_bavail
        while step:
            try:
                os.posix_fallocate(self._fd, os.fstat(self._fd).st_size, step * block)
            except OSError:  # no room for so much
                step //= 2
        os.ftruncate(self._fd, os.fstat(self._fd).st_size - left * block)
        disk.sync_all(str(self._folder))

    def give(self) -> None:
        """Leave all there is."""
        os.ftruncate(self._fd, 0)
        disk.sync_all(str(self._folder))


class Inodes:
    """What takes the inodes of a file system: empty files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "filler"
        self._folder.mkdir()

    def take(self, left: int) -> None:
        """Leave so many, as far as a file system hands them out one by one."""
        try:
            for number in itertools.count(len(os.listdir(self._folder))):
                os.close(os.open(self._folder / str(number), os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError:  # no inode is left
            self._give(left)

    def give(self) -> None:
        """Leave some hundreds."""
        self._give(400)

    def _give(self, count: int) -> None:
        most = len(os.listdir(self._folder))
        for number in range(max(0, most - count), most):
            os.unlink(self._folder / str(number))
        disk.sync_all(str(self._folder))


FILLERS: dict[str, type[Bytes | Inodes]] = {"bytes": Bytes, "inodes": Inodes}


@contextmanager
def world(small: Path, where: str) -> Iterator[World]:
    with TemporaryDirectory(dir=small) as here, TemporaryDirectory(dir=faults.quick()) as there:
        real = Path(there if where == "the state" else here)
        state = Path(there if where == "the tree" else here) / "state"
        one = World(real, state)
        one.let_go()
        yield one


def said(act: Callable[[], object]) -> str:
    """Act; return what a user is told who cannot have it, else ""."""
    try:
        act()
    except AgentDevError as error:
        return error.message
    return ""


def without_stages(one: World) -> Tree:
    """Return the tree but for what was staged beside it."""
    return {path: node for path, node in trees.read(one.ended.real).items() if not path.startswith(b".agent-dev-stage.")}


def expect_nothing_halfway(one: World) -> None:
    """Check that each path is as before or as after, whatever was at work; what was staged beside may still be there."""
    tree = without_stages(one)
    assert all(tree.get(path) in (BEFORE.get(path), AFTER.get(path)) for path in {*tree, *BEFORE, *AFTER}), differing(tree)


def tried(one: World, deed: str, filler: Bytes | Inodes, left: int, *, has_room_at_home: bool) -> tuple[str, bool]:
    """Do it with so much room; return on which side it ended, and whether it was done.

    `has_room_at_home`: the state directory lies elsewhere.
    """
    prepare, act = DEEDS[deed]
    prepare(one)
    begun = without_stages(one)
    filler.take(left)
    message = said(lambda: act(one))
    expect_nothing_halfway(one)
    if message.endswith("nothing was changed"):
        assert without_stages(one) == begun
        assert pending.listed(one.ended.store) == () or not has_room_at_home
    if not message:
        assert one.side() == ENDS[deed]
    said(one.recover)
    expect_nothing_halfway(one)
    filler.give()
    one.recover()
    side = one.expect_rest()
    if side != ENDS[deed]:
        act(one)
        assert one.expect_rest() == ENDS[deed]
    return side, not message


def every(small: Path, where: str, deed: str, filler: Bytes | Inodes) -> int:
    """Try it with more and more room, until there was enough three times; return how often it was tried."""
    sides, enough, count = set(), 0, 0
    for left in itertools.count(0, STRIDE):
        with world(small, where) as one:
            side, is_done = tried(one, deed, filler, left, has_room_at_home=where == "the tree")
        sides.add(side)
        enough, count = enough + is_done if is_done else 0, count + 1
        if enough == 3:
            break
    assert ENDS[deed] in sides
    return count


@pytest.mark.only_root
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("what", FILLERS)
@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("deed", DEEDS)
def test_on_a_full_disk_nothing_is_lost_and_with_room_again_it_goes_on(
    deed: str, kind: str, what: str, where: str, record_property: Callable[[str, object], None]
) -> None:
    if reason := loop.why_not(kind):
        pytest.skip(reason)
    with loop.disk(kind, *SMALL[kind]) as small, users.open_place() as told:
        os.chown(small.folder, users.NOBODY, users.NOBODY)
        small.folder.parent.chmod(0o755)

        def act() -> None:
            with mock.patch.object(ended, "remove_aside", remove_tree):  # nothing goes on in another process
                count = every(small.folder, where, deed, FILLERS[what](small.folder))
            (told / "count").write_text(str(count))

        users.as_ordinary(act)
        record_property("points", int((told / "count").read_text()))
