"""The one place where text becomes what a terminal gets: cleaned, cut to the cell, styled by tones."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from tui.model.document import Tone
from tui.text.cells import clean, crop, width


class Piece(NamedTuple):
    """Text in a tone. It need not be clean."""

    text: str
    tone: str = Tone.PLAIN


_MORE = ("accent", "chosen", "cursor", "match", "added-word", "removed-word", "plain-word", "changed-word")
_SYNTAX = ("comment", "string", "number", "keyword", "name")
TONES = frozenset(f"tone--{tone}" for tone in (*Tone, *_MORE, *_SYNTAX))


class Palette:
    """What the style sheet says of a widget and of tones in it, asked once for all rows that are painted together."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._found: dict[str, Style] = {}
        self.base = widget.rich_style

    def tone(self, tone: str) -> Style:
        """Return the style of a tone, without a background."""
        if tone not in self._found:
            self._found[tone] = self._widget.get_component_rich_style(f"tone--{tone}", partial=True)
        return self._found[tone]

    def row(self, name: str) -> Style:
        """Return the background of a row with a look."""
        name = f"row--{name}"
        if name not in self._found:
            self._found[name] = Style(bgcolor=self._widget.get_component_rich_style(name).bgcolor)
        return self._found[name]


def paint(palette: Palette, pieces: Iterable[Piece], cells: int, looks: Iterable[str] = ()) -> Strip:
    """Return one row of exactly this width."""
    base = palette.base
    for name in looks:
        base += palette.row(name)
    return Strip([*_segments(palette, pieces, cells, base)], cells)


def filtered(widget: Widget, strip: Strip) -> Strip:
    """Return a row as the terminal is to have it: NO_COLOR leaves signs and no colours."""
    for one in widget.get_line_filters():
        strip = strip.apply_filter(one, widget.background_colors[1])
    return strip


def _segments(palette: Palette, pieces: Iterable[Piece], cells: int, base: Style) -> Iterator[Segment]:
    room = cells
    for piece in pieces:
        text = crop(clean(piece.text), room)
        if text:
            yield Segment(text, base + palette.tone(piece.tone))
            room -= width(text)
    if room:
        yield Segment(" " * room, base)


def row(left: Iterable[Piece], right: Iterable[Piece], cells: int) -> list[Piece]:
    """Return pieces with the right ones at the right edge; the left ones give way."""
    end = [Piece(clean(piece.text), piece.tone) for piece in right]
    room = cells - sum(width(piece.text) for piece in end)
    found, used = [], 0
    for piece in left:
        text = crop(clean(piece.text), room - used)
        used += width(text)
        found.append(Piece(text, piece.tone))
    return [*found, Piece(" " * max(0, room - used)), *end]


def fitted(some: Iterable[Piece], cells: int) -> Iterator[Piece]:
    """Yield pieces cut to this many cells, or filled up with blanks."""
    room = cells
    for piece in some:
        text = crop(clean(piece.text), room)
        if text:
            yield Piece(text, piece.tone)
            room -= width(text)
    if room > 0:
        yield Piece(" " * room)
