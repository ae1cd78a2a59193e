"""Where the file system supports reflinks, checkpoints clone files, and each stored content matches its name (its SHA-256)."""

import fcntl
import hashlib
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent_dev.checkpoint import content_pool, rollback
from tests.harness.checkpointed_session import CheckpointedSession, state
from tests.harness.disks import loop_disk

HERE = "here"  # the file system of the tests, which may or may not support reflinks
KINDS = (HERE, "xfs", "btrfs") if os.getuid() == 0 else (HERE,)
SIZE = 100_000


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(kind: str, tmp_path: Path) -> Iterator[CheckpointedSession]:
    with ExitStack() as stack:
        folder = (tmp_path if kind == HERE else stack.enter_context(loop_disk.disk(kind)).folder) / "session"
        folder.mkdir()
        yield CheckpointedSession(folder)


@pytest.fixture
def only_clones(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == HERE:
        return

    def refused(*_: object) -> tuple[str, int]:
        raise AssertionError("it was copied")

    monkeypatch.setattr(content_pool.ContentPool, "_add_small", refused)
    monkeypatch.setattr(content_pool.ContentPool, "_add_large", refused)
    monkeypatch.setattr(content_pool, "_SLOW", 10**12)


def objects(world: CheckpointedSession) -> dict[str, str]:
    """Return the names of all stored contents with their actual SHA-256."""
    place = world.folder / "checkpoints/objects"
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.iterdir()}


def aged(path: Path) -> None:
    """Wait until a file's ctime is old enough to prove that the file is unchanged."""
    deadline = time.monotonic() + 30
    while os.stat(path).st_ctime_ns > time.time_ns() - 2 * content_pool.RECENT_NS:
        assert time.monotonic() < deadline


def concurrently(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call `act` after a file was cloned and before its source is read."""
    digest_of = content_pool.digest_of

    def disturbed(fd: int, *size: int) -> str:
        act()
        return digest_of(fd, *size)

    monkeypatch.setattr(content_pool, "digest_of", disturbed)


@pytest.mark.usefixtures("only_clones")
def test_files_share_their_extents_and_are_restored_unchanged(world: CheckpointedSession) -> None:
    for number in range(300):
        (world.upper / f"{number}").write_bytes(b"%d" % (number // 2) * SIZE)
    (world.upper / "large").write_bytes(b"large" * SIZE * 5)
    was, number = state(world.upper), world.take_checkpoint()
    assert world.count_contents() == 151
    assert {name: name for name in objects(world)} == objects(world)
    for path in world.upper.iterdir():
        path.unlink()
    rollback.roll_back_ended(world.listed, number)
    assert state(world.upper) == was


def test_a_file_written_between_clone_and_hash_is_named_by_the_clone(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.upper / "file"
    path.write_bytes(b"a" * SIZE)
    aged(path)
    concurrently(monkeypatch, lambda: path.write_bytes(os.urandom(SIZE)))
    world.take_checkpoint()
    assert {name: name for name in objects(world)} == objects(world)


def test_a_file_written_through_a_dirty_mapping_is_named_by_the_clone(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.upper / "file"
    path.write_bytes(b"a" * SIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as mapped:
        mapped[0:1] = b"b"
        aged(path)

        def write() -> None:
            mapped[0:8] = os.urandom(8)

        concurrently(monkeypatch, write)
        world.take_checkpoint()
    assert {name: name for name in objects(world)} == objects(world)


def test_a_file_written_in_the_same_instant_is_not_cached_by_its_stat(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.upper / "file"
    path.write_bytes(b"a" * SIZE)
    clock = [path.stat().st_ctime_ns + 1]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    read: list[int] = []
    digest_of = content_pool.digest_of

    def noted(fd: int, *size: int) -> str:
        read.append(os.fstat(fd).st_ino)
        clock[0] += 10**9
        return digest_of(fd, *size)

    monkeypatch.setattr(content_pool, "digest_of", noted)
    world.take_checkpoint()
    assert path.stat().st_ino not in read[-1:]


@pytest.mark.parametrize("size", [SIZE, 3 << 20])
def test_a_partial_clone_of_a_killed_process_is_replaced(world: CheckpointedSession, size: int) -> None:
    (world.upper / "file").write_bytes(b"x" * size)
    part = world.folder / "checkpoints/objects" / hashlib.sha256(b"x" * size).hexdigest()
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 5)
    world.take_checkpoint()
    assert objects(world) == {part.name: part.name}


def test_after_a_slow_clone_some_files_are_copied(world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(content_pool._SLOW_PAUSE + 2):
        (world.upper / f"{number}").write_bytes(b"%d" % number * SIZE)
    monkeypatch.setattr(content_pool, "_SLOW", -1)
    cloned: list[int] = []
    ioctl = fcntl.ioctl

    def noted(target: int, request: int, source: int) -> int:
        cloned.append(source)
        return ioctl(target, request, source)

    monkeypatch.setattr(fcntl, "ioctl", noted)
    world.take_checkpoint()
    assert 1 <= len(cloned) <= 2  # on a file system without reflinks, the first attempt fails
    assert {name: name for name in objects(world)} == objects(world)
