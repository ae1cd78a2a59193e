"""Where a disk can share blocks a checkpoint does, and each content still is what its name says."""

import fcntl
import hashlib
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent_dev.checkpoint import content_pool as pool
from agent_dev.checkpoint import rollback
from tests.harness import loop
from tests.harness.checkpointed import World, state

HERE = "here"  # which may share blocks or not
KINDS = (HERE, "xfs", "btrfs") if os.getuid() == 0 else (HERE,)
SIZE = 100_000


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(kind: str, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        folder = (tmp_path if kind == HERE else stack.enter_context(loop.disk(kind)).folder) / "session"
        folder.mkdir()
        yield World(folder)


@pytest.fixture
def only_clones(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == HERE:
        return

    def refused(*_: object) -> tuple[str, int]:
        raise AssertionError("it was copied")

    monkeypatch.setattr(pool.Pool, "_add_small", refused)
    monkeypatch.setattr(pool.Pool, "_add_large", refused)
    monkeypatch.setattr(pool, "_SLOW", 10**12)


def objects(world: World) -> dict[str, str]:
    """The names of all contents, with what they should be."""
    place = world.folder / "checkpoints/objects"
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.iterdir()}


def aged(path: Path) -> None:
    """Wait until a file's times tell a change from none."""
    deadline = time.monotonic() + 30
    while os.stat(path).st_ctime_ns > time.time_ns() - 2 * pool.YOUNG:
        assert time.monotonic() < deadline


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something happen once a file is cloned and before its source is read."""
    digest_of = pool.digest_of

    def disturbed(fd: int, *size: int) -> str:
        act()
        return digest_of(fd, *size)

    monkeypatch.setattr(pool, "digest_of", disturbed)


@pytest.mark.usefixtures("only_clones")
def test_files_share_their_blocks_and_come_back_as_they_were(world: World) -> None:
    for number in range(300):
        (world.upper / f"{number}").write_bytes(b"%d" % (number // 2) * SIZE)
    (world.upper / "large").write_bytes(b"large" * SIZE * 5)
    was, number = state(world.upper), world.take()
    assert world.contents() == 151
    assert {name: name for name in objects(world)} == objects(world)
    for path in world.upper.iterdir():
        path.unlink()
    rollback.roll_back(world.listed, number)
    assert state(world.upper) == was


def test_a_file_that_is_written_between_its_clone_and_its_reading_is_named_by_what_was_cloned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.upper / "file"
    path.write_bytes(b"a" * SIZE)
    aged(path)
    meanwhile(monkeypatch, lambda: path.write_bytes(os.urandom(SIZE)))
    world.take()
    assert {name: name for name in objects(world)} == objects(world)


def test_so_is_one_that_is_written_through_a_mapping_which_was_dirty_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.upper / "file"
    path.write_bytes(b"a" * SIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as mapped:
        mapped[0:1] = b"b"
        aged(path)

        def write() -> None:
            mapped[0:8] = os.urandom(8)

        meanwhile(monkeypatch, write)
        world.take()
    assert {name: name for name in objects(world)} == objects(world)


def test_a_file_that_was_written_in_this_instant_is_not_named_by_its_source_however_long_that_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.upper / "file"
    path.write_bytes(b"a" * SIZE)
    clock = [path.stat().st_ctime_ns + 1]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    read: list[int] = []
    digest_of = pool.digest_of

    def noted(fd: int, *size: int) -> str:
        read.append(os.fstat(fd).st_ino)
        clock[0] += 10**9
        return digest_of(fd, *size)

    monkeypatch.setattr(pool, "digest_of", noted)
    world.take()
    assert path.stat().st_ino not in read[-1:]


@pytest.mark.parametrize("size", [SIZE, 3 << 20])
def test_a_part_that_a_killed_one_left_is_replaced(world: World, size: int) -> None:
    (world.upper / "file").write_bytes(b"x" * size)
    part = world.folder / "checkpoints/objects" / hashlib.sha256(b"x" * size).hexdigest()
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 5)
    world.take()
    assert objects(world) == {part.name: part.name}


def test_after_a_clone_that_took_long_some_files_are_copied(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(pool._PAUSE + 2):
        (world.upper / f"{number}").write_bytes(b"%d" % number * SIZE)
    monkeypatch.setattr(pool, "_SLOW", -1)
    cloned: list[int] = []
    ioctl = fcntl.ioctl

    def noted(target: int, request: int, source: int) -> int:
        cloned.append(source)
        return ioctl(target, request, source)

    monkeypatch.setattr(fcntl, "ioctl", noted)
    world.take()
    assert 1 <= len(cloned) <= 2  # here a first one may have failed
    assert {name: name for name in objects(world)} == objects(world)
