"""Wrap messages to a terminal's width: between words, and before a command that fits on a line of its own."""

from collections.abc import Iterator, Sequence

_PROGRAM = "agent-dev"
_CLAUSE_ENDS = (";", ":", ",")
_QUOTES = "(`"


def wrap_line(text: str, width: int, indent: str) -> Sequence[str]:
    """Return the rows of a line; a word longer than a row is not broken. `indent`: of all rows but the first."""
    rows: list[str] = []
    row = ""
    for clause in _clauses(text):
        is_kept_whole = len(indent) + len(clause) <= width
        for piece in (clause,) if is_kept_whole else clause.split(" "):
            longer = f"{row} {piece}" if row else piece
            if row.strip() and len(longer) > width:
                rows.append(row.rstrip())
                longer = indent + piece
            row = longer
    return (*rows, row.rstrip())


def _clauses(text: str) -> Iterator[str]:
    """Yield the parts of a text that are best kept on one row: clauses, and commands to copy."""
    words: list[str] = []
    for word in text.split(" "):
        if words and (word.lstrip(_QUOTES) == _PROGRAM or words[-1].endswith(_CLAUSE_ENDS)):
            yield " ".join(words)
            words = []
        words.append(word)
    yield " ".join(words)
