"""Wildcards without regular expressions, for path patterns, command rules and gitignore patterns.

At most len(pattern) * len(text) steps, whatever an agent wrote as a pattern. Imports nothing: command rules are matched
before the agent starts.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    T = TypeVar("T")
    P = TypeVar("P")


def matches_stars(text: str, pattern: str) -> bool:
    """Return whether a text matches a pattern in which `*` is any number of characters."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not (text.startswith(first) and text.endswith(rest[-1])):
        return False
    at, end = len(first), len(text) - len(rest.pop())
    for literal in rest:  # the leftmost match of each literal leaves the longest rest for the others
        at = text.find(literal, at, end)
        if at < 0:
            return False
        at += len(literal)
    return at <= end


def matches_sequence(
    items: "Sequence[T]", pattern: "Sequence[P]", is_star: "Callable[[P], bool]", is_one: "Callable[[T, P], bool]"
) -> bool:
    """Return whether a sequence matches a pattern in which a star matches any number of items and every other element one.

    Takes at most len(items) * len(pattern) steps: only the last star is tried again.
    """
    here = at = back = 0
    star = -1
    while here < len(items):
        if at < len(pattern) and is_star(pattern[at]):
            star, back = at, here
            at += 1
        elif at < len(pattern) and is_one(items[here], pattern[at]):
            here += 1
            at += 1
        elif star >= 0:
            back += 1
            here, at = back, star + 1
        else:
            return False
    return all(is_star(rest) for rest in pattern[at:])
