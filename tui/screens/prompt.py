"""A line to type at the foot of the review, and the palette above it: what is typed is a text and never a key."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Event as TextualEvent
from textual.events import Key, Paste
from textual.screen import ModalScreen

from tui.events import Asking, Event, Moved, Typed, TypedOut
from tui.keys.key_names import Keys
from tui.model.document import Tone
from tui.state import State
from tui.widgets.bars import Bar
from tui.widgets.paint import Piece

_ROWS = 12  # of the palette
_LABELS = {
    Asking.FILTER: "names that hold",
    Asking.SEARCH: "search",
    Asking.PALETTE: "do",
    Asking.BRANCH: "name of the new branch",
}
_ENDS = {"enter": True, "escape": False, "ctrl+c": False, "ctrl+q": False}
_MOVES = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1}
_SHORTER: dict[str, Callable[[str], str]] = {
    "backspace": lambda text: text[:-1],
    "ctrl+h": lambda text: text[:-1],
    "ctrl+w": lambda text: text.rstrip().rpartition(" ")[0],
    "ctrl+u": lambda _: "",
}
_LONGEST = 500


class PromptScreen(ModalScreen[None], inherit_bindings=False):
    """Draws the line that the state has. Keys do not come here: the program takes them while a line is typed."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, state: State, known: Keys) -> None:
        super().__init__()
        self._state, self._known = state, known
        # Held, and never looked for: a line can be over, by keys that were typed ahead, before it is mounted.
        self._line = Bar(id="line")
        is_palette = state.prompt is not None and state.prompt.what is Asking.PALETTE
        self._rows = tuple(Bar(id=f"action-{row}", classes="action") for row in range(_ROWS if is_palette else 0))

    def compose(self) -> ComposeResult:
        """Lay out the palette's rows, and the line."""
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
        label = Piece(f" {_LABELS[prompt.what]}: ", "accent")
        hint = {
            Asking.FILTER: "enter keeps, esc takes back ",
            Asking.SEARCH: "enter searches ",
            Asking.BRANCH: "enter makes it, esc does not ",
        }.get(prompt.what, "enter does it ")
        self._line.show([label, Piece(prompt.text), Piece("▏", "cursor")], [Piece(hint, Tone.DIM)])
        if prompt.what is Asking.PALETTE:
            self._show_actions(state, prompt.at)

    def _show_actions(self, state: State, at: int) -> None:
        found = state.found_actions
        top = max(0, min(at - _ROWS + 1, len(found) - _ROWS))
        for row, bar in enumerate(self._rows):
            pieces: list[Piece] = []
            if top + row < len(found):
                name, about = found[top + row]
                is_here = top + row == at
                pieces = [
                    Piece("▌" if is_here else " ", "cursor"),
                    Piece(f"{' '.join(self._known.get(name, ())):<16} ", "accent"),
                    Piece(about, Tone.STRONG if is_here else Tone.PLAIN),
                ]
            bar.show(pieces)


def meaning(event: TextualEvent, text: str) -> Event | None:
    """Return what a key or a paste makes of the line; None for what makes nothing of it."""
    if isinstance(event, Paste):
        return Typed((text + event.text.partition("\n")[0])[:_LONGEST])
    if not isinstance(event, Key):
        return None
    if event.key in _ENDS:
        return TypedOut(_ENDS[event.key])
    if event.key in _MOVES:
        return Moved(_MOVES[event.key])
    if event.key in _SHORTER:
        return Typed(_SHORTER[event.key](text))
    is_letter = event.is_printable and event.character and len(text) < _LONGEST
    return Typed(text + event.character) if is_letter and event.character else None
