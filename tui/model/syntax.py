"""Syntax highlighting by Pygments, except for huge files, where it takes too long."""

from collections.abc import Iterable, Sequence
from time import sleep

from tui.model.document import Highlighting, Span

MAX_BYTES = 300_000  # bytes of one side
_MAX_LINES, _MAX_LINE_LENGTH = 5_000, 1_000  # lines of one side, bytes of a line
_BATCH = 400  # tokens between pauses that let the screen handle keys

Spans = dict[int, tuple[Span, ...]]


def highlight(path: bytes, old: Sequence[bytes], new: Sequence[bytes]) -> Highlighting | None:
    """Return the spans of both sides; None for an unknown language or too much text. Slow: call it on a worker."""
    if any(_is_huge(side) for side in (old, new)):
        return None
    # Imported late: slow, and not always needed.
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_for_filename(path.rpartition(b"/")[2].decode("utf-8", "replace"), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return Highlighting(_spans(lexer, old), _spans(lexer, new))


def _is_huge(lines: Sequence[bytes]) -> bool:
    return len(lines) > _MAX_LINES or sum(map(len, lines)) > MAX_BYTES or any(len(line) > _MAX_LINE_LENGTH for line in lines)


def _spans(lexer: object, lines: Sequence[bytes]) -> Spans:
    text = b"".join(lines).decode("utf-8", "surrogateescape")
    spans: dict[int, list[Span]] = {}
    number = column = 0
    tokens: Iterable[tuple[object, str]] = lexer.get_tokens_unprocessed(text)  # type: ignore[attr-defined]
    for count, (_, token, value) in enumerate(tokens):  # type: ignore[misc]
        if not count % _BATCH:
            sleep(0)  # yield the interpreter lock to the screen
        kind = _kind(str(token))
        for index, part in enumerate(value.split("\n")):
            if index:
                number, column = number + 1, 0
            if kind and part.strip():
                spans.setdefault(number, []).append((column, column + len(part), kind))
            column += len(part)
    return {line: tuple(some) for line, some in spans.items()}


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
