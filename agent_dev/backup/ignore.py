"""Patterns of what is left out, as gitignore(5) has them: the last that matches decides, `!` takes back."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_dev.path_patterns import fits

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
    """Characters in brackets: those themselves, ranges as pairs, classes by name."""

    is_negated: bool
    ranges: tuple[tuple[str, str], ...]
    classes: tuple[str, ...] = ()

    def has(self, char: str) -> bool:
        is_in = any(first <= char <= last for first, last in self.ranges) or any(_CLASSES[name](char) for name in self.classes)
        return is_in != self.is_negated


@dataclass(frozen=True, slots=True)
class _Any:
    """`?`, or with `is_many` a `*`."""

    is_many: bool


_Token = str | _Set | _Any
_Name = tuple[_Token, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern: its names, `**` for any number of them; without a slash it is for the last name of a path alone."""

    names: tuple["_Name | str", ...]
    is_taken_back: bool
    is_for_folders: bool
    is_anywhere: bool

    def matches(self, names: list[str], *, is_folder: bool) -> bool:
        """Whether a path, as its names, matches."""
        if self.is_for_folders and not is_folder:
            return False
        if self.is_anywhere:
            return _is_name(names[-1], self.names[0])
        return _is_path(names, self.names)


def rules(text: bytes) -> tuple[Rule, ...]:
    """Return the rules of a file's text; a pattern that can match nothing is left out, as git does."""
    lines = text.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n")
    found = (_rule(line.removesuffix("\r")) for line in lines)
    return tuple(rule for rule in found if rule is not None)


def is_left_out(path: bytes, known: tuple[Rule, ...], *, is_folder: bool) -> bool:
    """Whether a path is left out, provided that no directory above it is: what lies in one of those cannot be taken back."""
    names = path.decode("utf-8", "surrogateescape").split("/")
    for rule in reversed(known):
        if rule.matches(names, is_folder=is_folder):
            return not rule.is_taken_back
    return False


def _rule(line: str) -> Rule | None:
    text = _without_end(line)
    is_taken_back = text.startswith("!")
    text = text[is_taken_back:]
    if not text or (text.startswith("#") and not is_taken_back):
        return None
    is_for_folders = text.endswith("/")
    body = text.removesuffix("/")
    is_anywhere = "/" not in body
    names = tuple(_ANY_NAMES if name == _ANY_NAMES and not is_anywhere else _tokens(name) for name in body.lstrip("/").split("/"))
    if not body or any(name is None for name in names):
        return None
    return Rule(tuple(name for name in names if name is not None), is_taken_back, is_for_folders, is_anywhere)


def _without_end(line: str) -> str:
    """Return a line without the spaces at its end, but for one that stands behind a backslash."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return text + " " if backslashes % 2 and len(text) < len(line) else text


def _tokens(name: str) -> _Name | None:
    """Return a name's pattern in pieces; None for one that matches nothing: brackets or a backslash without an end."""
    found: list[_Token] = []
    at = 0
    while at < len(name):
        char = name[at]
        at += 1
        if char == "\\":
            if at == len(name):
                return None
            found.append(name[at])
            at += 1
        elif char == "[":
            read = _set(name, at)
            if read is None:
                return None
            found.append(read[0])
            at = read[1]
        else:
            found.append(_Any(char == "*") if char in "*?" else char)
    return tuple(found)


def _set(name: str, at: int) -> tuple[_Set, int] | None:
    """Read what is in brackets from behind the first one; return it and where it ends."""
    is_negated = name[at : at + 1] in ("!", "^")
    at += is_negated
    ranges: list[tuple[str, str]] = []
    classes: list[str] = []
    begin = at
    while at < len(name) and (name[at] != "]" or at == begin):
        if name.startswith("[:", at) and (end := name.find(":]", at + 2)) > 0:
            if name[at + 2 : end] not in _CLASSES:
                return None
            classes.append(name[at + 2 : end])
            at = end + 2
            continue
        first, at = _literal(name, at)
        last = first
        if name[at : at + 1] == "-" and name[at + 1 : at + 2] not in ("]", ""):
            last, at = _literal(name, at + 1)
        ranges.append((first, last))
    return (_Set(is_negated, tuple(ranges), tuple(classes)), at + 1) if at < len(name) else None


def _literal(name: str, at: int) -> tuple[str, int]:
    is_escaped = name[at] == "\\" and at + 1 < len(name)
    return name[at + is_escaped], at + is_escaped + 1


def _is_path(names: list[str], pattern: "tuple[_Name | str, ...]") -> bool:
    """Whether names match a pattern of several; `**` at its end is at least one name, elsewhere also none."""
    if pattern[-1] == _ANY_NAMES:
        return any(_has_names(names[:count], pattern[:-1]) for count in range(len(names)))
    return _has_names(names, pattern)


def _has_names(names: list[str], pattern: "tuple[_Name | str, ...]") -> bool:
    return fits(names, pattern, _is_any_names, _is_name)


def _is_any_names(one: "_Name | str") -> bool:
    return one == _ANY_NAMES


def _is_name(name: str, pattern: "_Name | str") -> bool:
    return fits(name, pattern, _is_many, _is_char)


def _is_many(token: "_Token | str") -> bool:
    return isinstance(token, _Any) and token.is_many


def _is_char(char: str, token: _Token) -> bool:
    if isinstance(token, str):
        return char == token
    return True if isinstance(token, _Any) else token.has(char)
