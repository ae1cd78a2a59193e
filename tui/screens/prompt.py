"""The text prompt at the bottom of the review, and the command palette above it."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Event as TextualEvent
from textual.events import Key, Paste
from textual.screen import ModalScreen

from tui.events import CursorMoved, Event, PromptClosed, PromptEdited, PromptKind
from tui.keys.key_names import KeysByBinding
from tui.model.document import Tone
from tui.state import State
from tui.text.cells import clean_text, crop_start, width
from tui.widgets.bars import Bar
from tui.widgets.paint import Piece

_ROWS = 12  # of the palette
_LABELS = {
    PromptKind.FILTER: "filter",
    PromptKind.SEARCH: "search",
    PromptKind.PALETTE: "command",
    PromptKind.BRANCH: "name of the new branch",
    PromptKind.NOTE: "note to the agent",
}
_CLOSING_KEYS = {"enter": True, "escape": False, "ctrl+c": False, "ctrl+q": False}
_CURSOR_KEYS = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1}
_DELETING_KEYS: dict[str, Callable[[str], str]] = {
    "backspace": lambda text: text[:-1],
    "ctrl+h": lambda text: text[:-1],
    "ctrl+w": lambda text: text.rstrip().rpartition(" ")[0],
    "ctrl+u": lambda _: "",
}
_MAX_LENGTH = 500
_MIN_TEXT = 5  # cells


class PromptScreen(ModalScreen[None], inherit_bindings=False):
    """Draws the prompt of the state. While it is open, the application handles the keys."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, state: State, key_names: KeysByBinding) -> None:
        super().__init__()
        self._state, self._key_names = state, key_names
        # References, not queries: keys typed ahead may close the prompt before it is mounted.
        self._line = Bar(id="line")
        is_palette = state.prompt is not None and state.prompt.kind is PromptKind.PALETTE
        self._rows = tuple(Bar(id=f"action-{row}", classes="action") for row in range(_ROWS if is_palette else 0))

    def compose(self) -> ComposeResult:
        """Lay out the palette's rows and the input line."""
        with Vertical(id="prompt"):
            yield from self._rows
            yield self._line

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.show(self._state)

    def show(self, state: State) -> None:
        """Draw a state."""
        self._state = state
        prompt = state.prompt
        if prompt is None:
            return
        label = f" {_LABELS[prompt.kind]}: "
        hint = {
            PromptKind.FILTER: "enter keep, esc cancel ",
            PromptKind.SEARCH: "enter search ",
            PromptKind.BRANCH: "enter create, esc cancel ",
            PromptKind.NOTE: "enter keep, esc cancel ",
        }.get(prompt.kind, "enter run ")
        free = max(_MIN_TEXT, state.columns - width(label) - width(hint) - 1)
        text = crop_start(clean_text(prompt.text), free)  # the end, where the cursor is
        self._line.show([Piece(label, "accent"), Piece(text), Piece("▏", "cursor")], [Piece(hint, Tone.DIM)])
        if prompt.kind is PromptKind.PALETTE:
            self._show_actions(state, prompt.cursor)

    def _show_actions(self, state: State, cursor: int) -> None:
        actions = state.matching_actions
        top = max(0, min(cursor - _ROWS + 1, len(actions) - _ROWS))
        for row, bar in enumerate(self._rows):
            pieces: list[Piece] = []
            if top + row < len(actions):
                name, description = actions[top + row]
                is_focused = top + row == cursor
                pieces = [
                    Piece("▌" if is_focused else " ", "cursor"),
                    Piece(f"{' '.join(self._key_names.get(name, ())):<16} ", "accent"),
                    Piece(description, Tone.STRONG if is_focused else Tone.PLAIN),
                ]
            bar.show(pieces)


def prompt_event(event: TextualEvent, text: str) -> Event | None:
    """Return the event that a key or a paste causes in a prompt; None for other input."""
    if isinstance(event, Paste):
        return PromptEdited((text + event.text.partition("\n")[0])[:_MAX_LENGTH])
    if not isinstance(event, Key):
        return None
    if event.key in _CLOSING_KEYS:
        return PromptClosed(_CLOSING_KEYS[event.key])
    if event.key in _CURSOR_KEYS:
        return CursorMoved(_CURSOR_KEYS[event.key])
    if event.key in _DELETING_KEYS:
        return PromptEdited(_DELETING_KEYS[event.key](text))
    is_letter = event.is_printable and event.character and len(text) < _MAX_LENGTH
    return PromptEdited(text + event.character) if is_letter and event.character else None
