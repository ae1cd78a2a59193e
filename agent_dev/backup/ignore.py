"""Exclusion patterns in the syntax of gitignore(5): the last match decides, `!` includes again."""

from collections.abc import Callable

from agent_dev.quick_dataclass import dataclass
from agent_dev.wildcard import matches_sequence

_ANY_NAMES = "**"
_CLASSES: dict[str, Callable[[str], bool]] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "digit": str.isdigit,
    "lower": str.islower,
    "space": str.isspace,
    "upper": str.isupper,
    "punct": lambda char: char.isascii() and char.isprintable() and not char.isalnum() and char != " ",
    "xdigit": lambda char: char in "0123456789abcdefABCDEF",
}


@dataclass(frozen=True, slots=True)
class _Set:
    """Characters in brackets: ranges as pairs, classes by name."""

    is_negated: bool
    ranges: tuple[tuple[str, str], ...]
    classes: tuple[str, ...] = ()

    def has(self, char: str) -> bool:
        is_in = any(first <= char <= last for first, last in self.ranges) or any(_CLASSES[name](char) for name in self.classes)
        return is_in != self.is_negated


@dataclass(frozen=True, slots=True)
class _Any:
    """A wildcard: `*` if `is_many`, else `?`."""

    is_many: bool


_Token = str | _Set | _Any
_Name = tuple[_Token, ...]


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One pattern: its names, `**` for any number of them; without a slash it matches the last name of any path."""

    names: tuple["_Name | str", ...]
    is_negated: bool
    is_for_folders: bool
    is_anywhere: bool

    def matches(self, names: list[str], *, is_folder: bool) -> bool:
        """Return whether a path, given as its names, matches."""
        if self.is_for_folders and not is_folder:
            return False
        if self.is_anywhere:
            return _is_name(names[-1], self.names[0])
        return _is_path(names, self.names)


def parse_rules(text: bytes) -> tuple[IgnoreRule, ...]:
    """Return the rules of a file; a pattern that can match nothing is ignored, as in git."""
    lines = text.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n")
    found = (_parse_rule(line.removesuffix("\r")) for line in lines)
    return tuple(rule for rule in found if rule is not None)


def is_excluded(path: bytes, known: tuple[IgnoreRule, ...], *, is_folder: bool) -> bool:
    """Return whether a path is excluded, given that no directory above it is."""
    names = path.decode("utf-8", "surrogateescape").split("/")
    for rule in reversed(known):
        if rule.matches(names, is_folder=is_folder):
            return not rule.is_negated
    return False


def _parse_rule(line: str) -> IgnoreRule | None:
    text = _strip_line(line)
    is_negated = text.startswith("!")
    text = text[is_negated:]
    if not text or (text.startswith("#") and not is_negated):
        return None
    is_for_folders = text.endswith("/")
    body = text.removesuffix("/")
    is_anywhere = "/" not in body
    names = tuple(_ANY_NAMES if name == _ANY_NAMES and not is_anywhere else _tokens(name) for name in body.lstrip("/").split("/"))
    if not body or any(name is None for name in names):
        return None
    return IgnoreRule(tuple(name for name in names if name is not None), is_negated, is_for_folders, is_anywhere)


def _strip_line(line: str) -> str:
    """Return a line without trailing spaces, except one after a backslash."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return text + " " if backslashes % 2 and len(text) < len(line) else text


def _tokens(name: str) -> _Name | None:
    """Parse the pattern of a name; None if it matches nothing: unterminated brackets or a trailing backslash."""
    found: list[_Token] = []
    index = 0
    while index < len(name):
        char = name[index]
        index += 1
        if char == "\\":
            if index == len(name):
                return None
            found.append(name[index])
            index += 1
        elif char == "[":
            parsed = _parse_set(name, index)
            if parsed is None:
                return None
            found.append(parsed[0])
            index = parsed[1]
        else:
            found.append(_Any(char == "*") if char in "*?" else char)
    return tuple(found)


def _parse_set(name: str, index: int) -> tuple[_Set, int] | None:
    """Parse a bracket expression that starts before `index`; return it and the index after it."""
    is_negated = name[index : index + 1] in ("!", "^")
    index += is_negated
    ranges: list[tuple[str, str]] = []
    classes: list[str] = []
    start = index
    while index < len(name) and (name[index] != "]" or index == start):
        if name.startswith("[:", index) and (end := name.find(":]", index + 2)) > 0:
            if name[index + 2 : end] not in _CLASSES:
                return None
            classes.append(name[index + 2 : end])
            index = end + 2
            continue
        first, index = _parse_literal(name, index)
        last = first
        if name[index : index + 1] == "-" and name[index + 1 : index + 2] not in ("]", ""):
            last, index = _parse_literal(name, index + 1)
        ranges.append((first, last))
    return (_Set(is_negated, tuple(ranges), tuple(classes)), index + 1) if index < len(name) else None


def _parse_literal(name: str, index: int) -> tuple[str, int]:
    is_escaped = name[index] == "\\" and index + 1 < len(name)
    return name[index + is_escaped], index + is_escaped + 1


def _is_path(names: list[str], pattern: "tuple[_Name | str, ...]") -> bool:
    """Return whether names match a pattern of several names; only a final `**` requires at least one name."""
    if pattern[-1] == _ANY_NAMES:
        return any(_has_names(names[:count], pattern[:-1]) for count in range(len(names)))
    return _has_names(names, pattern)


def _has_names(names: list[str], pattern: "tuple[_Name | str, ...]") -> bool:
    return matches_sequence(names, pattern, _is_any_names, _is_name)


def _is_any_names(one: "_Name | str") -> bool:
    return one == _ANY_NAMES


def _is_name(name: str, pattern: "_Name | str") -> bool:
    return matches_sequence(name, pattern, _is_many, _is_char)


def _is_many(token: "_Token | str") -> bool:
    return isinstance(token, _Any) and token.is_many


def _is_char(char: str, token: _Token) -> bool:
    if isinstance(token, str):
        return char == token
    return True if isinstance(token, _Any) else token.has(char)
