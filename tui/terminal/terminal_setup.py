"""Terminal checks before the review screen, and the process state saved and restored around it."""

import os
import signal
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

# Textual prefers these to the terminal's size, and they are outdated after the first resize.
_MISLEADING = ("COLUMNS", "LINES")


def can_show_screen(environ: Mapping[str, str], stdin: TextIO | None, screen: TextIO | None) -> bool:
    """Return whether the review screen can be shown: input and output are terminals, and not dumb ones."""
    return environ.get("TERM", "") not in ("", "dumb") and _is_terminal(stdin) and _is_terminal(screen)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it was closed
        return False


@contextmanager
def prepare_terminal() -> Iterator[None]:
    """Prepare for a full-screen application; restore signal handlers and the environment afterwards."""
    removed = {name: os.environ.pop(name) for name in _MISLEADING if name in os.environ}
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
    handlers = {number: signal.getsignal(number) for number in numbers}
    discard_typeahead()
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # None: not installed from Python
                signal.signal(number, handler)
        os.environ.update(removed)


def discard_typeahead() -> None:
    """Discard input typed before the screen opened: it was meant for the agent."""
    with suppress(termios.error):  # not a terminal
        termios.tcflush(0, termios.TCIFLUSH)
