"""Textual's driver of the terminal, with an input thread that ends at once: leaving must not be felt."""

import os
import select
import selectors
from contextlib import suppress
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

    def run_input_thread(self) -> None:
        """Read the terminal until told to end."""
        names = vars(linux_driver)  # the loop is Textual's own; only what it waits with is ours
        plain = names["selectors"]
        names["selectors"] = SimpleNamespace(SelectSelector=lambda: _Wakeable(self._woken), EVENT_READ=selectors.EVENT_READ)
        try:
            super().run_input_thread()
        finally:
            names["selectors"] = plain

    def start_application_mode(self) -> None:
        """Begin with one input thread and nothing in the pipe; a SIGCONT that nothing was stopped by begins twice."""
        if self._key_thread is not None and self._key_thread.is_alive():
            self.disable_input()
        with suppress(BlockingIOError):  # a second SIGCONT may come while the first one's handler is here
            while os.read(self._woken, 64):
                pass
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def disable_input(self) -> None:
        """End the input thread at once."""
        with suppress(BlockingIOError):  # full: then it wakes anyhow
            os.write(self._wake, b"x")
        super().disable_input()
