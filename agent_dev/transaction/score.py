"""The score of an attempt: the last line of a command's output that is a number."""

import math
import re

MAX_OUTPUT = 64 << 10  # bytes at the end of the output that are searched
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,100}(?:\.[0-9]{0,100})?|\.[0-9]{1,100})(?:[eE][+-]?[0-9]{1,4})?").fullmatch
_EXACT = 1e15  # integers below it are exact as a float


def parse_score(output: bytes) -> float | None:
    """Return the number of the last line that consists of a number only; None if there is none."""
    for line in reversed(output[-MAX_OUTPUT:].splitlines()):
        text = line.decode("ascii", "replace").strip()
        if _NUMBER(text) and math.isfinite(float(text)):
            return float(text)
    return None


def format_score(score: float) -> str:
    """Return a score as text, a whole number without a fraction."""
    return str(int(score)) if float(score).is_integer() and abs(score) < _EXACT else repr(score)
