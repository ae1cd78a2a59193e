"""Work shared by two processes gives the same results as in one process."""

import os
import signal

import pytest

from agent_dev.fs import fork_map
from tests.harness.program import children


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_map, "_may_fork", lambda: True)


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 5000])
def test_results_are_returned_in_input_order(count: int) -> None:
    assert fork_map.fork_map(lambda number: number * 2, range(count)) == [number * 2 for number in range(count)]


def test_two_processes_share_the_work() -> None:
    here = os.getpid()
    ours, theirs = os.pipe(), os.pipe()

    def act(_: int) -> int:
        (waits, _tells), (_waits, tells) = (ours, theirs) if os.getpid() == here else (theirs, ours)
        os.write(tells, bytes(1))
        os.read(waits, 1)  # until the other process has started an item
        return os.getpid()

    assert len(set(fork_map.fork_map(act, range(2)))) == 2
    for fd in (*ours, *theirs):
        os.close(fd)


def test_a_failure_of_the_other_process_is_redone_here() -> None:
    here = os.getpid()
    begun, begins = os.pipe()

    def act(number: int) -> int:
        if os.getpid() != here:
            os.write(begins, bytes(100))
            os._exit(1)
        os.read(begun, 1)
        return number

    assert fork_map.fork_map(act, range(50)) == list(range(50))
    os.close(begun)
    os.close(begins)


def test_an_error_is_raised_and_leaves_no_process() -> None:
    def act(number: int) -> int:
        raise OSError(number)

    before = children(os.getpid())
    with pytest.raises(OSError, match=r"\d+"):
        fork_map.fork_map(act, range(100))
    assert children(os.getpid()) == before


def test_an_ended_process_restores_what_it_has_changed() -> None:
    here = os.getpid()
    begun, begins = os.pipe()
    restored, restores = os.pipe()

    def act(_: int) -> None:
        if os.getpid() == here:
            os.read(begun, 1)
            raise ValueError("ended")
        try:
            os.write(begins, bytes(1))
            while True:
                signal.pause()
        finally:
            os.write(restores, b"restored")

    with pytest.raises(ValueError, match="ended"):
        fork_map.fork_map(act, range(2))
    os.set_blocking(restored, False)  # the other process has ended
    assert os.read(restored, 8) == b"restored"
    for fd in (begun, begins, restored, restores):
        os.close(fd)
