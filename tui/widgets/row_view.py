"""A pane of rows of which only those on the screen are ever drawn, and each only when it may have changed."""

from collections.abc import Collection, Iterable
from typing import ClassVar, NamedTuple

from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.widgets.paint import TONES, Palette, Piece, filtered, paint

_MARGIN = 2  # rows that stay visible above and below the cursor
_LEAD = 3  # rows above a place that was jumped to
_KEPT = 500  # painted rows: a few screens


class _Drawn(NamedTuple):
    """A row as it was drawn, wherever it stands."""

    cells: int
    looks: tuple[str, ...]
    pieces: tuple[Piece, ...]


class RowView(ScrollView, can_focus=False):
    """Rows drawn by `draw`. Keys never come here: the screen has them, and the state says where the cursor is."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONES, "row--cursor", "row--idle", "row--added", "row--removed"}

    class Clicked(Message):
        """A row was clicked, `column` cells from the left."""

        def __init__(self, view: "RowView", row: int, column: int, *, is_double: bool) -> None:
            self.view, self.row, self.column, self.is_double = view, row, column, is_double
            super().__init__()

        @property
        def control(self) -> "RowView":
            """The pane, for handlers that select by it."""
            return self.view

    def draw(self, index: int, cells: int) -> Iterable[Piece]:
        """Return the pieces of a row; they may be too long."""
        raise NotImplementedError

    def look(self, _index: int) -> tuple[str, ...]:
        """Return the classes of a row as a whole, the strongest last."""
        return ()

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._palette: Palette | None = None
        self._drawn: dict[int, _Drawn] = {}  # by their numbers, some out of sight as well
        self._strips: dict[_Drawn, Strip] = {}  # rows that scroll are painted once
        self._top = 0

    @property
    def is_drawn(self) -> bool:
        """Whether rows were drawn already."""
        return bool(self._drawn)

    def have_rows(self, count: int) -> None:
        """Have this many rows."""
        if self.virtual_size.height != count:
            self.virtual_size = Size(1, count)

    def show_rows(self, changed: Collection[int] | None = None) -> None:
        """Paint those rows in sight again that are drawn otherwise now; after scrolling Textual paints them all.

        `changed`: only these may be others than they were; None is any.
        """
        before, (cells, height), top = self._drawn, self.size, self.scroll_offset.y
        kept = {} if changed is None else {row: one for row, one in before.items() if row not in changed and one.cells == cells}
        self._drawn = {row: kept.get(row) or self._row(row, cells) for row in range(top, top + height)}
        if top != self._top:
            self._top = top
            self.refresh()
        elif other := [row for row, one in self._drawn.items() if one != before.get(row)]:
            self.refresh(*(Region(0, row - top, cells, 1) for row in other))

    def reveal(self, row: int, *, is_jump: bool = False) -> None:
        """Scroll as little as needed to see a row; after a jump with what follows it."""
        height = self.size.height
        if not height:
            return
        margin = min(_MARGIN, (height - 1) // 2)
        top = self.scroll_offset.y
        bottom = height // 2 if is_jump else height - margin
        if row < top + margin or row >= top + bottom:
            wanted = (
                row - min(_LEAD, height // 3) if is_jump else row - margin if row < top + margin else row - height + 1 + margin
            )
            self.scroll_to(y=max(0, min(wanted, self.virtual_size.height - height)), animate=False, force=True)

    def _row(self, row: int, cells: int) -> _Drawn:
        if row >= self.virtual_size.height:
            return _Drawn(cells, (), ())
        return _Drawn(cells, self.look(row), tuple(self.draw(row, cells)))

    def notify_style_update(self) -> None:
        """Paint all anew: colours may have changed."""
        super().notify_style_update()
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some rows, asking the style sheet once for all of them.

        A pane is nothing but rows: what Textual does line by line for borders, paddings and tints took a third of a key's time.
        """
        palette = Palette(self)
        if self._palette is None or palette.base != self._palette.base or len(self._strips) > _KEPT:
            self._strips.clear()
        self._palette = palette
        strips = [self.render_line(y) for y in crop.line_range]
        return strips if crop.column_span == (0, self.size.width) else [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """Paint one row of the screen: as it was drawn last, unless it is another one or the width changed."""
        row, cells = y + self.scroll_offset.y, self.size.width
        drawn = self._drawn.get(row)
        if drawn is None or drawn.cells != cells:
            drawn = self._row(row, cells)
            if len(self._drawn) < _KEPT:  # the wheel scrolls without a word to us
                self._drawn[row] = drawn
        return self._strips.get(drawn) or self._painted(drawn)

    def _painted(self, drawn: _Drawn) -> Strip:
        strip = filtered(self, paint(self._palette or Palette(self), drawn.pieces, drawn.cells, drawn.looks))
        self._strips[drawn] = strip
        return strip

    def on_click(self, event: Click) -> None:
        """Say which row was clicked."""
        offset = event.get_content_offset(self)
        row = offset.y + self.scroll_offset.y if offset else -1
        if offset and 0 <= row < self.virtual_size.height:
            event.stop()
            self.post_message(self.Clicked(self, row, offset.x, is_double=event.chain == 2))
