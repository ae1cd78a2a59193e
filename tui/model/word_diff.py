"""Word diff: the words that differ between a line and its replacement."""

import re
from functools import lru_cache

from agent_dev.diff.hunks import find_hunks

Spans = tuple[tuple[int, int], ...]
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_MAX_WORDS = 2_000  # of a line; beyond that, no words are marked
_MAX_SHARE = 0.7  # changed share of a line; beyond that no words are marked


@lru_cache(maxsize=2_000)
def changed_spans(old: str, new: str) -> tuple[Spans, Spans]:
    """Return the spans of each text that are not in the other; none if the texts have little in common."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if not before or not after or len(before) > _MAX_WORDS or len(after) > _MAX_WORDS:
        return (), ()
    hunks = find_hunks(_words_as_lines(before), _words_as_lines(after))
    removed = tuple(_span(before, hunk.old_start, hunk.old_end) for hunk in hunks if hunk.old_lines)
    added = tuple(_span(after, hunk.new_start, hunk.new_end) for hunk in hunks if hunk.new_lines)
    is_rewritten = _share(removed, old) > _MAX_SHARE and _share(added, new) > _MAX_SHARE
    return ((), ()) if is_rewritten else (removed, added)


def _words_as_lines(words: list[str]) -> bytes:
    """Return the words one per line, for a diff of lines; newlines in words become carriage returns."""
    return "".join(word.replace("\n", "\r") + "\n" for word in words).encode("utf-8", "surrogateescape")


def _span(words: list[str], start: int, end: int) -> tuple[int, int]:
    offset = sum(map(len, words[:start]))
    return offset, offset + sum(map(len, words[start:end]))


def _share(spans: Spans, text: str) -> float:
    return sum(end - start for start, end in spans) / max(1, len(text))
