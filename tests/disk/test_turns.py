"""A checkpoint for which nobody waits gives way to one for which somebody does."""

import fcntl
import os
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import content_pool as pool
from agent_dev.checkpoint import lock as turns
from tests.harness.checkpointed import World
from tests.harness.program import wait_until

GAVE_WAY = 7


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "session")
    for number in range(200):
        place = world.upper / f"{number % 5}" / f"{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"%d" % number)
    return world


def is_waited_for(folder: str) -> bool:
    try:
        turns.give_way(folder)
    except turns.GaveWay:
        return True
    return False


def taking(world: World, cause: str) -> tuple[int, int]:
    """Begin a checkpoint in a process that goes on with its first file as soon as somebody waits; return its pid and a pipe."""
    begun, begins = os.pipe()
    folder, add = str(world.folder / "checkpoints"), pool.Pool.add
    pid = os.fork()
    if pid:
        os.close(begins)
        return pid, begun

    def slow(contents: pool.Pool, fd: int, size: int) -> tuple[str, int]:
        if not contents.held:
            os.write(begins, b"+")
            wait_until(lambda: is_waited_for(folder), "somebody waits")
        return add(contents, fd, size)

    code = 1
    try:
        pool.Pool.add = slow  # type: ignore[method-assign,assignment]
        checkpoints.take(world.session, world.record, cause)
        code = 0
    except turns.GaveWay:
        code = GAVE_WAY
    finally:
        os._exit(code)


@pytest.mark.parametrize(
    ("cause", "code", "causes"),
    [
        (checkpoints.START, GAVE_WAY, ["manual"]),
        (checkpoints.TIMER, GAVE_WAY, ["manual"]),
        (checkpoints.END, 0, ["end", "manual"]),
        ("rm -r build", 0, ["rm -r build", "manual"]),
    ],
)
def test_who_takes_one_for_nobody_lets_who_waits_have_the_turn(world: World, cause: str, code: int, causes: list[str]) -> None:
    pid, begun = taking(world, cause)
    assert os.read(begun, 1) == b"+"
    number = world.take()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    os.close(begun)
    assert [one.cause for one in checkpoints.listed(world.session)] == causes
    made = checkpoints.find(world.session, number)
    assert (made.files, made.problems, world.contents()) == (200, (), 200)


def test_two_processes_of_one_checkpoint_are_not_taken_for_waiting(world: World) -> None:
    world.take()
    folder = f"{world.folder}/checkpoints"
    fd = os.open(f"{folder}/objects", os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)  # as the other holds it while it asks
        assert not is_waited_for(folder)
        fcntl.flock(fd, fcntl.LOCK_EX)
        assert is_waited_for(folder)
    finally:
        os.close(fd)
