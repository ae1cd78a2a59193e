"""Two processes take one checkpoint of many new files; it contains what a single process would have stored."""

import errno
import fcntl
import hashlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store, content_pool, rollback, snapshot
from agent_dev.errors import CheckpointFailed
from agent_dev.fs import fork_map
from tests.harness.checkpointed_session import CheckpointedSession, state
from tests.harness.program import children


def full(_pool: content_pool.ContentPool, _size: int) -> None:
    raise OSError(errno.ENOSPC, "full")


def many(world: CheckpointedSession) -> dict[str, object]:
    """Create enough files for two processes: four with each content, and large ones that are cloned or copied in pieces."""
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
    monkeypatch.setattr(fork_map, "_may_fork", lambda: True)


@pytest.mark.usefixtures("two_processors")
@pytest.mark.parametrize("batch", [1, 100, 20_000])  # files
def test_files_copied_by_two_processes_are_whole_and_stored_once(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(snapshot, "_FILES_AT_ONCE", batch)
    was, number = many(world), world.take_checkpoint()
    objects = world.folder / "checkpoints/objects"
    assert {path.name for path in objects.iterdir()} == {
        hashlib.sha256(path.read_bytes()).hexdigest() for path in objects.iterdir()
    }
    assert world.count_contents() == 120
    shutil.rmtree(world.upper)
    world.upper.mkdir()
    rollback.roll_back_ended(world.listed, number)
    now = state(world.upper)
    assert {path: now[path] for path in was if path != "."} == {path: was[path] for path in was if path != "."}


@pytest.mark.usefixtures("two_processors")
def test_the_first_process_completes_unreported_work_of_a_dead_second(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, add = os.getpid(), content_pool.ContentPool.add

    def deadly(contents: content_pool.ContentPool, fd: int, size: int) -> tuple[str, int]:
        if os.getpid() != first:
            os.kill(os.getpid(), signal.SIGKILL)
        return add(contents, fd, size)

    monkeypatch.setattr(content_pool.ContentPool, "add", deadly)
    was, number = many(world), world.take_checkpoint()
    table = checkpoint_store.read_tables(world.session, checkpoint_store.find_checkpoint(world.session, number))["root-0"]
    assert {path for path, node in table.items() if node.content} == {path for path in was if (world.upper / path).is_file()}


@pytest.mark.usefixtures("two_processors")
def test_a_full_disk_stops_both_processes(world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    many(world)
    before = children(os.getpid())
    monkeypatch.setattr(content_pool.ContentPool, "reserve_space", full)
    with pytest.raises(CheckpointFailed):
        world.take_checkpoint()
    assert (world.count_contents(), checkpoint_store.list_checkpoints(world.session)) == (0, ())
    assert children(os.getpid()) == before


def test_a_file_replaced_before_it_was_read_is_stored_as_replaced(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("folder", "gone", "link", "stays"):
        (world.upper / name).write_text(name)
    read = snapshot._Walk.read

    def concurrently(taking: snapshot._Walk) -> None:
        for name in ("folder", "gone", "link"):
            (world.upper / name).unlink()
        (world.upper / "folder").mkdir()
        (world.upper / "link").symlink_to("/somewhere")
        read(taking)

    monkeypatch.setattr(snapshot._Walk, "read", concurrently)
    made = checkpoint_store.find_checkpoint(world.session, world.take_checkpoint())
    table = checkpoint_store.read_tables(world.session, made)["root-0"]
    assert {path: node.kind for path, node in table.items()} == {"": "dir", "link": "symlink", "stays": "file"}
    assert made.problems == ("folder: it became a directory",)


@pytest.mark.usefixtures("two_processors")
def test_a_checkpoint_killed_during_a_parallel_copy_is_discarded(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    was, add = many(world), content_pool.ContentPool.add
    begun, begins = os.pipe()
    pid = os.fork()
    if pid == 0:
        taker = os.getpid()

        def deadly(contents: content_pool.ContentPool, fd: int, size: int) -> tuple[str, int]:
            if os.getpid() == taker:
                os.read(begun, 1)  # until the other process has stored a file
                os.kill(taker, signal.SIGKILL)
            made = add(contents, fd, size)
            os.write(begins, b"x")
            signal.alarm(60)  # end this process even if the test never does
            signal.pause()
            return made

        monkeypatch.setattr(content_pool.ContentPool, "add", deadly)
        try:
            world.take_checkpoint()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert checkpoint_store.list_checkpoints(world.session) == ()
    wait_for_lock(world.folder / "checkpoints")
    number = world.take_checkpoint()
    for path in world.upper.glob("large-*"):
        path.unlink()
    rollback.roll_back_ended(world.listed, number)
    assert state(world.upper) == was
    os.close(begun)
    os.close(begins)


def wait_for_lock(folder: Path) -> None:
    """Wait until no process holds the lock of the checkpoints: then the previous holder has exited."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    deadline = time.monotonic() + 30
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            assert time.monotonic() < deadline, "the other process lives on"
    os.close(fd)
