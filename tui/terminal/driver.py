"""Textual's driver of the terminal, with an input thread that ends at once: leaving must not be felt."""

import os
import select
import selectors
from contextlib import suppress
from threading import Thread
from types import SimpleNamespace
from typing import Any

from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver


class _Wakeable(selectors.SelectSelector):
    """Waits for the terminal, or until a byte comes through a pipe of ours."""

    def __init__(self, wake: int) -> None:
        super().__init__()
        self._wake = wake

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as long as asked, or until woken; return what is ready of what was registered."""
        waited = [key.fd for key in self.get_map().values()]
        if waited:  # with nothing to wait for Textual still would, once more
            select.select([*waited, self._wake], [], [], timeout)
        return super().select(0)


class Driver(LinuxDriver):
    """LinuxDriver looks every tenth of a second whether it is to end; this one is told."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._woken, self._wake = os.pipe2(
            os.O_NONBLOCK | os.O_CLOEXEC
        )  # for as long as the process: a driver is closed and begun again around an editor
        self._is_beginning = self._begins_again = False

    def run_input_thread(self) -> None:
        """Read the terminal until told to end."""
        names = vars(linux_driver)  # the loop is Textual's own; only what it waits with is ours
        plain = names["selectors"]
        names["selectors"] = SimpleNamespace(SelectSelector=lambda: _Wakeable(self._woken), EVENT_READ=selectors.EVENT_READ)
        try:
            super().run_input_thread()
        finally:
            names["selectors"] = plain

    def _sigcont_application(self, *_: Any) -> None:
        """Begin again, one after the other: after `fg` a second one comes from the process that we are the screen of."""
        if self._is_beginning:
            self._begins_again = True
            return
        self._is_beginning = self._begins_again = True
        try:
            while self._begins_again:
                self._begins_again = False
                super()._sigcont_application()
        finally:
            self._is_beginning = False

    def start_application_mode(self) -> None:
        """Begin with one input thread and nothing in the pipe; a SIGCONT that nothing was stopped by begins twice."""
        if self._key_thread is not None and self._key_thread.is_alive():
            self._end_input_thread(self._key_thread)
        with suppress(BlockingIOError):  # it may have ended by itself
            while os.read(self._woken, 64):
                pass
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def disable_input(self) -> None:
        """End the input thread at once, and throw away what was typed and not read."""
        self._wake_input_thread()
        super().disable_input()

    def _end_input_thread(self, thread: Thread) -> None:
        """End the input thread at once. What was typed and not read is for the next one: the screen was there."""
        self.exit_event.set()
        self._wake_input_thread()
        thread.join()
        self.exit_event.clear()

    def _wake_input_thread(self) -> None:
        with suppress(BlockingIOError):  # full: then it wakes anyhow
            os.write(self._wake, b"x")
