"""A background checkpoint yields the lock to a process that waits for it."""

import fcntl
import os
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store, content_pool, lock
from tests.harness.checkpointed_session import CheckpointedSession
from tests.harness.program import wait_until

GAVE_WAY = 7


@pytest.fixture
def world(tmp_path: Path) -> CheckpointedSession:
    world = CheckpointedSession(tmp_path / "session")
    for number in range(200):
        place = world.upper / f"{number % 5}" / f"{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"%d" % number)
    return world


def is_waited_for(folder: str) -> bool:
    try:
        lock.yield_to_waiter(folder)
    except lock.YieldedLock:
        return True
    return False


def taking(world: CheckpointedSession, cause: str) -> tuple[int, int]:
    """Fork a process that pauses in its first file until another waits for the lock; return its pid and a pipe."""
    begun, begins = os.pipe()
    folder, add = str(world.folder / "checkpoints"), content_pool.ContentPool.add
    pid = os.fork()
    if pid:
        os.close(begins)
        return pid, begun

    def slow(contents: content_pool.ContentPool, fd: int, size: int) -> tuple[str, int]:
        if not contents.session_bytes:
            os.write(begins, b"+")
            wait_until(lambda: is_waited_for(folder), "somebody waits")
        return add(contents, fd, size)

    code = 1
    try:
        content_pool.ContentPool.add = slow  # type: ignore[method-assign,assignment]
        checkpoint_store.take_checkpoint(world.session, world.record, cause)
        code = 0
    except lock.YieldedLock:
        code = GAVE_WAY
    finally:
        os._exit(code)


@pytest.mark.parametrize(
    ("cause", "code", "causes"),
    [
        (checkpoint_store.START, GAVE_WAY, ["manual"]),
        (checkpoint_store.TIMER, GAVE_WAY, ["manual"]),
        (checkpoint_store.END, 0, ["end", "manual"]),
        ("rm -r build", 0, ["rm -r build", "manual"]),
    ],
)
def test_a_background_holder_yields_to_a_waiter(world: CheckpointedSession, cause: str, code: int, causes: list[str]) -> None:
    pid, begun = taking(world, cause)
    assert os.read(begun, 1) == b"+"
    number = world.take_checkpoint()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    os.close(begun)
    assert [one.cause for one in checkpoint_store.list_checkpoints(world.session)] == causes
    made = checkpoint_store.find_checkpoint(world.session, number)
    assert (made.files, made.problems, world.count_contents()) == (200, (), 200)


def test_two_processes_of_one_checkpoint_do_not_count_as_waiting(world: CheckpointedSession) -> None:
    world.take_checkpoint()
    folder = f"{world.folder}/checkpoints"
    fd = os.open(f"{folder}/objects", os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)  # the other holder has a shared lock, too, while it checks for waiters
        assert not is_waited_for(folder)
        fcntl.flock(fd, fcntl.LOCK_EX)
        assert is_waited_for(folder)
    finally:
        os.close(fd)
