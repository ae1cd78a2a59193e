"""Which words of a line changed, against the line that it takes the place of."""

import re
from functools import lru_cache

from agent_dev.diff.hunks import blocks

Spans = tuple[tuple[int, int], ...]
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_MOST = 2_000  # words of a line; past that the whole line is the change
_SHARE = 0.7  # of a line that may have changed for the rest to be worth a look


@lru_cache(maxsize=2_000)
def changed(old: str, new: str) -> tuple[Spans, Spans]:
    """Return the spans of either text that are not in the other; none when little is alike."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if not before or not after or len(before) > _MOST or len(after) > _MOST:
        return (), ()
    found = blocks(_joined(before), _joined(after))
    gone = tuple(_span(before, block.old_start, block.old_end) for block in found if block.old_lines)
    came = tuple(_span(after, block.new_start, block.new_end) for block in found if block.new_lines)
    is_other = _share(gone, old) > _SHARE and _share(came, new) > _SHARE
    return ((), ()) if is_other else (gone, came)


def _joined(words: list[str]) -> bytes:
    """Return a word a line: what is compared is lines, and no word holds a line's end but as a blank."""
    return "".join(word.replace("\n", "\r") + "\n" for word in words).encode("utf-8", "surrogateescape")


def _span(words: list[str], start: int, end: int) -> tuple[int, int]:
    at = sum(map(len, words[:start]))
    return at, at + sum(map(len, words[start:end]))


def _share(spans: Spans, text: str) -> float:
    return sum(end - start for start, end in spans) / max(1, len(text))
