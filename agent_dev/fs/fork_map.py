"""One thing done to each of many, half of it in a process of its own: threads of Python wait for each other at each call."""

import marshal
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from agent_dev.fs import dir_tree as files
from agent_dev.linux import syscalls as kernel

_TICKETS = 512  # two thousand bytes, which a pipe takes however small a user's limits make it
_WIDTH = 4
_ASKED = 1 << 20

Thing = TypeVar("Thing")
Made = TypeVar("Made")


def each(act: Callable[[Thing], Made], things: Sequence[Thing]) -> list[Made]:
    """Do it to each thing, on two processors where there are two; return what came of each, in their order.

    What `act` returns must be such that marshal writes it; what else it does to this process is lost where another did it. What
    the other one failed at, or had not told when it ended, is done here, so that it is here that an error is raised.
    """
    tickets = _tickets(len(things))
    try:
        helper = _Helper(lambda: dict(_done(act, things, tickets))) if _may_fork() else None
        try:
            made = dict(_done(act, things, tickets))
            made |= helper.result() if helper else {}
        finally:
            if helper:
                helper.end()
    finally:
        os.close(tickets)
    return [made[at] if at in made else act(thing) for at, thing in enumerate(things)]


def _may_fork() -> bool:
    """Whether there is a processor for it, and no thread that would be missing there with a lock in its hands."""
    threading = sys.modules.get("threading")
    return len(os.sched_getaffinity(0)) > 1 and (threading is None or threading.active_count() == 1)


def _tickets(count: int) -> int:
    """Return a pipe of numbers, of which each is read by one process alone."""
    tickets, written = os.pipe()
    try:
        os.write(written, b"".join(number.to_bytes(_WIDTH, "little") for number in range(min(count, _TICKETS))))
    finally:
        os.close(written)
    return tickets


def _done(act: Callable[[Thing], Made], things: Sequence[Thing], tickets: int) -> Iterator[tuple[int, Made]]:
    """Do it to what nobody else does it to; yield what came of it, by its place."""
    while ticket := os.read(tickets, _WIDTH):
        for at in range(int.from_bytes(ticket, "little"), len(things), _TICKETS):
            yield at, act(things[at])


class _Helper:
    """A process that does some work, and tells what came of it; it ends with this one."""

    def __init__(self, work: Callable[[], dict[int, Made]]) -> None:
        parent = os.getpid()
        self._told, tells = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                kernel.die_with_parent()
                if os.getppid() == parent:
                    files.write_all(tells, marshal.dumps(work()))
            finally:
                os._exit(0)
        os.close(tells)

    def result(self) -> dict[int, Made]:
        """Wait for it; return what it told, nothing when it ended before."""
        told = b""
        while piece := os.read(self._told, _ASKED):
            told += piece
        try:
            found: dict[int, Made] = marshal.loads(told)  # noqa: S302  (of our own fork)
        except (EOFError, ValueError, TypeError):
            return {}
        return found

    def end(self) -> None:
        """End it, if it has not ended."""
        os.close(self._told)
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)
