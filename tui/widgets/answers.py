"""The answers to a question, the one in focus marked by more than colour."""

from typing import ClassVar

from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.model.document import Tone
from tui.text.cells import width
from tui.widgets.paint import TONES, Palette, Piece, paint


class Answers(Widget, can_focus=False):
    """Draws answers on one line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(TONES)

    class Given(Message):
        """An answer was clicked."""

        def __init__(self, answer: int) -> None:
            self.answer = answer
            super().__init__()

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self._words = tuple(f" {one} " for one in answers)
        self._answer = 0

    def show(self, answer: int) -> None:
        """Mark an answer as the one in focus."""
        self._answer = answer
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        pieces = [piece for at in range(len(self._words)) for piece in self._piece(at)] if y == 0 else []
        return paint(Palette(self), pieces, self.size.width)

    def _piece(self, at: int) -> list[Piece]:
        if self._answer == at:
            return [Piece("▸", "accent"), Piece(self._words[at], "chosen"), Piece("  ")]
        return [Piece(" "), Piece(self._words[at], Tone.DIM), Piece("  ")]

    def on_click(self, event: Click) -> None:
        """Say which answer was clicked; beside them nothing."""
        offset = event.get_content_offset(self)
        end = 0
        for at, said in enumerate(self._words):
            end += width(said) + 3
            if offset and offset.x < end:
                self.post_message(self.Given(at))
                return
