"""The Textual application of the review screen: it holds the state, sends it events and runs the effects."""

import gc
import signal
from asyncio import get_running_loop
from collections.abc import Callable, Mapping
from math import inf
from time import monotonic
from typing import ClassVar, Final

from textual.app import App
from textual.binding import BindingType
from textual.events import Event as TextualEvent
from textual.events import InputEvent, Paste
from textual.events import Key as KeyEvent
from textual.message import Message
from textual.screen import Screen

from agent_dev.fs.entry import Key
from agent_dev.overlay.labels import RISK_SIGN, display_path, path_text
from agent_dev.quick_dataclass import replace
from tui.effects import (
    Apply,
    AssessRisks,
    CountDeletions,
    DeclineCommits,
    EditConflict,
    Effect,
    ImportCommits,
    LoadDiff,
    LoadEntries,
    Quit,
    Resolve,
    RunAction,
    Search,
    ViewFile,
)
from tui.events import Event, LinesCounted, Resized, Result
from tui.keys.bindings import REVIEW_BINDINGS, SUSPEND
from tui.keys.key_names import descriptions_by_binding, keys_by_binding
from tui.model.tabs import Tab, TabEntry
from tui.page_text import commits
from tui.screens.pages import (
    conflicts_screen,
    decline_screen,
    deletions_screen,
    help_screen,
    import_screen,
    quit_screen,
    result_screen,
    risk_screen,
    send_back_screen,
    summary_screen,
)
from tui.screens.progress import ProgressScreen
from tui.screens.prompt import PromptScreen, prompt_event
from tui.screens.question import PageScreen, QuestionScreen
from tui.screens.review import ReviewScreen
from tui.source import Draft, Ending, ReviewedSession
from tui.state import ScreenPage, State, draft_of
from tui.terminal.driver import DriverWithAltKeys, WakeableDriver
from tui.terminal.terminal_setup import prepare_terminal
from tui.text import labels
from tui.theme import DARK, LIGHT, ScreenSettings
from tui.update.dispatch import initial_state, update
from tui.workers import Worker

_FATAL = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_REFRESH: Final = 2.0  # seconds between refreshes while the session runs


class WorkerResult(Message):
    """A worker's result, posted to the application."""

    def __init__(self, fact: Result) -> None:
        self.result = fact
        super().__init__()


def run_review(
    source: ReviewedSession,
    settings: ScreenSettings = ScreenSettings(),  # noqa: B008  (a constant)
) -> tuple[int, Ending]:
    """Let the user select and apply changes; return the exit code (1: applied only in part) and the ending.

    Conflicts between commits are then shown on their own screen, one commit after the other.
    """
    shown: ReviewedSession | None = source
    while shown is not None:
        with prepare_terminal():  # around the constructor too: App reads COLUMNS
            app = ReviewApp(shown, settings)
            gc.freeze()  # a collection over 100,000 changes took 100 ms during a key press
            app.run()
        shown = shown.next_conflicts() if app.state.resolves_next else None
    return app.state.code, app.state.ending


class ReviewApp(App[None], inherit_bindings=False):
    """The review application. It draws the state; every key and click goes through `send`."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [SUSPEND]

    def __init__(self, source: ReviewedSession, settings: ScreenSettings = ScreenSettings()) -> None:  # noqa: B008  (a constant)
        has_alt_keys = any("alt+" in keys for keys in settings.keys.values())
        super().__init__(driver_class=DriverWithAltKeys if has_alt_keys else WakeableDriver)
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = settings.theme if settings.theme in self.available_themes else DARK.name
        self.set_keymap(dict(settings.keys))
        self._source = source
        self._work = Worker(source, lambda fact: self.post_message(WorkerResult(fact)))
        self.state, self._initial_effects = initial_state(
            source.changes,
            draft=source.draft,
            tabs=_tabs(source),
            is_running=source.is_running,
            is_resolving=source.is_resolving,
        )
        self.state = replace(self.state, unassessed=source.unassessed)
        self._opened = inf
        self._exit_code: int | None = None
        self._is_closing = False
        self._asked = 0.0  # when the last question was asked

    # The screens

    def get_default_screen(self) -> ReviewScreen:
        """Return the review screen."""
        return ReviewScreen(self._source, self.state, self.send)

    def on_mount(self) -> None:
        """Install handlers for fatal signals, and load the first diff."""
        for number in _FATAL:
            get_running_loop().add_signal_handler(number, self._end, number)
        self.app_resume_signal.subscribe(self, self._repaint)
        self.call_after_refresh(self._open)
        self.state, effects = update(_with_actions(self.state), Resized(self.size.width))
        others = tuple(one for one in self._initial_effects if not isinstance(one, LoadDiff))
        for effect in (*others, *effects) if effects else self._initial_effects:
            self._run_effect(effect)
        self._draw()

    @property
    def is_before_first_paint(self) -> bool:
        """Return whether nothing has been painted yet; input is dropped until then."""
        return self._opened == inf

    def _open(self) -> None:
        self._opened = monotonic()
        self.run_worker(self._work.count_lines, thread=True)
        if self._source.is_running:
            self.set_interval(_REFRESH, lambda: self.run_worker(self._work.refresh, thread=True, group="refresh", exclusive=True))

    async def on_event(self, event: TextualEvent) -> None:
        """Drop input that was typed before the first paint, or after the screen started to close."""
        if not isinstance(event, InputEvent) or (event.time >= self._opened and not self._is_closing):
            if isinstance(event, InputEvent):
                self._work.delay_counting()
                if event.time < self._asked and isinstance(self.screen, QuestionScreen):
                    return  # typed before the question appeared, so not an answer to it
            if self.state.prompt is not None and isinstance(event, (KeyEvent, Paste)):
                self._send_to_prompt(event, self.state.prompt.text)
                return
            await super().on_event(event)

    def _send_to_prompt(self, event: KeyEvent | Paste, text: str) -> None:
        """Send a key to the prompt. Done here, so that a key typed ahead goes to the screen that follows the prompt."""
        if isinstance(event, KeyEvent) and event.key == SUSPEND.key:
            self.action_suspend_process()
        edit = prompt_event(event, text)
        if edit is not None:
            self.send(edit)

    def _repaint(self, _app: App[object]) -> None:
        """Redraw everything after `fg`; Textual redraws only what changed."""
        for screen in self.screen_stack:
            for widget in screen.walk_children():
                widget.refresh()

    def _end(self, number: int) -> None:
        """Exit on a signal; a merge in progress is finished first."""
        self._exit_code = 128 + number
        if self.state.page is not ScreenPage.PROGRESS:
            self._close(saves_selection=True)

    def _close(self, *, saves_selection: bool) -> None:
        self._is_closing = True
        self._work.stop()
        state = self.state
        if saves_selection and not state.is_running:
            self._source.save_draft(draft_of(state))
        elif state.notes:
            self._source.save_draft(Draft(notes=state.notes))
        self.exit(None, return_code=self._exit_code or 0)

    # Events and effects

    def send(self, event: Event) -> None:
        """Update the state with an event and run its effects; events after the screen started to close are dropped."""
        if self._is_closing or not self.screen_stack:  # empty when Textual itself closes the application
            return
        old = self.state
        self.state, effects = update(old, event)
        for effect in effects:
            self._run_effect(effect)
        if (
            self.state.page is not old.page
            or self.state.unconfirmed != old.unconfirmed
            or (isinstance(event, Resized) and isinstance(self.screen, PageScreen))
        ):
            self._switch_page(self.state)
        self._draw()
        if self._exit_code is not None and old.page is ScreenPage.PROGRESS and self.state.page is not ScreenPage.PROGRESS:
            self._close(saves_selection=False)

    def _run_effect(self, effect: Effect) -> None:
        match effect:
            case LoadDiff(key):
                must_start = self._work.request_diff(effect, self._required_names(key))
                if must_start:
                    # After the paint: the worker would hold the interpreter lock while the cursor moves.
                    self.call_after_refresh(self._start_reading)
            case (
                Resolve()
                | Search()
                | AssessRisks()
                | CountDeletions()
                | Apply()
                | LoadEntries()
                | ImportCommits()
                | DeclineCommits()
            ):
                self.run_worker(lambda: self._work.run_effect(effect), thread=True)
            case EditConflict(key):
                self._edit(key)
            case ViewFile(key, line):
                with self.suspend():
                    result = self._work.view_file(key, line)
                self.send(result)
            case RunAction(binding):
                self.call_later(self._run_binding, binding)
            case Quit(saves_selection):
                self._close(saves_selection=saves_selection)

    def _start_reading(self) -> None:
        self.run_worker(self._work.read_diffs, thread=True)

    async def _run_binding(self, binding: str) -> None:
        screen = self.screen_stack[0]
        if isinstance(screen, ReviewScreen):
            screen.action_do(binding)

    def _edit(self, key: Key) -> None:
        with self.suspend():
            result = self._work.edit_conflict(key)
        self.send(result)

    def _draw(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, (ReviewScreen, PageScreen, PromptScreen, ProgressScreen)):
                screen.show(self.state)

    def _switch_page(self, state: State) -> None:
        if len(self.screen_stack) > 1:
            self.pop_screen()
        page = self._page(state)
        if page is not None:
            self.push_screen(page)
        if isinstance(page, QuestionScreen):
            self._asked = monotonic()  # from now on, the question is visible and can be answered

    def _page(self, state: State) -> Screen[None] | None:
        review = self.screen_stack[0]
        pages: dict[ScreenPage, Callable[[], Screen[None]]] = {
            ScreenPage.RISK: lambda: risk_screen(state, self._source, self.send),
            ScreenPage.DELETIONS: lambda: deletions_screen(state, self._source, self.send),
            ScreenPage.SUMMARY: lambda: summary_screen(state, self._source, self.send),
            ScreenPage.IMPORT: lambda: import_screen(state, self._source, self.send),
            ScreenPage.DECLINE: lambda: decline_screen(state, self.send),
            ScreenPage.CONFLICTS: lambda: conflicts_screen(state, self.send),
            ScreenPage.QUIT: lambda: quit_screen(state, self._source, self.send),
            ScreenPage.HELP: lambda: help_screen(
                keys_by_binding(review), descriptions_by_binding(review), self.send, state.columns
            ),
            ScreenPage.PROMPT: lambda: PromptScreen(state, keys_by_binding(review)),
            ScreenPage.PROGRESS: lambda: ProgressScreen(state),
            ScreenPage.SEND_BACK: lambda: send_back_screen(state, self._source, self.send),
            ScreenPage.RESULT: lambda: result_screen(state, self.send),
        }
        return pages[state.page]() if state.page in pages else None

    def on_worker_result(self, message: WorkerResult) -> None:
        """Send a worker's result to the state."""
        self.send(message.result)
        if isinstance(message.result, LinesCounted):
            self._work.continue_counting()

    def _required_names(self, key: Key) -> tuple[str, ...]:
        change = self.state.changes.by_key()[key]
        return tuple(display_path(one, self._source.roots) for one in change.requires)


def _tabs(source: ReviewedSession) -> Mapping[Tab, tuple[TabEntry, ...]]:
    known = {change.key for change in source.changes.changes if change.risks}
    risky = tuple(
        TabEntry(
            f"{display_path(change.key, source.roots)}: {', '.join(risk.rule for risk in change.risks)}",
            tuple(text for risk in change.risks for text in (f"{RISK_SIGN} {risk.why}", f"check: {labels.risk_check(risk)}", "")),
            is_risky=True,
            key=change.key,
        )
        for change in source.changes.changes
        if change.risks
    )
    risky += tuple(
        TabEntry(
            f"{path_text(one.path)}: {', '.join(risk.rule for risk in one.risks)}",
            (
                *(text for risk in one.risks for text in (f"{RISK_SIGN} {risk.why}", f"check: {labels.risk_check(risk)}")),
                *one.details,
            ),
            is_risky=True,
        )
        for key, one in commits.risky_paths(source.tabs.get(Tab.COMMITS, ())).items()
        if key not in known
    )
    return {**source.tabs, Tab.RISKS: risky} if risky else source.tabs


def _with_actions(state: State) -> State:
    return replace(state, actions=tuple((name, about) for name, (_, about, _) in REVIEW_BINDINGS.items()))
