"""Search the new lines of a text, with plain searches and patterns with bounded backtracking."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent_dev.risk.plain_text import added_lines

if TYPE_CHECKING:
    import re

ReadBase = Callable[[], bytes]
Finder = Callable[[bytes, int], int]


def new_matching_lines(after: bytes, before: ReadBase, find: Finder) -> Iterator[bytes]:
    """Yield each new line in which `find` finds a match."""
    known: frozenset[bytes] | None = None
    for line in matching_lines(after, find):
        if known is None:
            known = frozenset(before().split(b"\n"))
        if line not in known:
            yield line


def matching_lines(data: bytes, find: Finder) -> Iterator[bytes]:
    """Yield the lines in which `find` finds a match."""
    at = find(data, 0)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data[data.rfind(b"\n", 0, at) + 1 : end]
        at = find(data, end + 1) if end < len(data) else -1


def pattern_finder(pattern: "re.Pattern[bytes]") -> Finder:
    """Return a function that searches for a pattern."""

    def find(data: bytes, start: int) -> int:
        found = pattern.search(data, start)
        return found.start() if found else -1

    return find


def has_new_match(after: bytes, before: ReadBase, pattern: "re.Pattern[bytes]", holds: Callable[[bytes], bool] = bool) -> bool:
    """Return whether a pattern matches a new line for which `holds` is true."""
    return any(
        holds(line) or not line for line in new_matching_lines(added_lines(after, before), before, pattern_finder(pattern))
    )
