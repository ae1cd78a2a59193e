"""Map a function over a list in two processes; threads would contend for the interpreter lock."""

import marshal
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from agent_dev.linux import process, streams, syscalls

_TURNS = 512  # two thousand bytes, which fit into any pipe
_WIDTH = 4
_READ_SIZE = 1 << 20
_PATIENCE = 10_000  # ms

Item = TypeVar("Item")
Result = TypeVar("Result")


def fork_map(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function for each item, in two processes if there are two processors; return the results in order.

    The results must be values that marshal can write. Side effects of calls in the other process are lost. Calls that failed
    there, or had no result when it ended, are repeated in this one, so that it raises their errors.
    """
    turns = _turns(len(items))
    try:
        helper = _Helper(lambda: dict(_results(function, items, turns))) if _may_fork() else None
        try:
            results = dict(_results(function, items, turns))
            results |= helper.result() if helper else {}
        finally:
            if helper:
                helper.end()
    finally:
        os.close(turns)
    return [results[at] if at in results else function(thing) for at, thing in enumerate(items)]


def _may_fork() -> bool:
    """Return whether there is a second processor, and no other thread, which might hold a lock in the child."""
    threading = sys.modules.get("threading")
    return len(os.sched_getaffinity(0)) > 1 and (threading is None or threading.active_count() == 1)


def _turns(count: int) -> int:
    """Return a pipe of numbered turns, each of which exactly one process reads: every `_TURNS`-th item from its number on."""
    turns, written = os.pipe()
    try:
        os.write(written, b"".join(number.to_bytes(_WIDTH, "little") for number in range(min(count, _TURNS))))
    finally:
        os.close(written)
    return turns


def _results(function: Callable[[Item], Result], items: Sequence[Item], turns: int) -> Iterator[tuple[int, Result]]:
    """Call the function for the items of each turn that this process reads; yield the results with their indices."""
    while turn := os.read(turns, _WIDTH):
        for at in range(int.from_bytes(turn, "little"), len(items), _TURNS):
            yield at, function(items[at])


class _Helper:
    """A child process that does some work and sends the result; it dies with its parent."""

    def __init__(self, work: Callable[[], dict[int, Result]]) -> None:
        parent = os.getpid()
        self._read_end, write_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                try:
                    process.exit_on_sigterm()
                    syscalls.die_with_parent()
                    if os.getppid() == parent:
                        streams.write_all(write_end, marshal.dumps(work()))
                finally:
                    os._exit(0)
            finally:  # SIGTERM may have raised just before
                os._exit(0)
        os.close(write_end)

    def result(self) -> dict[int, Result]:
        """Wait for the child; return its result, empty if it ended early."""
        received = b""
        while piece := os.read(self._read_end, _READ_SIZE):
            received += piece
        try:
            found: dict[int, Result] = marshal.loads(received)  # noqa: S302  (from our own fork)
        except (EOFError, ValueError, TypeError):
            return {}
        return found

    def end(self) -> None:
        """End the child if it is still running; it restores the modes of files that it has made readable."""
        os.close(self._read_end)
        process.terminate(self._pid, _PATIENCE)
