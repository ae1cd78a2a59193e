"""Kill a process, or fail a call, at the N-th change that a merge makes to the disk."""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from agent_dev.errors import AgentDevError
from agent_dev.fs import durable

KILLED, FAILED, DONE = 77, 78, 0


@contextmanager
def with_hook(watcher: durable.Hook) -> Iterator[None]:
    """Call `watcher` before every change to the disk."""
    durable.hook = watcher
    try:
        yield
    finally:
        durable.hook = None


def list_changes(act: Callable[[], object]) -> list[str]:
    """Call `act`; return the names of the calls that change the disk."""
    calls: list[str] = []
    with with_hook(lambda call, _: calls.append(call)):
        act()
    return calls


def count_changes(act: Callable[[], object]) -> int:
    """Call `act`; return the number of changes it makes."""
    return len(list_changes(act))


def call(act: Callable[..., object], *arguments: object) -> None:
    """Call `act`; ignore an error that the user would get."""
    try:
        act(*arguments)
    except AgentDevError:
        return


def killed_at(number: int, act: Callable[[], object], *, before: Callable[[], None] = lambda: None) -> bool:
    """Call `act` in a child that exits abruptly before its `number`-th change (from 1); return whether there was such a change.

    `before` is called in the child before it ends.
    """

    def end() -> None:
        before()
        os._exit(KILLED)

    code = in_child(lambda: _act(_Countdown(number, end), act))
    assert code in (KILLED, DONE), "the child failed instead; see its traceback above"
    return code == KILLED


_EVENTS = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.chmod", "os.utime", "subprocess.Popen")
_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def killed_at_event(number: int, act: Callable[[], object]) -> bool:
    """As `killed_at`, but before its `number`-th change or audit event: also where the code does not use `fs/durable`.

    Audit events (sys.addaudithook) are calls of Python that change a directory, open a file for writing or start a program.
    """
    watcher = _Countdown(number, lambda: os._exit(KILLED))

    def watch(event: str, words: tuple[object, ...]) -> None:
        if event in _EVENTS or (event == "open" and isinstance(words[2], int) and words[2] & _CHANGING):
            watcher(event, words)

    def run() -> int:
        sys.addaudithook(watch)  # of the child only
        return _act(watcher, act)

    code = in_child(run)
    assert code in (KILLED, DONE), "the child failed instead; see its traceback above"
    return code == KILLED


def failing_at(number: int, error: int, act: Callable[[], object], *, is_lasting: bool) -> bool:
    """Call `act` in a child whose `number`-th change fails, and with `is_lasting` all later ones.

    Return whether there was such a change.
    """
    count = [0]

    def fail(_call: str, _words: tuple[object, ...]) -> None:
        count[0] += 1
        if count[0] == number or (is_lasting and count[0] > number):
            raise OSError(error, os.strerror(error))

    def run() -> int:
        with with_hook(fail):
            act()
        return KILLED if count[0] >= number else DONE

    code = in_child(run)
    assert code in (KILLED, DONE), "the child failed in another way; see its traceback above"
    return code == KILLED


class _Countdown:
    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self._left = number
        self._act = act

    def __call__(self, _call: str, _words: tuple[object, ...]) -> None:
        self._left -= 1
        if not self._left:
            self._act()


def _act(watcher: durable.Hook, act: Callable[[], object]) -> int:
    with with_hook(watcher):
        act()
    return DONE


def in_child(run: Callable[[], int]) -> int:
    """Run in a child; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = FAILED
        try:
            code = run()
        except BaseException:  # noqa: BLE001  (printed, and reported by the exit code)
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@cache
def memory_directory() -> str | None:
    """Return a directory in memory that supports attributes, None without one."""
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            os.setxattr(folder, "user.agent-dev", b"")
    except OSError:
        return None
    return "/dev/shm"
