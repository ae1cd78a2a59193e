"""The merge screen as a program: it holds the state, feeds it events and carries out what they ask for."""

import gc
import signal
from asyncio import get_running_loop
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from time import monotonic
from typing import ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Event as TextualEvent
from textual.events import InputEvent, Paste
from textual.events import Key as KeyEvent
from textual.message import Message
from textual.screen import Screen

from agent_dev.overlay.changes import Key
from tui.effects import Apply, Bring, Do, Edit, Effect, Finish, Load, ReadEntries, Seek, Settle
from tui.events import Counted, Event, Fact, Resized
from tui.keys.bindings import REVIEW
from tui.keys.key_names import keys, meanings
from tui.model.tabs import Entry, Tab
from tui.screens.pages import bring_screen, clash_screen, help_screen, leave_screen, result_screen, risk_screen, summary_screen
from tui.screens.progress import ProgressScreen
from tui.screens.prompt import PromptScreen, meaning
from tui.screens.question import PageScreen
from tui.screens.review import ReviewScreen
from tui.source import Draft, Source
from tui.state import Face, State
from tui.terminal.driver import Driver
from tui.terminal.terminal_setup import borrowed
from tui.text import commits
from tui.text import labels as words
from tui.theme import DARK, LIGHT, Looks
from tui.update.dispatch import begin, update
from tui.workers import Work

_FATAL = (signal.SIGTERM, signal.SIGHUP)
_REFRESH: Final = 2.0  # seconds between two looks at a session that still runs


class Learned(Message):
    """A worker has found something."""

    def __init__(self, fact: Fact) -> None:
        self.fact = fact
        super().__init__()


def review(source: Source, looks: Looks = Looks()) -> int:  # noqa: B008  (a constant)
    """Let the user choose and merge; return the exit code: 0, or 1 for what was merged in part.

    Conflicts of commits that are to be settled get a screen of their own, those of each commit one after the other.
    """
    shown: Source | None = source
    while shown is not None:
        with borrowed():  # around the App too: it believes COLUMNS when it is made
            app = ReviewApp(shown, looks)
            gc.freeze()  # what is shown stays: a collection that looked at 100,000 changes took 100 ms in the middle of a key
            app.run()
        shown = shown.settling() if app.state.is_onward else None
    return app.state.code


class ReviewApp(App[None], inherit_bindings=False):
    """Draws the state and nothing else; every key and click passes through `send`."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+z", "suspend_process", "stop for now; fg continues", id="suspend")]

    def __init__(self, source: Source, looks: Looks = Looks()) -> None:  # noqa: B008  (a constant)
        super().__init__(driver_class=Driver)
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = looks.theme if looks.theme in self.available_themes else DARK.name
        self.set_keymap(dict(looks.keys))
        self._source = source
        self._work = Work(source, lambda fact: self.post_message(Learned(fact)))
        self.state, self._first = begin(
            source.changes,
            draft=source.draft,
            tabs=_tabs(source),
            is_running=source.is_running,
            is_settling=source.is_settling,
        )
        self._opened = inf
        self._ending: int | None = None
        self._is_leaving = False

    # The screens

    def get_default_screen(self) -> ReviewScreen:
        """Return the review itself."""
        return ReviewScreen(self._source, self.state, self.send)

    def on_mount(self) -> None:
        """Listen for the signals that end programs, and read the first change."""
        for number in _FATAL:
            get_running_loop().add_signal_handler(number, self._end, number)
        self.app_resume_signal.subscribe(self, self._repaint)
        self.call_after_refresh(self._open)
        self.state, asked = update(_with_actions(self.state), Resized(self.size.width))
        others = tuple(one for one in self._first if not isinstance(one, Load))
        for effect in (*others, *asked) if asked else self._first:
            self._do(effect)
        self._draw()

    @property
    def is_deaf(self) -> bool:
        """Whether nothing was drawn yet, so that no key can be meant for it."""
        return self._opened == inf

    def _open(self) -> None:
        self._opened = monotonic()
        self.run_worker(self._work.count, thread=True)
        if self._source.is_running:
            self.set_interval(_REFRESH, lambda: self.run_worker(self._work.refresh, thread=True, group="refresh", exclusive=True))

    async def on_event(self, event: TextualEvent) -> None:
        """Let no key or click through that is older than the first paint: it was not meant for what is now there.

        Nor one behind the key that leaves.
        """
        if not isinstance(event, InputEvent) or (event.time >= self._opened and not self._is_leaving):
            if isinstance(event, InputEvent):
                self._work.wait_for_user()
            if self.state.prompt is not None and isinstance(event, (KeyEvent, Paste)):
                self._type(event, self.state.prompt.text)
                return
            await super().on_event(event)

    def _type(self, event: KeyEvent | Paste, text: str) -> None:
        """Take a key for the line that is typed: here, so that the next key already goes to what follows the line."""
        made = meaning(event, text)
        if made is not None:
            self.send(made)

    def _repaint(self, _app: App[object]) -> None:
        """Draw all of it after `fg`: Textual only draws what it thinks has changed."""
        for screen in self.screen_stack:
            for widget in screen.walk_children():
                widget.refresh()

    def _end(self, number: int) -> None:
        """End, but not in the middle of a merge: what was begun is brought to its end first."""
        self._ending = 128 + number
        if self.state.face is not Face.PROGRESS:
            self._leave(is_kept=True)

    def _leave(self, *, is_kept: bool) -> None:
        self._is_leaving = True
        self._work.stop()
        if is_kept and not self.state.is_running:
            state = self.state
            self._source.save(Draft(state.selection, state.parts, state.reviewed, state.diff.key, state.answers))
        self.exit(None, return_code=self._ending or 0)

    # One way in, one way out

    def send(self, event: Event) -> None:
        """Let an event happen; behind the one that leaves nothing does, for the screens are being taken down."""
        if self._is_leaving:
            return
        old = self.state
        self.state, effects = update(old, event)
        for effect in effects:
            self._do(effect)
        if (
            self.state.face is not old.face
            or self.state.asked != old.asked
            or (isinstance(event, Resized) and isinstance(self.screen, PageScreen))
        ):
            self._turn(self.state)
        self._draw()
        if self._ending is not None and old.face is Face.PROGRESS and self.state.face is not Face.PROGRESS:
            self._leave(is_kept=False)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Load(key):
                wanted = self._work.ask(effect, self._notes_of(key))
                if wanted:
                    # After the paint: Python lets one thread run at a time, and the cursor's move comes first.
                    self.call_after_refresh(self._read)
            case Settle() | Seek() | Apply() | ReadEntries() | Bring():
                self.run_worker(lambda: self._work.do(effect), thread=True)
            case Edit(key):
                self._edit(key)
            case Do(binding):
                self.call_later(self._run, binding)
            case Finish(is_kept):
                self._leave(is_kept=is_kept)

    def _read(self) -> None:
        self.run_worker(self._work.read, thread=True)

    async def _run(self, binding: str) -> None:
        screen = self.screen_stack[0]
        if isinstance(screen, ReviewScreen):
            screen.action_do(binding)

    def _edit(self, key: Key) -> None:
        with self.suspend():
            found = self._work.edit(key)
        self.send(found)

    def _draw(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, (ReviewScreen, PageScreen, PromptScreen, ProgressScreen)):
                screen.show(self.state)

    def _turn(self, state: State) -> None:
        if len(self.screen_stack) > 1:
            self.pop_screen()
        page = self._page(state)
        if page is not None:
            self.push_screen(page)

    def _page(self, state: State) -> Screen[None] | None:
        review = self.screen_stack[0]
        pages: dict[Face, Callable[[], Screen[None]]] = {
            Face.RISK: lambda: risk_screen(state, self._source, self.send),
            Face.SUMMARY: lambda: summary_screen(state, self._source, self.send),
            Face.BRING: lambda: bring_screen(state, self._source, self.send),
            Face.CLASH: lambda: clash_screen(state, self.send),
            Face.LEAVE: lambda: leave_screen(state, self._source, self.send),
            Face.HELP: lambda: help_screen(keys(review), meanings(review), self.send, state.columns),
            Face.PROMPT: lambda: PromptScreen(state, keys(review)),
            Face.PROGRESS: lambda: ProgressScreen(state),
            Face.RESULT: lambda: result_screen(state, self.send),
        }
        return pages[state.face]() if state.face in pages else None

    def on_learned(self, message: Learned) -> None:
        """Take in what a worker found."""
        self.send(message.fact)
        if isinstance(message.fact, Counted):
            self._work.go_on()

    def _notes_of(self, key: Key) -> tuple[str, ...]:
        change = self.state.changes.by_key()[key]
        return tuple(words.name(one, self._source.roots) for one in change.requires)


def _tabs(source: Source) -> Mapping[Tab, tuple[Entry, ...]]:
    known = {change.key for change in source.changes.changes if change.risks}
    risky = tuple(
        Entry(
            f"{words.name(change.key, source.roots)}: {', '.join(risk.rule for risk in change.risks)}",
            tuple(text for risk in change.risks for text in (f"{words.RISK} {risk.why}", f"look at: {words.look(risk)}", "")),
            is_risky=True,
            key=change.key,
        )
        for change in source.changes.changes
        if change.risks
    )
    risky += tuple(
        Entry(
            f"{words.text(one.path)}: {', '.join(risk.rule for risk in one.risks)}",
            (*(text for risk in one.risks for text in (f"{words.RISK} {risk.why}", f"look at: {words.look(risk)}")), *one.about),
            is_risky=True,
        )
        for key, one in commits.risky(source.tabs.get(Tab.COMMITS, ())).items()
        if key not in known
    )
    return {**source.tabs, Tab.RISKS: risky} if risky else source.tabs


def _with_actions(state: State) -> State:
    return replace(state, actions=tuple((name, about) for name, (_, about, _) in REVIEW.items()))
