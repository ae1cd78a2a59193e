"""What takes checkpoints beside an agent: at the start, then when something changed, and never for long on a full disk."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import content_pool as pool
from agent_dev.checkpoint import timer_process as clock
from agent_dev.session import store
from tests.harness.checkpointed import World
from tests.harness.program import wait_until

WISH = clock.Wish(minutes=5, number=4, days=30, mib=100)


class EnoughError(Exception):
    """The process would go on for ever."""


def serve(world: World, monkeypatch: pytest.MonkeyPatch, *writes: str) -> list[float]:
    """Let the time between checkpoints pass at once, with a write in each; return how long each pause was to be."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > len(writes):
            raise EnoughError
        if writes[len(pauses) - 1]:
            (world.upper / "file").write_text(writes[len(pauses) - 1])

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(EnoughError):
        clock._serve(world.session, world.record, WISH)
    return pauses


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def causes(world: World) -> list[str]:
    return [one.cause for one in checkpoints.listed(world.session)]


def test_one_is_taken_at_the_start_and_then_when_something_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = serve(world, monkeypatch, "one", "", "two")
    assert causes(world) == ["start", "timer", "timer"]
    assert set(pauses) == {300}


def test_no_more_are_kept_than_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(world, monkeypatch, *map(str, range(10)))
    assert len(causes(world)) == 4


def full(_pool: pool.Pool, _size: int) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_a_full_disk_is_let_be_for_an_hour(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.Pool, "leave_room", full)
    assert serve(world, monkeypatch, "one")[-1] == 3600
    assert causes(world) == ["start"]


def open_files(pid: int) -> set[str]:
    return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


def test_the_process_holds_neither_the_lock_nor_anything_else_of_ours(world: World) -> None:
    held = store.hold(world.session)
    pid = clock.begin(held, world.record, WISH)
    try:
        wait_until(lambda: causes(world), "a checkpoint at the start")
        store.let_go(held)
        assert not store.is_held(world.session)
        wait_until(lambda: open_files(pid) == {"/dev/null"}, "nothing is open any more")
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    finally:
        clock.end(pid)


def test_a_process_that_never_hears_is_ended_all_the_same() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        finally:
            os._exit(1)
    clock.end_well(pid, 200)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_a_process_that_does_not_hear_at_first_is_asked_again() -> None:
    heard, tells = os.pipe()

    pid = os.fork()
    if pid == 0:
        try:
            asked: list[int] = []
            signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
            os.write(tells, b"+")
            while len(asked) < 2:
                signal.pause()
        finally:
            os._exit(1)
    assert os.read(heard, 1) == b"+"
    clock.end_well(pid)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
