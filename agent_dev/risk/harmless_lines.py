"""Lines that cannot change what runs: plain comments, help texts, ignore patterns for logs."""

import re
from collections.abc import Callable, Iterator

from agent_dev.diff.equal_ends import equal_ends
from agent_dev.risk.new_lines import ReadBase

# Texts, which `re` compiles on first use: few changes need them.
# Only letters and a few marks: nothing that a tool interprets (`vim:`, `coding=`, `/// script`), and no quotes.
_WORDS = rb"[A-Za-z0-9 ,.()!?;\x80-\xff-]|(?<=[A-Za-z])'(?=[a-z])"
_COMMENT = rb"\s{0,80}#+(?:\s{1,80}(?:%b)*)?" % _WORDS
_PRINTED = rb"(?:%b|[:/_<>=+*@|#%%&\[\]{}~^])*" % _WORDS
_ECHO = rb"\t@?(?:echo|printf)(?: -e| -n)?(?:\s{1,8}(?:\"%b\"|'%b'))?\s{0,8}" % (_PRINTED, _PRINTED)
_HELP = rb"\s{1,80}##(?:\s(?:%b)*)?\Z" % _WORDS
_IGNORED = (
    rb"\s*(?:/|\*\*/)?(?:\*\.(?:log|tmp|temp|bak|swp|swo|pyc|pyo|pid|orig|rej|cover|lcov|tsbuildinfo|retry)|logs?/|\*~|__pycache__/"
    rb"|\.DS_Store|Thumbs\.db|\.(?:pytest|mypy|ruff|parcel|sass)[_-]cache/?|\.coverage(?:\.\*)?|htmlcov/|\.eslintcache|\.nyc_output/?"
    rb"|(?:npm-debug|yarn-error|yarn-debug|lerna-debug|pnpm-debug)\.log\*?)?\s*"
)

_NUMBERED = 2  # lines at the beginning of a file, where `#!` counts

# Returns the part of a line that counts, None if nothing does.
_Strip = Callable[[bytes], bytes | None]


def _without(pattern: bytes) -> _Strip:
    return lambda line: None if re.fullmatch(pattern, line) else line


def _without_help(line: bytes) -> bytes | None:
    return None if re.fullmatch(_ECHO, line) else re.sub(_HELP, b"", line)


LINE_FILTERS: dict[str, _Strip] = {
    "comments": _without(_COMMENT),
    "help": _without_help,
    "ignored-logs": _without(_IGNORED),
}


def differs_in_other_lines(after: bytes, before: ReadBase, names: tuple[str, ...]) -> bool:
    """Return whether two texts differ in lines that count; only the part between equal beginnings and ends is compared."""
    old = before()
    start, end = equal_ends(old, after)
    first = after.count(b"\n", 0, start)
    end = _without_first_line(after, end) if first >= _NUMBERED else 0
    is_continued = after.endswith(b"\\\n", 0, start)
    parts = (text[start : len(text) - end].split(b"\n") for text in (after, old))
    new_lines, old_lines = (list(_counting(lines, first, names, is_continued=is_continued)) for lines in parts)
    return new_lines != old_lines


def _without_first_line(text: bytes, end: int) -> int:
    """Return the bytes at the end that need no comparison: whether a line counts depends on the line before it."""
    newline = text.find(b"\n", len(text) - end)
    return len(text) - newline - 1 if newline >= 0 else 0


def _counting(lines: list[bytes], start: int, names: tuple[str, ...], *, is_continued: bool) -> Iterator[bytes]:
    for number, line in enumerate(lines, start):
        rest: bytes | None = line
        if not is_continued and not line.endswith(b"\\") and not (number < _NUMBERED and line.startswith(b"#!")):
            for name in names:
                rest = LINE_FILTERS[name](rest) if rest is not None else None
        if rest is not None:
            yield rest
        is_continued = line.endswith(b"\\")
