"""Path patterns of risk rules, matched without regular expressions in O(pattern length x path length)."""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from agent_dev.wildcard import matches_sequence, matches_stars

ANY_DEPTH = "**"
# HFS+ ignores these characters in names: `.g\u200cit` is `.git` (git's rule, core.protectHFS).
_IGNORED = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
# Windows ignores or replaces these in names (git: verify_path, is_ntfs_dotgit): trailing dots and blanks, NTFS stream names,
# backslash for slash.
_WINDOWS_ALIAS = re.compile(r"[\\:]|[. ](?:/|$)")
_TRAILING_DOTS = re.compile(r"(?<=[^./ ])[. ]+(?=/|$)")
_STREAM = re.compile(r"(?<=[^/:])::?\$[^/]*|(?<=/\.git):[^/]*|(?<=^\.git):[^/]*")


def fold_path(path: bytes) -> str:
    """Return the normal form of a path: equal for spellings that some file system treats as the same name."""
    text = path.decode("utf-8", "surrogateescape")
    if text.isascii():
        return _without_windows_aliases(text.lower())
    text = unicodedata.normalize("NFKC", text).translate(_IGNORED)
    return _without_windows_aliases(unicodedata.normalize("NFKC", text.casefold()))


def _without_windows_aliases(text: str) -> str:
    if not _WINDOWS_ALIAS.search(text):
        return text
    return _TRAILING_DOTS.sub("", _STREAM.sub("", text.replace("\\", "/")))


class FoldedPath(NamedTuple):
    """A folded path, its names, and the index keys of all patterns that can match it."""

    text: str
    names: list[str]
    keys: set[str]


class PatternIndex:
    """Numbered patterns, indexed by a name that a matching path must contain; most paths contain none of them."""

    def __init__(self, patterns: tuple[tuple[str, int], ...]) -> None:
        self._by_name: dict[str, list[tuple[str, tuple[str, ...], int]]] = {}
        for pattern, number in patterns:
            folded = fold_path(pattern.encode("utf-8", "surrogateescape"))
            self._by_name.setdefault(_name(folded), []).append((_literal(folded), segments(folded), number))

    def matching_path(self, path: bytes) -> set[int]:
        """Return the numbers of the patterns that match a path."""
        return self.matching_folded(fold_names(path))

    def matching_folded(self, path: FoldedPath) -> set[int]:
        """Return the numbers of the patterns that match a path folded by `fold_names`, for several lookups of one path."""
        found: set[int] = set()
        for key in path.keys & self._by_name.keys():
            for literal, pattern, number in self._by_name[key]:
                # the literal first: that is ten times as fast, and few paths contain it
                if literal in path.text and number not in found and matches(path.names, pattern):
                    found.add(number)
        return found


def files_left(patterns: Iterable[str], paths: Iterable[bytes]) -> frozenset[bytes]:
    """Return the paths that match patterns of files that an agent leaves in each repository (`dir/`: a directory)."""
    index = PatternIndex(tuple((f"{pattern}**" if pattern.endswith("/") else pattern, 0) for pattern in patterns))
    return frozenset(path for path in paths if index.matching_path(path))


def fold_names(path: bytes) -> FoldedPath:
    """Return a path as `matching_folded` takes it."""
    text = fold_path(path)
    names = text.split("/")
    return FoldedPath(text, names, {"", *names, *_wild_names(names[-1])})


def segments(pattern: str) -> tuple[str, ...]:
    """Split a folded pattern into the names that a path must have; `**` is any number of names.

    A pattern without a slash matches a name at any depth, one with a slash is anchored at the root. A trailing slash matches
    the directory's content, or a non-directory of that name.
    """
    body = pattern.strip("/")
    is_anywhere = "/" not in body and not pattern.startswith("/")
    return (*((ANY_DEPTH,) if is_anywhere else ()), *body.split("/"), *((ANY_DEPTH,) if pattern.endswith("/") else ()))


def matches(parts: list[str], pattern: tuple[str, ...]) -> bool:
    """Return whether the folded names of a path match the segments of a pattern."""
    if len(pattern) == 2 and pattern[0] == ANY_DEPTH != pattern[1]:
        return _is_name(parts[-1], pattern[1])
    return matches_sequence(parts, pattern, ANY_DEPTH.__eq__, _is_name)


def _is_name(name: str, pattern: str) -> bool:
    """Return whether a name matches a segment: `*` is any number of characters, `?` is one."""
    if "?" not in pattern:
        return matches_stars(name, pattern)
    literal = pattern.partition("?")[0].partition("*")[0]
    return name.startswith(literal) and matches_sequence(name, pattern, "*".__eq__, _is_char)


def _is_char(char: str, pattern: str) -> bool:
    return pattern in ("?", char)


def _name(pattern: str) -> str:
    """Return the index key of a pattern: its longest literal name, else the form `*.py` or `jest.*`, or ""."""
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


def _literal(pattern: str) -> str:
    """Return a text that every matching path contains: the longest part of a pattern's names without wildcards."""
    return max(pattern.replace("*", "/").replace("?", "/").split("/"), key=len)


def _wild_names(name: str) -> list[str]:
    """Return the index keys of a file name: `*.py` for its extension, `jest.*` for each of its stems."""
    if "." not in name:
        return []
    found, at = [f"*.{name.rpartition('.')[2]}"], name.find(".")
    while at >= 0:
        found.append(f"{name[: at + 1]}*")
        at = name.find(".", at + 1)
    return found
