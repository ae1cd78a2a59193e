"""The one place where text becomes what a terminal gets: cleaned, cut to the cell, styled by tones."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from tui.cells import clean, crop, width
from tui.document import Tone


class Piece(NamedTuple):
    """Text in a tone. It need not be clean."""

    text: str
    tone: str = Tone.PLAIN


_MORE = ("accent", "chosen", "cursor", "match", "added-word", "removed-word", "plain-word", "changed-word")
_SYNTAX = ("comment", "string", "number", "keyword", "name")
TONES = frozenset(f"tone--{tone}" for tone in (*Tone, *_MORE, *_SYNTAX))


def paint(widget: Widget, pieces: Iterable[Piece], cells: int, base: Style) -> Strip:
    """Return one row of exactly this width."""
    return Strip([*_segments(widget, pieces, cells, base)], cells)


def _segments(widget: Widget, pieces: Iterable[Piece], cells: int, base: Style) -> Iterator[Segment]:
    room = cells
    for piece in pieces:
        text = crop(clean(piece.text), room)
        if text:
            yield Segment(text, base + style(widget, piece.tone))
            room -= width(text)
    if room:
        yield Segment(" " * room, base)


def style(widget: Widget, tone: str) -> Style:
    """Return what the style sheet says about a tone, without a background."""
    return widget.get_component_rich_style(f"tone--{tone}", partial=True)


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
