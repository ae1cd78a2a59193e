"""A widget with the answers to a question; the focus is marked by a sign, not only by colour."""

from typing import ClassVar

from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.model.document import Tone
from tui.text.cells import width
from tui.widgets.paint import TONE_CLASSES, Piece, StyleCache, paint_row


class Answers(Widget, can_focus=False):
    """The answers to a question on one line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(TONE_CLASSES)

    class Clicked(Message):
        """An answer was clicked."""

        def __init__(self, answer: int) -> None:
            self.answer = answer
            super().__init__()

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self._labels = tuple(f" {one} " for one in answers)
        self._answer = 0

    def show(self, answer: int) -> None:
        """Mark the focused answer."""
        self._answer = answer
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        pieces = [piece for index in range(len(self._labels)) for piece in self._pieces(index)] if y == 0 else []
        return paint_row(StyleCache(self), pieces, self.size.width)

    def _pieces(self, index: int) -> list[Piece]:
        if self._answer == index:
            return [Piece("▸", "accent"), Piece(self._labels[index], "selected"), Piece("  ")]
        return [Piece(" "), Piece(self._labels[index], Tone.DIM), Piece("  ")]

    def on_click(self, event: Click) -> None:
        """Report which answer was clicked, if any."""
        offset = event.get_content_offset(self)
        end = 0
        for index, label in enumerate(self._labels):
            end += width(label) + 3
            if offset and offset.x < end:
                self.post_message(self.Clicked(index))
                return
