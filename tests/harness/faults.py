"""Ending a process, or failing a call, at the N-th change that a merge makes to the disk."""

import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from agent_dev.fs import durable as disk

KILLED, FAILED, DONE = 77, 78, 0


@contextmanager
def watched(watcher: disk.Watcher) -> Iterator[None]:
    """Have every change to the disk told."""
    disk.watcher = watcher
    try:
        yield
    finally:
        disk.watcher = None


def counted(act: Callable[[], object]) -> int:
    """Act, and return how many changes it makes."""
    calls: list[str] = []
    with watched(lambda call, _: calls.append(call)):
        act()
    return len(calls)


def killed_at(number: int, act: Callable[[], object], *, before: Callable[[], None] = lambda: None) -> bool:
    """Act in a process of its own that ends before its `number`-th change (from 1); return whether it came to that.

    `before`: what is done in it then.
    """

    def end() -> None:
        before()
        os._exit(KILLED)

    code = in_child(lambda: _act(_Countdown(number, end), act))
    assert code in (KILLED, DONE), "it failed instead; see its traceback above"
    return code == KILLED


def failing_at(number: int, error: int, act: Callable[[], object], *, is_lasting: bool) -> bool:
    """Act in a process of its own whose `number`-th change fails, `is_lasting`: and all after it.

    Return whether it came to that.
    """
    count = [0]

    def fail(_call: str, _words: tuple[object, ...]) -> None:
        count[0] += 1
        if count[0] == number or (is_lasting and count[0] > number):
            raise OSError(error, os.strerror(error))

    def run() -> int:
        with watched(fail):
            act()
        return KILLED if count[0] >= number else DONE

    code = in_child(run)
    assert code in (KILLED, DONE), "it failed otherwise; see its traceback above"
    return code == KILLED


class _Countdown:
    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self._left = number
        self._act = act

    def __call__(self, _call: str, _words: tuple[object, ...]) -> None:
        self._left -= 1
        if not self._left:
            self._act()


def _act(watcher: disk.Watcher, act: Callable[[], object]) -> int:
    with watched(watcher):
        act()
    return DONE


def in_child(run: Callable[[], int]) -> int:
    """Run in a process of its own; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = FAILED
        try:
            code = run()
        except BaseException:  # noqa: BLE001  (shown, and told by the exit code)
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@cache
def quick() -> str | None:
    """Return a file system in memory, where one is that keeps attributes."""
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            os.setxattr(folder, "user.agent-dev", b"")
    except OSError:
        return None
    return "/dev/shm"
