"""A line to type at the foot of the review, and the palette above it: what is typed is a text and never a key."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Key, Paste
from textual.screen import ModalScreen

from tui.document import Tone
from tui.events import Asking, Event, Moved, Typed, TypedOut
from tui.keys import Keys
from tui.state import State
from tui.widgets.bars import Bar
from tui.widgets.paint import Piece

Send = Callable[[Event], None]

_ROWS = 12  # of the palette
_LABELS = {Asking.FILTER: "names that hold", Asking.SEARCH: "search", Asking.PALETTE: "do"}
_ENDS = {"enter": True, "escape": False, "ctrl+c": False, "ctrl+q": False}
_MOVES = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1}
_LONGEST = 500


class PromptScreen(ModalScreen[None], inherit_bindings=False):
    """Takes letters; the state has the line."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, state: State, known: Keys, send: Send) -> None:
        super().__init__()
        self._state, self._known, self._send = state, known, send

    def compose(self) -> ComposeResult:
        """Lay out the palette's rows, and the line."""
        is_palette = self._state.prompt is not None and self._state.prompt.what is Asking.PALETTE
        with Vertical(id="prompt"):
            for row in range(_ROWS if is_palette else 0):
                yield Bar(id=f"action-{row}", classes="action")
            yield Bar(id="line")

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.show(self._state)

    def show(self, state: State) -> None:
        """Draw a state."""
        self._state = state
        prompt = state.prompt
        if prompt is None or not self.is_mounted:
            return
        label = Piece(f" {_LABELS[prompt.what]}: ", "accent")
        hint = {Asking.FILTER: "enter keeps, esc takes back ", Asking.SEARCH: "enter searches "}.get(
            prompt.what, "enter does it "
        )
        self.query_one("#line", Bar).show([label, Piece(prompt.text), Piece("▏", "cursor")], [Piece(hint, Tone.DIM)])
        if prompt.what is Asking.PALETTE:
            self._show_actions(state, prompt.at)

    def _show_actions(self, state: State, at: int) -> None:
        found = state.found_actions
        top = max(0, min(at - _ROWS + 1, len(found) - _ROWS))
        for row in range(_ROWS):
            pieces: list[Piece] = []
            if top + row < len(found):
                name, about = found[top + row]
                is_here = top + row == at
                pieces = [
                    Piece("▌" if is_here else " ", "cursor"),
                    Piece(f"{' '.join(self._known.get(name, ())):<16} ", "accent"),
                    Piece(about, Tone.STRONG if is_here else Tone.PLAIN),
                ]
            self.query_one(f"#action-{row}", Bar).show(pieces)

    def on_key(self, event: Key) -> None:
        """Add a letter, take one away, end the line."""
        event.stop()
        text = self._state.prompt.text if self._state.prompt else ""
        if event.key in _ENDS:
            self._send(TypedOut(_ENDS[event.key]))
        elif event.key in _MOVES:
            self._send(Moved(_MOVES[event.key]))
        elif event.key in ("backspace", "ctrl+h"):
            self._send(Typed(text[:-1]))
        elif event.key in ("ctrl+u", "ctrl+w"):
            self._send(Typed("" if event.key == "ctrl+u" else text.rstrip().rpartition(" ")[0]))
        elif event.is_printable and event.character and len(text) < _LONGEST:
            self._send(Typed(text + event.character))

    def on_paste(self, event: Paste) -> None:
        """Add the first line of what is pasted."""
        event.stop()
        text = self._state.prompt.text if self._state.prompt else ""
        self._send(Typed((text + event.text.partition("\n")[0])[:_LONGEST]))
