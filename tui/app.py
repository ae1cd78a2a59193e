"""The merge screen as a program: it holds the state, feeds it events and carries out what they ask for."""

import signal
from asyncio import get_running_loop
from math import inf
from time import monotonic
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Event as TextualEvent
from textual.events import InputEvent
from textual.message import Message

from agent_dev.core.changes import Change, Key
from agent_dev.core.selection import Selection
from agent_dev.errors import AgentDevError
from tui import words
from tui.document import Document, Line, document, failed, notes, overview
from tui.events import DiffShown, Effect, Event, Finish, Load
from tui.keys import keys, meanings
from tui.reader import Reader
from tui.rows import HeadRow
from tui.screens.pages import help_screen, leave_screen, summary_screen
from tui.screens.question import PageScreen
from tui.screens.review import ReviewScreen
from tui.source import Source
from tui.state import Face, begin, update
from tui.terminal import borrowed
from tui.theme import THEME

_FRAME = 4  # columns of a pane that notes keep free
_FATAL = (signal.SIGTERM, signal.SIGHUP)


def review(source: Source) -> Selection | None:
    """Let the user choose; return what to merge, or None when they left without merging."""
    with borrowed():  # around the App too: it believes COLUMNS when it is made
        return ReviewApp(source).run()


class Read(Message):
    """The worker has read a change."""

    def __init__(self, read: Document) -> None:
        self.document = read
        super().__init__()


class ReviewApp(App[Selection | None], inherit_bindings=False):
    """Draws the state and nothing else; every key and click passes through `send`."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+z", "suspend_process", "stop for now; fg continues", id="suspend")]

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.register_theme(THEME)
        self.theme = THEME.name
        self._source = source
        self._table = source.changes.by_key()
        self._reader = Reader(self._read, lambda found: self.post_message(Read(found)))
        self.state, self._first = begin(source.changes)
        self.document = Document(None, ())
        self._opened = inf

    # The screens

    def get_default_screen(self) -> ReviewScreen:
        """Return the review itself."""
        return ReviewScreen(self._source, self.state, self.document, self.send)

    def on_mount(self) -> None:
        """Listen for the signals that end programs, and read the first change."""
        for number in _FATAL:
            get_running_loop().add_signal_handler(number, self._end, number)
        self.app_resume_signal.subscribe(self, self._repaint)
        self.call_after_refresh(self._open)
        for effect in self._first:
            self._do(effect)
        self._draw()

    @property
    def is_deaf(self) -> bool:
        """Whether nothing was drawn yet, so that no key can be meant for it."""
        return self._opened == inf

    def _open(self) -> None:
        self._opened = monotonic()

    async def on_event(self, event: TextualEvent) -> None:
        """Let no key or click through that is older than the first paint: it was not meant for what is now there."""
        if not isinstance(event, InputEvent) or event.time >= self._opened:
            await super().on_event(event)

    def _repaint(self, _app: App[object]) -> None:
        """Draw all of it after `fg`: Textual only draws what it thinks has changed."""
        for screen in self.screen_stack:
            for widget in screen.walk_children():
                widget.refresh()

    def _end(self, number: int) -> None:
        self.exit(None, return_code=128 + number)

    # One way in, one way out

    def send(self, event: Event) -> None:
        """Let an event happen."""
        old = self.state
        self.state, effects = update(old, event)
        if self.state.row is not old.row and isinstance(self.state.row, HeadRow):
            self.document = overview(self.state.listing.groups[self.state.row.group])
        for effect in effects:
            self._do(effect)
        if self.state.face is not old.face:
            self._turn(self.state.face)
        self._draw()

    def _do(self, effect: Effect) -> None:
        match effect:
            case Load(key):
                self._show(Document(key, self._notes(self._table[key])))
                if self._reader.ask(key):
                    self.run_worker(self._reader.work, thread=True, exit_on_error=True)
            case Finish(selection):
                self.exit(selection)

    def _draw(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, ReviewScreen):
                screen.show(self.state, self.document)
            elif isinstance(screen, PageScreen):
                screen.show(self.state)

    def _turn(self, face: Face) -> None:
        if isinstance(self.screen, PageScreen):
            self.pop_screen()
        match face:
            case Face.SUMMARY:
                self.push_screen(summary_screen(self.state, self._source, self.send))
            case Face.LEAVE:
                self.push_screen(leave_screen(self.state, self._source, self.send))
            case Face.HELP:
                self.push_screen(help_screen(keys(self.screen), meanings(self.screen), self.send))
            case Face.REVIEW:
                pass

    # Reading

    def on_read(self, message: Read) -> None:
        """Show what was read, unless the cursor has moved on."""
        self._show(message.document)
        self._draw()

    def _show(self, found: Document) -> None:
        if found.key is not None and found.key == self.state.diff.key:
            self.document = found
            shown = DiffShown(found.key, len(found.lines), found.starts, found.longest)
            self.state, _ = update(self.state, shown)

    def _notes(self, change: Change) -> tuple[Line, ...]:
        names = [words.name(key, self._source.roots) for key in change.requires]
        return notes(change, names, self.state.diff_columns - _FRAME)

    def _read(self, key: Key) -> Document:
        """Read and compare a change; runs on the worker thread."""
        change = self._table[key]
        top = self._notes(change)
        try:
            before, after = self._source.content(key)
        except AgentDevError as error:
            return failed(change, top, error.message)
        except OSError as error:  # one strange file is shown as such
            return failed(change, top, error.strerror or str(error))
        return document(change, top, before, after)
