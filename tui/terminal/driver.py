"""Textual's terminal driver with an input thread that stops without delay."""

import os
import select
import selectors
import termios
from contextlib import suppress
from threading import Thread
from types import SimpleNamespace
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver

from tui.terminal.escape_parser import EscapeParser

_COLUMNS, _ROWS = 80, 25  # rich.console.Console.size


class _WakeableSelector(selectors.SelectSelector):
    """A selector that a byte in a pipe wakes up."""

    def __init__(self, wake_read: int) -> None:
        super().__init__()
        self._wake_read = wake_read

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until the timeout or a wake-up; return the registered files that are ready."""
        files = [key.fd for key in self.get_map().values()]
        if files:  # Textual calls this once more without files: then do not wait
            select.select([*files, self._wake_read], [], [], timeout)
        return super().select(0)


class WakeableDriver(LinuxDriver):
    """A LinuxDriver whose input thread is woken up to stop; the original polls every 0.1 s."""

    parser: type[XTermParser] = EscapeParser

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        # Never closed: the driver stops and starts again around an editor.
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_starting = self._must_restart = False

    def _get_terminal_size(self) -> tuple[int, int]:
        """Return columns and rows; if the terminal does not know its size, those that the rest of Textual assumes.

        The original takes 24 rows where Rich takes 25, and Textual would redraw the screen repeatedly.
        """
        columns, rows = os.get_terminal_size(self.fileno)
        return columns or _COLUMNS, rows or _ROWS

    def run_input_thread(self) -> None:
        """Read the terminal until the thread is stopped."""
        names = vars(linux_driver)  # the loop is Textual's own: replace only its selector and its parser
        original = {name: names[name] for name in ("selectors", "XTermParser")}
        names["selectors"] = SimpleNamespace(
            SelectSelector=lambda: _WakeableSelector(self._wake_read), EVENT_READ=selectors.EVENT_READ
        )
        names["XTermParser"] = self.parser
        try:
            super().run_input_thread()
        finally:
            names.update(original)

    def _sigcont_application(self, *_: Any) -> None:
        """Restart the screen at each SIGCONT, but never twice at a time: after `fg` the parent process sends a second one.

        The kernel sends one after the SIGHUP of a closed window, too. An error then would end the handler of SIGHUP, during which
        this one may run, and with it nothing would end the screen.
        """
        if self._is_starting:
            self._must_restart = True
            return
        self._is_starting = self._must_restart = True
        try:
            while self._must_restart:
                self._must_restart = False
                super()._sigcont_application()
        except (OSError, termios.error):
            pass  # there is no terminal any more
        finally:
            self._is_starting = False

    def start_application_mode(self) -> None:
        """Start with one input thread and an empty pipe; a SIGCONT without a stop starts a second time."""
        if self._key_thread is not None and self._key_thread.is_alive():
            self._stop_input_thread(self._key_thread)
        with suppress(BlockingIOError):  # the pipe is empty
            while os.read(self._wake_read, 64):
                pass
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def disable_input(self) -> None:
        """Stop the input thread without delay, and discard pending input."""
        self._wake_input_thread()
        super().disable_input()

    def _stop_input_thread(self, thread: Thread) -> None:
        """Stop the input thread without delay, and leave pending input to the next one."""
        self.exit_event.set()
        self._wake_input_thread()
        thread.join()
        self.exit_event.clear()

    def _wake_input_thread(self) -> None:
        with suppress(BlockingIOError):  # a full pipe wakes the thread too
            os.write(self._wake_write, b"x")


class DriverWithAltKeys(WakeableDriver):
    """The driver if the user has bound a key with Alt: ESC and a character are that key, not the Escape key and another."""

    parser = XTermParser
