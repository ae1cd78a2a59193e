"""A terminal that is redrawn in place: alternate screen, unbuffered keys, resizes, suspension; restored at the end."""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

from agent_dev.linux import streams

_QUIT = (b"q", b"Q", b"\x1b")
_OPEN = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # alternate screen, no cursor, no wrapping
_CLOSE = "\x1b[m\x1b[?7h\x1b[?25h\x1b[?1049l"
_FALLBACK = (80, 24)


class LiveScreen:
    """A context manager. `size` is the terminal's in columns and rows."""

    def __init__(self) -> None:
        self._modes = termios.tcgetattr(0)
        self._wake, self._wake_w = os.pipe()
        os.set_blocking(self._wake_w, False)
        self._shown: tuple[tuple[int, int], list[str]] | None = None
        self._handlers: dict[signal.Signals, object] = {}
        self._old_wake = -1

    def __enter__(self) -> Self:
        self._old_wake = signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number, handler in (
            (signal.SIGWINCH, lambda *_: None),
            (signal.SIGTSTP, self._suspend),
            (signal.SIGTERM, _exit),
            (signal.SIGHUP, _exit),
        ):
            self._handlers[number] = signal.signal(number, handler)
        self._open()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._close()
        signal.set_wakeup_fd(self._old_wake)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as `signal` returned it
        os.close(self._wake)
        os.close(self._wake_w)

    @property
    def size(self) -> tuple[int, int]:
        """Return the terminal's current columns and rows."""
        try:
            columns, rows = os.get_terminal_size(1)
        except OSError:
            return _FALLBACK
        return (columns, rows) if columns and rows else _FALLBACK

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines; nothing is written if they are shown already."""
        shown = self.size, [*lines]
        if shown == self._shown:
            return
        clear = "\x1b[2J" if self._shown is None or self._shown[0] != shown[0] else ""
        body = "\r\n".join(f"\x1b[m\x1b[K{line}\x1b[m" for line in lines)  # erasing after a full line takes its last character
        self._shown = shown  # before writing: a suspension during it requests another drawing
        streams.write_all(1, f"{clear}\x1b[H{body}".encode("utf-8", "replace"))

    def wait(self, seconds: float) -> bool:
        """Wait for a key or a signal; return whether the user quits."""
        key = self.read_input(seconds)
        if not key:
            return key is None
        return key[:1] in _QUIT and not (key[:1] == b"\x1b" and len(key) > 1)  # an arrow key is more than ESC

    def read_input(self, seconds: float | None = None) -> bytes | None:
        """Wait for input or a signal, at most some seconds; return the input, None if the terminal was hung up."""
        ready = select.select([0, self._wake], [], [], seconds)[0]
        if self._wake in ready:
            os.read(self._wake, 512)
        if 0 not in ready:
            return b""
        try:
            return os.read(0, 64) or None
        except OSError:
            return None

    def _open(self) -> None:
        tty.setcbreak(0, termios.TCSANOW)
        streams.write_all(1, _OPEN.encode())
        self._shown = None

    def _close(self) -> None:
        with suppress(OSError, termios.error):  # the terminal is gone
            streams.write_all(1, _CLOSE.encode())
            termios.tcsetattr(0, termios.TCSADRAIN, self._modes)

    def _suspend(self, number: int, _frame: FrameType | None) -> None:
        self._close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        # Continued here.
        signal.signal(number, self._suspend)
        self._open()


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
