"""A pane of rows of which only those on the screen are ever drawn."""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.widgets.paint import TONES, Palette, Piece, paint

_MARGIN = 2  # rows that stay visible above and below the cursor
_LEAD = 3  # rows above a place that was jumped to


class _Shown(NamedTuple):
    """A row as it was drawn."""

    number: int
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
        self._shown: dict[int, _Shown] = {}

    @property
    def is_drawn(self) -> bool:
        """Whether rows were drawn already."""
        return bool(self._shown)

    def show_rows(self, count: int) -> None:
        """Have this many rows, and paint those in sight again that are drawn otherwise now."""
        if self.virtual_size.height != count:
            self.virtual_size = Size(1, count)
        cells = self.size.width
        for y in range(self.size.height):
            now = self._row(y)
            if now != self._shown.get(y):
                self._shown[y] = now
                self.refresh(Region(0, y, cells, 1))

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

    def _row(self, y: int) -> _Shown:
        index, cells = y + self.scroll_offset.y, self.size.width
        if index >= self.virtual_size.height:
            return _Shown(index, cells, (), ())
        return _Shown(index, cells, self.look(index), tuple(self.draw(index, cells)))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some rows, asking the style sheet once for all of them."""
        self._palette = Palette(self)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Paint one row of the screen: as it was drawn last, unless it is another one or the width changed."""
        shown, cells = self._shown.get(y), self.size.width
        if shown is None or (shown.number, shown.cells) != (y + self.scroll_offset.y, cells):
            shown = self._shown[y] = self._row(y)
        return paint(self._palette or Palette(self), shown.pieces, cells, shown.looks)

    def on_click(self, event: Click) -> None:
        """Say which row was clicked."""
        offset = event.get_content_offset(self)
        row = offset.y + self.scroll_offset.y if offset else -1
        if offset and 0 <= row < self.virtual_size.height:
            event.stop()
            self.post_message(self.Clicked(self, row, offset.x, is_double=event.chain == 2))
