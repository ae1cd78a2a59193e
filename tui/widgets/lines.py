"""A line of a file as pieces: syntax highlighting, marked words, expanded tabs, cut to the visible cells."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tui.model.document import TAB_WIDTH, Span, Tone
from tui.text.cells import clean_text, prefix, width
from tui.widgets.paint import Piece

_ARROW = "→"
_MAX_BYTES = 12  # of a cell: a character and two marks, four bytes each

MarkedSpans = Sequence[tuple[int, int]]


def visible_start(line: bytes, cells: int, shift: int) -> str:
    """Return the start of a line up to the last visible cell; a line may be as long as a file."""
    data = line[: (shift + cells + 1) * _MAX_BYTES]
    return data.removesuffix(b"\n").decode("utf-8", "surrogateescape")


def styled_pieces(text: str, tone: Tone, spans: Sequence[Span], marks: MarkedSpans) -> Iterator[Piece]:
    """Yield text in pieces of one style each; outside of spans and marks it is the line's tone."""
    edges = {0, len(text)}
    for start, end, _ in spans:
        edges |= {start, min(end, len(text))}
    for start, end in marks:
        edges |= {start, min(end, len(text))}
    cuts = sorted(edge for edge in edges if edge <= len(text))
    for start, end in pairwise(cuts):
        is_marked = any(first <= start < last for first, last in marks)
        kind = next((kind for first, last, kind in spans if first <= start < last), "")
        yield Piece(text[start:end], f"{tone}-word" if is_marked else kind or tone)


def visible_pieces(some: Iterable[Piece], cells: int, shift: int) -> Iterator[Piece]:
    """Yield the visible cells of pieces after a horizontal shift, cleaned, with expanded tabs."""
    start = 0
    for piece in some:
        for part in _expand_tabs(piece, start):
            end = start + width(part.text)
            text = _without_start(part.text, shift - start) if start < shift else part.text
            if end > shift and text:
                yield Piece(text, part.tone)
            start = end
            if start > shift + cells:
                return


def _expand_tabs(piece: Piece, start: int) -> Iterator[Piece]:
    for number, text in enumerate(piece.text.split("\t")):
        if number:
            gap = TAB_WIDTH - start % TAB_WIDTH
            yield Piece(_ARROW + " " * (gap - 1), Tone.DIM)
            start += gap
        shown = clean_text(text)
        if shown:
            yield Piece(shown, piece.tone)
            start += width(shown)


def _without_start(text: str, cells: int) -> str:
    """Return cleaned text without its first cells; a wide character that is cut leaves a space."""
    for index, character in enumerate(text):
        if cells <= 0:
            return " " * -cells + text[index:]
        cells -= width(character)
    return " " * -cells if cells < 0 else ""


def truncate(some: Iterable[Piece], cells: int) -> Iterator[Piece]:
    """Yield the pieces that fit, without an ellipsis: the next row continues the line."""
    free = cells
    for piece in some:
        if text := prefix(piece.text, free):
            yield Piece(text, piece.tone)
        free -= width(piece.text)
        if free <= 0:
            return
