"""Path patterns of risk rules, matched without regular expressions: at most a pattern's length times the path's."""

import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    T = TypeVar("T")
    P = TypeVar("P")

ANY = "**"
# Characters that HFS+ leaves out of a name: there `.g\u200cit` is `.git` (git's own rule, core.protectHFS).
_IGNORED = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


def fold(path: bytes) -> str:
    """Return a path as rules see it: two spellings that some file system takes for the same name are equal."""
    text = path.decode("utf-8", "surrogateescape")
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFC", text).translate(_IGNORED)
    return unicodedata.normalize("NFC", text.casefold())


class Patterns:
    """Patterns with a number each, found by a name in the path: most paths hold none, and cost a look-up for each name."""

    def __init__(self, patterns: tuple[tuple[str, int], ...]) -> None:
        self._by_name: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for pattern, number in patterns:
            folded = fold(pattern.encode("utf-8", "surrogateescape"))
            self._by_name.setdefault(_name(folded), []).append((segments(folded), number))

    def matching(self, path: bytes) -> set[int]:
        """Return the numbers of the patterns that this path matches."""
        return self.matching_names(*names(path))

    def matching_names(self, parts: list[str], keys: set[str]) -> set[int]:
        """As `matching`, for what `names` says of a path: where several ask about one."""
        found: set[int] = set()
        for key in keys & self._by_name.keys():
            found.update(number for pattern, number in self._by_name[key] if number not in found and matches(parts, pattern))
        return found


def names(path: bytes) -> tuple[list[str], set[str]]:
    """Return a path's names, folded, and under what the patterns are found that it can match."""
    parts = fold(path).split("/")
    return parts, {"", *parts, *_wild_names(parts[-1])}


def segments(pattern: str) -> tuple[str, ...]:
    """Return a folded pattern as the names that a path must hold; `**` stands for any number of names.

    Without a slash a pattern names a file anywhere, with one it begins at the root; one that ends in a slash means the
    directory's content, and what stands in its place when that is no directory.
    """
    body = pattern.strip("/")
    is_anywhere = "/" not in body and not pattern.startswith("/")
    return (*((ANY,) if is_anywhere else ()), *body.split("/"), *((ANY,) if pattern.endswith("/") else ()))


def matches(parts: list[str], pattern: tuple[str, ...]) -> bool:
    """Whether the names of a path, folded, match the segments of a pattern."""
    if len(pattern) == 2 and pattern[0] == ANY != pattern[1]:
        return _is_name(parts[-1], pattern[1])
    return fits(parts, pattern, ANY.__eq__, _is_name)


def fits(some: "Sequence[T]", pattern: "Sequence[P]", is_star: "Callable[[P], bool]", is_one: "Callable[[T, P], bool]") -> bool:
    """Whether things in a row fit a pattern of which some are stars, each any number of things, and the others one each.

    At most as many steps as the two lengths multiplied: only the last star is ever tried again.
    """
    here = at = back = 0
    star = -1
    while here < len(some):
        if at < len(pattern) and is_star(pattern[at]):
            star, back = at, here
            at += 1
        elif at < len(pattern) and is_one(some[here], pattern[at]):
            here += 1
            at += 1
        elif star >= 0:
            back += 1
            here, at = back, star + 1
        else:
            return False
    return all(is_star(rest) for rest in pattern[at:])


def _is_name(name: str, pattern: str) -> bool:
    """Whether one name matches one segment: `*` is any number of characters, `?` is one."""
    if "?" in pattern:
        return name.startswith(pattern.partition("?")[0].partition("*")[0]) and fits(name, pattern, "*".__eq__, _is_char)
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    if not (name.startswith(first) and name.endswith(rest[-1])):
        return False
    at, end = len(first), len(name) - len(rest.pop())
    for literal in rest:  # the first place of each is the best: it leaves most for the others
        at = name.find(literal, at, end)
        if at < 0:
            return False
        at += len(literal)
    return at <= end


def _is_char(char: str, pattern: str) -> bool:
    return pattern in ("?", char)


def _name(pattern: str) -> str:
    """Return what a path must hold to match: the longest literal name, else the form `*.py` or `jest.*`, or ""."""
    parts = pattern.strip("/").split("/")
    literal = [part for part in parts if part and "*" not in part and "?" not in part]
    if literal:
        return max(literal, key=len)
    last = parts[-1]
    if pattern.endswith("/"):
        return ""
    extension = last.rpartition(".")[2]
    if "." in last and "*" in last and not set(extension) & set("*?"):
        return f"*.{extension}"
    is_stem = last.endswith(".*") and not set(last[:-1]) & set("*?")
    return last if is_stem else ""


def _wild_names(name: str) -> list[str]:
    """Return the forms `*.py` and `jest.*` that a file's name has."""
    dots = [at for at, char in enumerate(name) if char == "."]
    return [f"*{name[dots[-1] :]}", *(f"{name[: at + 1]}*" for at in dots)] if dots else []
