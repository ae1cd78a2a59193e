"""A checkpoint of many new files is made by two processes, and holds what one alone would have stored."""

import errno
import fcntl
import hashlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import content_pool as pool
from agent_dev.checkpoint import rollback, snapshot
from agent_dev.errors import CheckpointFailed
from agent_dev.fs import fork_map as together
from tests.harness.checkpointed import World, state
from tests.harness.program import children


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / "session"
    folder.mkdir()
    return World(folder)


def full(_pool: pool.Pool, _size: int) -> None:
    raise OSError(errno.ENOSPC, "full")


def many(world: World) -> dict[str, object]:
    """Files enough for two processes, four of each content, and some that are cloned or copied in pieces."""
    for number in range(400):
        place = world.upper / f"{number % 7}" / f"{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"%d" % (number // 4) * 10_000)
    for number in range(20):
        (world.upper / f"large-{number}").write_bytes(b"large" * 300_000 + b"%d" % number)
    return state(world.upper)


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(together, "_may_fork", lambda: True)


@pytest.mark.usefixtures("two_processors")
def test_many_files_that_are_copied_by_two_processes_are_whole_and_each_content_is_stored_once(world: World) -> None:
    was, number = many(world), world.take()
    objects = world.folder / "checkpoints/objects"
    assert {path.name for path in objects.iterdir()} == {
        hashlib.sha256(path.read_bytes()).hexdigest() for path in objects.iterdir()
    }
    assert world.contents() == 120
    shutil.rmtree(world.upper)
    world.upper.mkdir()
    rollback.roll_back(world.listed, number)
    now = state(world.upper)
    assert {path: now[path] for path in was if path != "."} == {path: was[path] for path in was if path != "."}


@pytest.mark.usefixtures("two_processors")
def test_what_the_second_process_did_not_live_to_tell_is_done_by_the_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first, add = os.getpid(), pool.Pool.add

    def deadly(contents: pool.Pool, fd: int, size: int) -> tuple[str, int]:
        if os.getpid() != first:
            os.kill(os.getpid(), signal.SIGKILL)
        return add(contents, fd, size)

    monkeypatch.setattr(pool.Pool, "add", deadly)
    was, number = many(world), world.take()
    table = checkpoints.tables(world.session, checkpoints.find(world.session, number))["root-0"]
    assert {path for path, node in table.items() if node.content} == {path for path in was if (world.upper / path).is_file()}


@pytest.mark.usefixtures("two_processors")
def test_a_disk_that_is_full_stops_both_processes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    many(world)
    before = children(os.getpid())
    monkeypatch.setattr(pool.Pool, "leave_room", full)
    with pytest.raises(CheckpointFailed):
        world.take()
    assert (world.contents(), checkpoints.listed(world.session)) == (0, ())
    assert children(os.getpid()) == before


def test_a_file_that_became_another_thing_before_it_was_read_is_taken_as_that(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("folder", "gone", "link", "stays"):
        (world.upper / name).write_text(name)
    read = snapshot._Taking.read

    def meanwhile(taking: snapshot._Taking) -> None:
        for name in ("folder", "gone", "link"):
            (world.upper / name).unlink()
        (world.upper / "folder").mkdir()
        (world.upper / "link").symlink_to("/somewhere")
        read(taking)

    monkeypatch.setattr(snapshot._Taking, "read", meanwhile)
    made = checkpoints.find(world.session, world.take())
    table = checkpoints.tables(world.session, made)["root-0"]
    assert {path: node.kind for path, node in table.items()} == {"": "dir", "link": "symlink", "stays": "file"}
    assert made.problems == ("folder: it became a directory meanwhile",)


@pytest.mark.usefixtures("two_processors")
def test_one_that_is_killed_while_two_processes_copy_is_not_there_takes_both_along_and_the_next_is_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    was, add = many(world), pool.Pool.add
    begun, begins = os.pipe()
    pid = os.fork()
    if pid == 0:
        taker = os.getpid()

        def deadly(contents: pool.Pool, fd: int, size: int) -> tuple[str, int]:
            if os.getpid() == taker:
                os.read(begun, 1)  # until the other one is at it
                os.kill(taker, signal.SIGKILL)
            made = add(contents, fd, size)
            os.write(begins, b"x")
            signal.alarm(60)  # should nobody end it, so that it outlives no run
            signal.pause()
            return made

        monkeypatch.setattr(pool.Pool, "add", deadly)
        try:
            world.take()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert checkpoints.listed(world.session) == ()
    wait_for_lock(world.folder / "checkpoints")
    number = world.take()
    for path in world.upper.glob("large-*"):
        path.unlink()
    rollback.roll_back(world.listed, number)
    assert state(world.upper) == was
    os.close(begun)
    os.close(begins)


def wait_for_lock(folder: Path) -> None:
    """Wait until nobody holds the lock of the checkpoints, and whoever did has ended."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    deadline = time.monotonic() + 30
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            assert time.monotonic() < deadline, "the other process lives on"
    os.close(fd)
