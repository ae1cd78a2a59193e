"""One-line bars (titles, status, totals, keys), and pages of text."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.events import Click
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.text.cells import width
from tui.widgets.paint import TONE_CLASSES, Piece, StyleCache, align_row, apply_line_filters, paint_row
from tui.widgets.row_view import RowView

Pieces = Sequence[Piece]


class Bar(Widget, can_focus=False):
    """A line with left-aligned and right-aligned pieces; the left ones are cut first."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(TONE_CLASSES)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  (Textual's names)
        super().__init__(id=id, classes=classes)
        self._left: Pieces = ()
        self._right: Pieces = ()
        self._strip: Strip | None = None

    class Clicked(Message):
        """A click on a left-aligned piece."""

        def __init__(self, bar: "Bar", pieces: Pieces, index: int) -> None:
            self.bar, self.pieces, self.index = bar, pieces, index
            super().__init__()

        @property
        def control(self) -> "Bar":
            """The bar, for the selectors of message handlers."""
            return self.bar

    def on_click(self, event: Click) -> None:
        """Report which piece was clicked."""
        offset = event.get_content_offset(self)
        column = offset.x if offset else -1
        for index, piece in enumerate(align_row(self._left, self._right, self.size.width)[: len(self._left)]):
            if 0 <= column < width(piece.text):
                event.stop()
                self.post_message(self.Clicked(self, self._left, index))
                return
            column -= width(piece.text)

    def show(self, left: Pieces, right: Pieces = ()) -> None:
        """Show other pieces."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self._strip = None
            self.refresh()

    def notify_style_update(self) -> None:
        """Repaint, because styles may have changed."""
        super().notify_style_update()
        self._strip = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint the line or a part of it."""
        cells = self.size.width
        if self._strip is None or self._strip.cell_length != cells:
            self._strip = apply_line_filters(self, paint_row(StyleCache(self), align_row(self._left, self._right, cells), cells))
        return [self._strip.crop(*crop.column_span)] * crop.height


class TextPage(RowView):
    """A scrollable page of lines."""

    def __init__(self, lines: Sequence[Pieces]) -> None:
        super().__init__()
        self._lines = lines

    def on_mount(self) -> None:
        """Set the number of rows and draw them."""
        self.set_row_count(len(self._lines))
        self.update_rows()

    def row_pieces(self, index: int, _cells: int) -> Iterable[Piece]:
        """Return the pieces of a line."""
        return self._lines[index]
