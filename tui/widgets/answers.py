"""No and yes, the one in focus marked by more than colour."""

from typing import ClassVar

from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.cells import width
from tui.document import Tone
from tui.widgets.paint import TONES, Piece, paint


class Answers(Widget, can_focus=False):
    """Draws two answers on one line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(TONES)

    class Given(Message):
        """An answer was clicked."""

        def __init__(self, *, is_yes: bool) -> None:
            self.is_yes = is_yes
            super().__init__()

    def __init__(self, no: str, yes: str) -> None:
        super().__init__()
        self._words = (f" {no} ", f" {yes} ")
        self._is_yes = False

    def show(self, *, is_yes: bool) -> None:
        """Mark an answer as the one in focus."""
        self._is_yes = is_yes
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        pieces = [piece for at in (0, 1) for piece in self._answer(at)] if y == 0 else []
        return paint(self, pieces, self.size.width, self.rich_style)

    def _answer(self, at: int) -> list[Piece]:
        if self._is_yes == bool(at):
            return [Piece("▸", "accent"), Piece(self._words[at], "chosen"), Piece("  ")]
        return [Piece(" "), Piece(self._words[at], Tone.DIM), Piece("  ")]

    def on_click(self, event: Click) -> None:
        """Say which answer was clicked; beside them nothing."""
        offset = event.get_content_offset(self)
        first = width(self._words[0]) + 3
        if offset and offset.x < first + width(self._words[1]) + 1:
            self.post_message(self.Given(is_yes=offset.x >= first))
