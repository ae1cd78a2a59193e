"""A line of a file as pieces: coloured by its syntax, its changed words marked, tabs drawn out, seen from some cell on."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tui.model.document import TAB, Span, Tone
from tui.text.cells import clean, width
from tui.widgets.paint import Piece

_ARROW = "→"
_MOST_BYTES = 12  # of one cell: a character of four and two marks of four

Marks = Sequence[tuple[int, int]]


def seen(line: bytes, cells: int, shift: int) -> str:
    """Return as much of a line's start as can be seen; a line may be a whole file."""
    data = line[: (shift + cells + 1) * _MOST_BYTES]
    return data.removesuffix(b"\n").decode("utf-8", "surrogateescape")


def pieces(text: str, tone: Tone, spans: Sequence[Span], marks: Marks) -> Iterator[Piece]:
    """Yield text in runs of one look; where nothing is known of a run it has the line's tone."""
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


def laid_out(some: Iterable[Piece], cells: int, shift: int) -> Iterator[Piece]:
    """Yield what is seen of pieces between the shift and the edge, cleaned, tabs drawn out to the next stop."""
    at = 0
    for piece in some:
        for part in _parts(piece, at):
            end = at + width(part.text)
            text = _behind(part.text, shift - at) if at < shift else part.text
            if end > shift and text:
                yield Piece(text, part.tone)
            at = end
            if at > shift + cells:
                return


def _parts(piece: Piece, at: int) -> Iterator[Piece]:
    for number, text in enumerate(piece.text.split("\t")):
        if number:
            gap = TAB - at % TAB
            yield Piece(_ARROW + " " * (gap - 1), Tone.DIM)
            at += gap
        shown = clean(text)
        if shown:
            yield Piece(shown, piece.tone)
            at += width(shown)


def _behind(text: str, cells: int) -> str:
    """Return clean text without its first cells; of a wide character that is cut in two a blank stays."""
    for at, character in enumerate(text):
        if cells <= 0:
            return " " * -cells + text[at:]
        cells -= width(character)
    return " " * -cells if cells < 0 else ""


def cut(some: Iterable[Piece], cells: int) -> Iterator[Piece]:
    """Yield what fits, without a sign where it was cut: the next row goes on there."""
    room = cells
    for piece in some:
        text = piece.text
        while text and width(text) > room:
            text = text[:-1]
        if text:
            yield Piece(text, piece.tone)
        room -= width(piece.text)
        if room <= 0:
            return
