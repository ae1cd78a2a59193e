"""The terminal around the merge screen: whether it can carry one, and what must be put away before and back after."""

import os
import signal
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

# Textual would believe these instead of the terminal, and they are stale after the first resize.
_MISLEADING = ("COLUMNS", "LINES")


def is_capable(environ: Mapping[str, str], stdin: TextIO | None, screen: TextIO | None) -> bool:
    """Whether the merge screen can be drawn: keys come from a terminal, it is one too, and it knows more than lines."""
    return environ.get("TERM", "") not in ("", "dumb") and _is_terminal(stdin) and _is_terminal(screen)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it was closed
        return False


@contextmanager
def borrowed() -> Iterator[None]:
    """Make the terminal ready for a full-screen program; put the signals' handlers and the environment back."""
    taken = {name: os.environ.pop(name) for name in _MISLEADING if name in os.environ}
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
    handlers = {number: signal.getsignal(number) for number in numbers}
    forget_typed_ahead()
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # None: it was not installed from Python
                signal.signal(number, handler)
        os.environ.update(taken)


def forget_typed_ahead() -> None:
    """Throw away keys typed before the screen was there: they were meant for the agent."""
    with suppress(termios.error):  # no terminal, nothing typed
        termios.tcflush(0, termios.TCIFLUSH)
