"""Convert pieces of text to strips for the terminal: cleaned, cut to the cell, styled by tones."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from tui.model.document import Tone
from tui.text.cells import clean_text, crop, width


class Piece(NamedTuple):
    """Text in a tone, not cleaned yet."""

    text: str
    tone: str = Tone.PLAIN


_OTHER_TONES = ("accent", "selected", "cursor", "match", "added-word", "removed-word", "plain-word", "changed-word")
_SYNTAX = ("comment", "string", "number", "keyword", "name")
TONE_CLASSES = frozenset(f"tone--{tone}" for tone in (*Tone, *_OTHER_TONES, *_SYNTAX))


class StyleCache:
    """A cache of the styles of a widget and its tones, used for all rows that are painted together."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._styles: dict[str, Style] = {}
        self.base = widget.rich_style

    def tone_style(self, tone: str) -> Style:
        """Return the style of a tone, without a background."""
        if tone not in self._styles:
            self._styles[tone] = self._widget.get_component_rich_style(f"tone--{tone}", partial=True)
        return self._styles[tone]

    def row_style(self, name: str) -> Style:
        """Return the background style of a row class."""
        name = f"row--{name}"
        if name not in self._styles:
            self._styles[name] = Style(bgcolor=self._widget.get_component_rich_style(name).bgcolor)
        return self._styles[name]


def paint_row(palette: StyleCache, pieces: Iterable[Piece], cells: int, row_styles: Iterable[str] = ()) -> Strip:
    """Return a row of exactly this width; `row_styles` are the style classes of the row."""
    base = palette.base
    for name in row_styles:
        base += palette.row_style(name)
    return Strip([*_segments(palette, pieces, cells, base)], cells)


def apply_line_filters(widget: Widget, strip: Strip) -> Strip:
    """Apply the widget's line filters to a row; with NO_COLOR they remove colours."""
    for one in widget.get_line_filters():
        strip = strip.apply_filter(one, widget.background_colors[1])
    return strip


def _segments(palette: StyleCache, pieces: Iterable[Piece], cells: int, base: Style) -> Iterator[Segment]:
    free = cells
    for piece in pieces:
        text = crop(clean_text(piece.text), free)
        if text:
            yield Segment(text, base + palette.tone_style(piece.tone))
            free -= width(text)
    if free:
        yield Segment(" " * free, base)


def align_row(left: Iterable[Piece], right: Iterable[Piece], cells: int) -> list[Piece]:
    """Return pieces with some aligned to the right edge; the left ones are cut."""
    end = [Piece(clean_text(piece.text), piece.tone) for piece in right]
    free = cells - sum(width(piece.text) for piece in end)
    start = []
    for piece in left:
        text = crop(clean_text(piece.text), free)
        free -= width(text)
        start.append(Piece(text, piece.tone))
    return [*start, Piece(" " * max(0, free)), *end]


def fit_pieces(some: Iterable[Piece], cells: int) -> Iterator[Piece]:
    """Yield pieces cut or padded with spaces to a width."""
    free = cells
    for piece in some:
        text = crop(clean_text(piece.text), free)
        if text:
            yield Piece(text, piece.tone)
            free -= width(text)
    if free > 0:
        yield Piece(" " * free)
