"""A pane of rows that draws only visible rows, and only when they may have changed."""

from collections.abc import Collection, Iterable
from typing import ClassVar, NamedTuple

from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tui.widgets.paint import TONE_CLASSES, Piece, StyleCache, apply_line_filters, paint_row

_MARGIN = 2  # rows that stay visible above and below the cursor
_LEAD = 3  # rows shown above the target of a jump
_MAX_CACHED = 500  # painted rows, a few screens


class _DrawnRow(NamedTuple):
    """A drawn row, independent of its position."""

    cells: int
    classes: tuple[str, ...]
    pieces: tuple[Piece, ...]


class RowView(ScrollView, can_focus=False):
    """A scrollable pane of rows drawn by `row_pieces`. It handles no keys; the cursor is part of the state."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES, "row--cursor", "row--idle", "row--added", "row--removed"}

    class Clicked(Message):
        """A click on a row, `column` cells from the left."""

        def __init__(self, view: "RowView", row: int, column: int, *, is_double: bool) -> None:
            self.view, self.row, self.column, self.is_double = view, row, column, is_double
            super().__init__()

        @property
        def control(self) -> "RowView":
            """The pane, for the selectors of message handlers."""
            return self.view

    def row_pieces(self, index: int, cells: int) -> Iterable[Piece]:
        """Return the pieces of a row; they may be wider than the pane."""
        raise NotImplementedError

    def row_classes(self, _index: int) -> tuple[str, ...]:
        """Return the style classes of a row, in increasing precedence."""
        return ()

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._palette: StyleCache | None = None
        self._drawn: dict[int, _DrawnRow] = {}  # by row number; includes rows scrolled out of view
        self._strips: dict[_DrawnRow, Strip] = {}  # painted once, even if they scroll
        self._top = 0
        self._hidden_target: int | None = None  # the row to reveal once this pane is laid out

    @property
    def is_drawn(self) -> bool:
        """Return whether rows were drawn already."""
        return bool(self._drawn)

    def set_row_count(self, count: int) -> None:
        """Set the number of rows. The layout, the slowest part of handling a key, is repeated only if the scroll bar changes."""
        before, height = self.virtual_size.height, self.container_size.height
        if before == count:
            return
        if not height or (before > height) is not (count > height):
            self.virtual_size = Size(1, count)
            return
        self.set_reactive(Widget.virtual_size, Size(1, count))
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = count
            self.vertical_scrollbar.refresh()

    def update_rows(self, changed: Collection[int] | None = None) -> None:
        """Repaint the visible rows that changed; after scrolling Textual repaints all.

        `changed`: the rows that may have changed, None for any.
        """
        before, (cells, height), top = self._drawn, self.size, self.scroll_offset.y
        kept = {} if changed is None else {row: one for row, one in before.items() if row not in changed and one.cells == cells}
        self._drawn = {row: kept.get(row) or self._draw_row(row, cells) for row in range(top, top + height)}
        if top != self._top:
            self._top = top
            self.refresh()
        elif outdated := [row for row, one in self._drawn.items() if one != before.get(row)]:
            self.refresh(*(Region(0, row - top, cells, 1) for row in outdated))

    def reveal(self, row: int, *, is_jump: bool = False) -> None:
        """Scroll just enough to show a row; after a jump, show the rows after it too."""
        height = self.size.height
        self._hidden_target = None if height else row
        if not height:
            return
        margin = min(_MARGIN, (height - 1) // 2)
        top = self.scroll_offset.y
        bottom = height // 2 if is_jump else height - margin
        if row < top + margin or row >= top + bottom:
            above = row - margin if row < top + margin else row - height + 1 + margin
            target = row - min(_LEAD, height // 3) if is_jump else above
            self.scroll_to(y=max(0, min(target, self.virtual_size.height - height)), animate=False, force=True)

    def on_show(self) -> None:
        """Show the row that was to be revealed while this pane was hidden and had no height."""
        if self._hidden_target is not None:
            self.reveal(self._hidden_target)

    def _draw_row(self, row: int, cells: int) -> _DrawnRow:
        if row >= self.virtual_size.height:
            return _DrawnRow(cells, (), ())
        return _DrawnRow(cells, self.row_classes(row), tuple(self.row_pieces(row, cells)))

    def notify_style_update(self) -> None:
        """Repaint everything, because styles may have changed."""
        super().notify_style_update()
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint rows, with one lookup in the style sheet for all of them.

        Textual's own rendering of borders, padding and tints, which is not needed here, took a third of the time of a key press.
        """
        palette = StyleCache(self)
        if self._palette is None or palette.base != self._palette.base or len(self._strips) > _MAX_CACHED:
            self._strips.clear()
        self._palette = palette
        strips = [self.render_line(y) for y in crop.line_range]
        return strips if crop.column_span == (0, self.size.width) else [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """Paint a visible row from the cache, unless the row or the width changed."""
        row, cells = y + self.scroll_offset.y, self.size.width
        drawn = self._drawn.get(row)
        if drawn is None or drawn.cells != cells:
            drawn = self._draw_row(row, cells)
            if len(self._drawn) < _MAX_CACHED:  # scrolling by the wheel sends no event
                self._drawn[row] = drawn
        return self._strips.get(drawn) or self._paint(drawn)

    def _paint(self, drawn: _DrawnRow) -> Strip:
        strip = apply_line_filters(self, paint_row(self._palette or StyleCache(self), drawn.pieces, drawn.cells, drawn.classes))
        self._strips[drawn] = strip
        return strip

    def on_click(self, event: Click) -> None:
        """Report which row was clicked."""
        offset = event.get_content_offset(self)
        row = offset.y + self.scroll_offset.y if offset else -1
        if offset and 0 <= row < self.virtual_size.height:
            event.stop()
            self.post_message(self.Clicked(self, row, offset.x, is_double=event.chain == 2))
