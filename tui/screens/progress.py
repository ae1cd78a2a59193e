"""The progress of a merge, in completed steps."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from tui.model.document import Tone
from tui.state import State
from tui.widgets.bars import Bar
from tui.widgets.paint import Piece


class ProgressScreen(ModalScreen[None], inherit_bindings=False):
    """A progress bar. No key interrupts the merge."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._head, self._bar, self._note = (Bar(id=f"progress-{name}") for name in ("title", "bar", "note"))

    def compose(self) -> ComposeResult:
        """Lay out the title, the bar and a note."""
        with Vertical(id="progress"):
            yield from (self._head, self._bar, self._note)

    def on_mount(self) -> None:
        """Draw for the first time."""
        self._head.show([Piece(" Applying", Tone.STRONG)])
        self._note.show([Piece(" crash-safe: the next command finishes or reverts an interrupted merge", Tone.DIM)])
        self.show(self._state)

    def show(self, state: State) -> None:
        """Draw a state."""
        done, total = state.progress
        cells = max(10, self._bar.size.width - 24)
        full = cells * done // total if total else 0
        numbers = f" {done:,} of {total:,} steps" if total else " preparing"
        self._bar.show([Piece(" " + "█" * full, "accent"), Piece("░" * (cells - full), Tone.DIM), Piece(numbers)])
