"""The normal form of text that risk rules search, computed in a few passes over the bytes.

Each pass is one call into C, so non-ASCII text takes about as long as ASCII. Tests for non-ASCII characters use the set of the
text's characters: a few hundred in a text of a million.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache

from agent_dev.diff.binary import is_binary
from agent_dev.diff.equal_ends import equal_ends
from agent_dev.sanitize import HIDDEN

_MANY_LINES = 4 << 10  # bytes: only the new lines of a larger text are searched
_FEW_LINES = 8
_FEW = 16  # up to this number, characters are removed one by one
_MAX_MARKS = 30  # combining marks in a row (UAX 15, stream-safe text); ordering more takes quadratic time
_PRINTABLE = bytes((*range(0x20, 0x7F), 0x09, 0x0A, 0x0D))
_NOT_PRINTABLE = bytes(code for code in range(256) if code not in _PRINTABLE)
_LOWER = bytes(range(256)).lower()


def to_utf8(data: bytes) -> bytes:
    """Return UTF-16 with a byte order mark as UTF-8, anything else unchanged."""
    if not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data
    try:
        return data.decode("utf-16").encode()
    except UnicodeError:
        return data


@lru_cache(maxsize=2)
def fold_content(data: bytes) -> bytes:
    """Return text in normal form: lower case, without invisible characters, with equivalent letters unified.

    Of binary files (git's definition) only printable ASCII is left: a shell skips the other bytes, too.
    """
    if is_binary(data):
        return data.translate(_LOWER, _NOT_PRINTABLE)
    data = data.replace(b"\0", b"")  # as a shell does
    if data.isascii():
        return data.lower()
    text = data.decode("utf-8", "surrogateescape")
    letters = set(text)
    text = _without(text, letters & _invisible()).casefold()
    marks = {mark for letter in letters if ord(letter) > 0x7F for mark in letter.casefold() if unicodedata.combining(mark)}
    if marks:
        text = _runs(frozenset(marks)).sub(lambda found: found[0][:_MAX_MARKS], text)
    return unicodedata.normalize("NFKC", text).encode("utf-8", "surrogateescape")


def _without(text: str, letters: set[str]) -> str:
    if len(letters) > _FEW:
        return text.translate(dict.fromkeys(map(ord, letters)))
    for letter in letters:
        text = text.replace(letter, "")
    return text


@cache
def _invisible() -> frozenset[str]:
    return frozenset(chr(code) for first, last in HIDDEN for code in range(first, last + 1))


@lru_cache(maxsize=8)
def _runs(marks: frozenset[str]) -> "re.Pattern[str]":
    some = re.escape("".join(sorted(marks)))
    return re.compile(f"[{some}][{some}]{{{_MAX_MARKS},}}")  # the first class lets the search skip quickly


@lru_cache(maxsize=2)
def added_lines(after: bytes, before: Callable[[], bytes]) -> bytes:
    """Return the new lines of a text, all of it if it is short; `before` is called only for a long one.

    The first line stays first, since a byte order mark is harmless only there.
    """
    if len(after) <= _MANY_LINES:
        return after
    old = before()
    if not old:
        return after
    start, end = equal_ends(old, after)
    lines = after[start : len(after) - end].split(b"\n")
    if end:
        lines.pop()  # the empty one after the last newline
    is_known = _membership(old, len(lines))
    first = b"" if start or not lines or is_known(lines[0]) else lines[0]
    rest = [line for line in lines[not start :] if not is_known(line)]
    # Text appended to the last line makes a new line.
    return b"\n".join((first, *rest, *((b"",) if end or is_known(lines[-1]) else ())))


def _membership(old: bytes, count: int) -> Callable[[bytes], bool]:
    """Return a function that tells whether a text has a line; for a few lines, a search is faster than a set."""
    if count > _FEW_LINES:
        return frozenset(old.split(b"\n")).__contains__
    whole = b"\n%b\n" % old
    return lambda line: b"\n%b\n" % line in whole


def may_match(pattern: "re.Pattern[bytes]", data: bytes) -> bool:
    """Return whether a non-ASCII character of the data could be part of a match of `pattern`, which needs one.

    For patterns whose matches all contain a character that matches alone, repeated, or between ASCII letters. Invalid UTF-8 may
    always match: a pattern of bytes may begin inside a character.
    """
    if data.isascii():
        return False
    return any("\ud800" <= letter <= "\udfff" or _takes_part(pattern, letter) for letter in _letters(data))


@lru_cache(maxsize=2)  # several patterns are tried on the text and on its new lines
def _letters(data: bytes) -> frozenset[str]:
    """Return the different non-ASCII characters of a text."""
    return frozenset(letter for letter in set(data.decode("utf-8", "surrogateescape")) if ord(letter) > 0x7F)


@lru_cache(maxsize=1 << 15)
def _takes_part(pattern: "re.Pattern[bytes]", letter: str) -> bool:
    one = letter.encode("utf-8", "surrogateescape")
    return pattern.search(b"a" + one + b"a " + one + b" " + one * 8) is not None
