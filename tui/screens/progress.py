"""How far the merge is, in steps that are really done."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from tui.document import Tone
from tui.state import State
from tui.widgets.bars import Bar
from tui.widgets.paint import Piece


class ProgressScreen(ModalScreen[None], inherit_bindings=False):
    """Shows numbers; no key stops what was begun."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, state: State) -> None:
        super().__init__()
        self._is_laid_out = False  # `is_mounted` is not yet true while mounting
        self._state = state

    def compose(self) -> ComposeResult:
        """Lay out two lines."""
        with Vertical(id="progress"):
            yield Bar(id="progress-title")
            yield Bar(id="progress-bar")
            yield Bar(id="progress-note")

    def on_mount(self) -> None:
        """Draw for the first time."""
        self._is_laid_out = True
        self.query_one("#progress-title", Bar).show([Piece(" Merging", Tone.STRONG)])
        self.query_one("#progress-note", Bar).show(
            [Piece(" a crash now loses nothing: the next command finishes or takes back", Tone.DIM)]
        )
        self.show(self._state)

    def show(self, state: State) -> None:
        """Draw a state."""
        if not self._is_laid_out:
            return
        done, whole = state.progress
        bar = self.query_one("#progress-bar", Bar)
        cells = max(10, bar.size.width - 24)
        full = cells * done // whole if whole else 0
        numbers = f" {done:,} of {whole:,} steps" if whole else " preparing"
        bar.show([Piece(" " + "█" * full, "accent"), Piece("░" * (cells - full), Tone.DIM), Piece(numbers)])
