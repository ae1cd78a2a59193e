"""A progress line on the terminal for work that takes longer than 0.8 seconds; nothing in a pipe."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_DELAY, _INTERVAL = 0.8, 0.2  # seconds
_CLEAR = "\r\x1b[K"
_is_silent = False
_is_shown = False  # one line at a time: inner work is part of the outer

ReportProgress = Callable[[int, int], object]  # receives the done and total number of steps


def silence() -> None:
    """Show no progress from now on."""
    global _is_silent  # noqa: PLW0603  (one terminal for the whole process)
    _is_silent = True


@contextmanager
def show_progress(label: str) -> Iterator[ReportProgress]:
    """Show a line on stderr while the body runs; yield a function that sets its counts.

    A timer draws it, not a thread, because the body may fork. Only for the main thread of a command.
    """
    global _is_shown  # noqa: PLW0603  (one terminal for the whole process)
    if _is_silent or _is_shown or not os.isatty(2) or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda _done, _total: None
        return
    line = _ProgressLine(label)
    before = signal.signal(signal.SIGALRM, lambda *_: line.draw())
    signal.setitimer(signal.ITIMER_REAL, _DELAY, _INTERVAL)
    _is_shown = True
    try:
        yield line.set_counts
    finally:
        _is_shown = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        line.clear()


class _ProgressLine:
    def __init__(self, label: str) -> None:
        self._label, self._start, self._is_drawn = label, time.monotonic(), False
        self._done = self._total = 0

    def set_counts(self, done: int, total: int) -> None:
        self._done, self._total = done, total

    def draw(self) -> None:
        self._is_drawn = True
        try:
            columns = os.get_terminal_size(2).columns
        except OSError:
            return  # the terminal is gone
        _write(_CLEAR + self._text()[: columns - 1] + "\r")  # a message overwrites it

    def clear(self) -> None:
        if self._is_drawn:
            _write(_CLEAR)

    def _text(self) -> str:
        seconds = time.monotonic() - self._start
        if not self._total:
            return f"{self._label} … {seconds:.0f} s"
        return f"{self._label} … {self._done:,} of {self._total:,} ({self._done / seconds:,.0f} per second)"


def _write(text: str) -> None:
    try:
        os.write(2, text.encode())
    except OSError:
        return  # the terminal is gone
