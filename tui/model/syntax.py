"""The kinds of words in a file's lines, by Pygments; given up on huge files, whose colours nobody waits for."""

from collections.abc import Iterable, Sequence
from time import sleep

from tui.model.document import Colours, Span

LARGEST = 300_000  # bytes of one side
_LINES, _LONGEST = 5_000, 1_000  # lines of a side, bytes of a line
_SLICE = 400  # words between two pauses in which keys are served

Spans = dict[int, tuple[Span, ...]]


def colours(path: bytes, old: Sequence[bytes], new: Sequence[bytes]) -> Colours | None:
    """Return the spans of both sides; None for a language that is not known, or too much text. Slow: for a worker."""
    if any(_is_huge(side) for side in (old, new)):
        return None
    # Deferred: a screen that shows nothing to colour does not pay for it.
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_for_filename(path.rpartition(b"/")[2].decode("utf-8", "replace"), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return Colours(_spans(lexer, old), _spans(lexer, new))


def _is_huge(lines: Sequence[bytes]) -> bool:
    return len(lines) > _LINES or sum(map(len, lines)) > LARGEST or any(len(line) > _LONGEST for line in lines)


def _spans(lexer: object, lines: Sequence[bytes]) -> Spans:
    text = b"".join(lines).decode("utf-8", "surrogateescape")
    found: dict[int, list[Span]] = {}
    number = column = 0
    tokens: Iterable[tuple[object, str]] = lexer.get_tokens_unprocessed(text)  # type: ignore[attr-defined]
    for count, (_, token, value) in enumerate(tokens):  # type: ignore[misc]
        if not count % _SLICE:
            sleep(0)  # gives the interpreter to the screen
        kind = _kind(str(token))
        for turn, part in enumerate(value.split("\n")):
            if turn:
                number, column = number + 1, 0
            if kind and part.strip():
                found.setdefault(number, []).append((column, column + len(part), kind))
            column += len(part)
    return {line: tuple(spans) for line, spans in found.items()}


_KINDS = (
    ("Token.Comment", "comment"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Keyword", "keyword"),
    ("Token.Name.Function", "name"),
    ("Token.Name.Class", "name"),
    ("Token.Name.Tag", "name"),
    ("Token.Name.Attribute", "name"),
    ("Token.Name.Decorator", "name"),
    ("Token.Generic.Heading", "name"),
)


def _kind(token: str) -> str:
    return next((kind for start, kind in _KINDS if token.startswith(start)), "")
