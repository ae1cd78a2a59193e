"""One-line bars: title, pane titles, a word, totals, keys. And pages of text."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.widgets.paint import TONES, Palette, Piece, filtered, paint, row
from tui.widgets.row_view import RowView

Pieces = Sequence[Piece]


class Bar(Widget, can_focus=False):
    """One line: pieces at the left, pieces at the right, the right ones are never cut by the left."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(TONES)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  (Textual's names)
        super().__init__(id=id, classes=classes)
        self._left: Pieces = ()
        self._right: Pieces = ()
        self._strip: Strip | None = None

    def show(self, left: Pieces, right: Pieces = ()) -> None:
        """Draw other pieces."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self._strip = None
            self.refresh()

    def notify_style_update(self) -> None:
        """Paint anew: colours may have changed."""
        super().notify_style_update()
        self._strip = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the line, or a part of it."""
        cells = self.size.width
        if self._strip is None or self._strip.cell_length != cells:
            self._strip = filtered(self, paint(Palette(self), row(self._left, self._right, cells), cells))
        return [self._strip.crop(*crop.column_span)] * crop.height


class Page(RowView):
    """Lines of pieces to read through."""

    def __init__(self, lines: Sequence[Pieces]) -> None:
        super().__init__()
        self._lines = lines

    def on_mount(self) -> None:
        """Have as many rows as lines."""
        self.have_rows(len(self._lines))
        self.show_rows()

    def draw(self, index: int, _cells: int) -> Iterable[Piece]:
        """Draw one line."""
        return self._lines[index]
