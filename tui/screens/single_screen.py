"""The base of the smaller applications, with one screen each: themes, fatal signals, and input before the first paint."""

import signal
from asyncio import get_running_loop
from math import inf
from time import monotonic
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Event, InputEvent
from textual.screen import Screen

from tui.terminal.driver import WakeableDriver
from tui.theme import DARK, LIGHT

_FATAL = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class SingleScreenApp(App[None], inherit_bindings=False):
    """An application that shows one screen."""

    CSS_PATH = "../app.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+z", "suspend_process", "suspend (fg resumes)", id="suspend")]

    def __init__(self, page: Screen[None], theme: str = DARK.name) -> None:
        super().__init__(driver_class=WakeableDriver)
        for one in (DARK, LIGHT):
            self.register_theme(one)
        self.theme = theme if theme in self.available_themes else DARK.name
        self._page = page
        self._opened = inf

    def get_default_screen(self) -> Screen[None]:
        """Return the screen."""
        return self._page

    def on_mount(self) -> None:
        """Install handlers for fatal signals."""
        for number in _FATAL:
            get_running_loop().add_signal_handler(number, lambda code: self.exit(None, return_code=code), 128 + number)
        self.app_resume_signal.subscribe(self, lambda _: self._page.refresh(layout=True))
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        self._opened = monotonic()

    @property
    def is_before_first_paint(self) -> bool:
        """Return whether nothing has been painted yet; input is dropped until then."""
        return self._opened == inf

    async def on_event(self, event: Event) -> None:
        """Drop input that was typed before the first paint."""
        if not isinstance(event, InputEvent) or event.time >= self._opened:
            await super().on_event(event)
