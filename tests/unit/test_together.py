"""What two processes do comes out as if one had done it."""

import os

import pytest

from agent_dev.fs import fork_map as together
from tests.harness.program import children


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_may_fork", lambda: True)


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 5000])
def test_what_comes_of_each_is_returned_in_their_order(count: int) -> None:
    assert together.each(lambda number: number * 2, range(count)) == [number * 2 for number in range(count)]


def test_two_processes_have_a_part_in_it() -> None:
    here = os.getpid()
    ours, theirs = os.pipe(), os.pipe()

    def act(_: int) -> int:
        (waits, _tells), (_waits, tells) = (ours, theirs) if os.getpid() == here else (theirs, ours)
        os.write(tells, bytes(1))
        os.read(waits, 1)  # until the other one has begun with one
        return os.getpid()

    assert len(set(together.each(act, range(2)))) == 2
    for fd in (*ours, *theirs):
        os.close(fd)


def test_what_the_other_process_fails_at_is_done_here() -> None:
    here = os.getpid()
    begun, begins = os.pipe()

    def act(number: int) -> int:
        if os.getpid() != here:
            os.write(begins, bytes(100))
            os._exit(1)
        os.read(begun, 1)
        return number

    assert together.each(act, range(50)) == list(range(50))
    os.close(begun)
    os.close(begins)


def test_an_error_is_raised_and_leaves_no_process() -> None:
    def act(number: int) -> int:
        raise OSError(number)

    before = children(os.getpid())
    with pytest.raises(OSError, match=r"\d+"):
        together.each(act, range(100))
    assert children(os.getpid()) == before
