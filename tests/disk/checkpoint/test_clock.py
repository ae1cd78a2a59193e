"""The timer process takes checkpoints at the start and after changes, and pauses after a full disk."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store, content_pool, snapshot, timer_process
from agent_dev.linux import process
from agent_dev.session import store
from tests.harness.checkpointed_session import CheckpointedSession
from tests.harness.program import wait_until
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory

REQUEST = timer_process.TimerSpec(minutes=5, number=4, days=30, mib=100)


class EnoughError(Exception):
    """Raised instead of a sleep to leave the endless loop of the timer process."""


def serve(world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch, *writes: str) -> list[float]:
    """Run the timer process without waiting, with one write during each pause; return the lengths of the pauses."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > len(writes):
            raise EnoughError
        if writes[len(pauses) - 1]:
            (world.upper / "file").write_text(writes[len(pauses) - 1])

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(EnoughError):
        timer_process._serve(world.session, world.record, REQUEST)
    return pauses


@pytest.fixture
def world(tmp_path: Path) -> CheckpointedSession:
    return CheckpointedSession(tmp_path)


def causes(world: CheckpointedSession) -> list[str]:
    return [one.cause for one in checkpoint_store.list_checkpoints(world.session)]


def test_a_checkpoint_is_taken_at_the_start_and_then_after_changes(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = serve(world, monkeypatch, "one", "", "two")
    assert causes(world) == ["start", "timer", "timer"]
    assert set(pauses) == {300}


def test_no_more_checkpoints_are_kept_than_configured(world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(world, monkeypatch, *map(str, range(10)))
    assert len(causes(world)) == 4


def full(_pool: content_pool.ContentPool, _size: int) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_after_a_full_disk_no_checkpoint_is_tried_for_an_hour(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_pool.ContentPool, "reserve_space", full)
    assert serve(world, monkeypatch, "one")[-1] == 3600
    assert causes(world) == ["start"]


def open_files(pid: int) -> set[str]:
    return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


def test_the_timer_process_holds_neither_the_lock_nor_our_descriptors(world: CheckpointedSession) -> None:
    held = store.lock_session(world.session)
    pid = timer_process.start_timer(held, world.record, REQUEST)
    try:
        wait_until(lambda: causes(world), "a checkpoint at the start")
        store.unlock_session(held)
        assert not store.is_locked(world.session)
        wait_until(lambda: open_files(pid) == {"/dev/null"}, "nothing is open any more")
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    finally:
        process.terminate(pid)


def wait_forever(_pool: content_pool.ContentPool, _fd: int, _size: int) -> tuple[str, int]:
    while True:
        signal.pause()


@pytest.mark.parametrize("least", [0, 1 << 30])  # bytes from which two processes read the files
def test_an_ended_checkpoint_leaves_no_file_readable(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(content_pool.ContentPool, "add", wait_forever)
    monkeypatch.setattr(snapshot, "_PARALLEL_MIN", least)
    with ordinary_users_directory() as place:

        def act() -> None:
            world = CheckpointedSession(place / "session")
            folder = world.upper / "shut"
            folder.mkdir()
            files = [folder / name for name in ("one", "two")]
            for file in files:
                file.write_text("x")
                file.chmod(0)
            folder.chmod(0)
            pid = timer_process.start_timer(world.session, world.record, REQUEST)
            wait_until(lambda: os.access(folder, os.R_OK | os.X_OK), "the directory is readable")
            wait_until(lambda: any(file.stat().st_mode & 0o400 for file in files), "a file is readable")
            process.terminate(pid)
            assert folder.stat().st_mode & 0o7777 == 0
            folder.chmod(0o700)
            assert [file.stat().st_mode & 0o7777 for file in files] == [0, 0]

        call_as_ordinary_user(act)


def test_a_timer_process_that_ignores_sigterm_is_killed() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        finally:
            os._exit(1)
    process.terminate(pid, 200)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_a_timer_process_that_misses_sigterm_is_signalled_again() -> None:
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
    process.terminate(pid)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
