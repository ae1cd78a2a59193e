"""Lines that cannot change what runs: plain comments, help texts, ignore patterns for logs."""

import re
from collections.abc import Callable, Iterator

from agent_dev.risk.new_lines import ReadBase

# Only letters and a few marks: nothing that a tool interprets (`vim:`, `coding=`, `/// script`), and no quotes.
_WORDS = rb"[A-Za-z0-9 ,.()!?;\x80-\xff-]|(?<=[A-Za-z])'(?=[a-z])"
_COMMENT = re.compile(rb"\s{0,80}#+(?:\s{1,80}(?:%b)*)?" % _WORDS)
_PRINTED = rb"(?:%b|[:/_<>=+*@|#%%&\[\]{}~^])*" % _WORDS
_ECHO = re.compile(rb"\t@?(?:echo|printf)(?: -e| -n)?(?:\s{1,8}(?:\"%b\"|'%b'))?\s{0,8}" % (_PRINTED, _PRINTED))
_HELP = re.compile(rb"\s{1,80}##(?:\s(?:%b)*)?\Z" % _WORDS)
_IGNORED = re.compile(
    rb"\s*(?:/|\*\*/)?(?:\*\.(?:log|tmp|temp|bak|swp|swo|pyc|pyo|pid|orig|rej|cover|lcov|tsbuildinfo|retry)|logs?/|\*~|__pycache__/"
    rb"|\.DS_Store|Thumbs\.db|\.(?:pytest|mypy|ruff|parcel|sass)[_-]cache/?|\.coverage(?:\.\*)?|htmlcov/|\.eslintcache|\.nyc_output/?"
    rb"|(?:npm-debug|yarn-error|yarn-debug|lerna-debug|pnpm-debug)\.log\*?)?\s*"
)

# Returns the part of a line that counts, None if nothing does.
_Strip = Callable[[bytes], bytes | None]


def _without(pattern: "re.Pattern[bytes]") -> _Strip:
    return lambda line: None if pattern.fullmatch(line) else line


def _without_help(line: bytes) -> bytes | None:
    return None if _ECHO.fullmatch(line) else _HELP.sub(b"", line)


LINE_FILTERS: dict[str, _Strip] = {
    "comments": _without(_COMMENT),
    "help": _without_help,
    "ignored-logs": _without(_IGNORED),
}


def differs_in_other_lines(after: bytes, before: ReadBase, names: tuple[str, ...]) -> bool:
    """Return whether two texts differ in lines that count; only the part between equal beginnings and ends is compared."""
    new, old = after.split(b"\n"), before().split(b"\n")
    first, end = _equal_ends(new, old)
    is_continued = first > 0 and new[first - 1].endswith(b"\\")
    sides = (_counting(lines[first : len(lines) - end], first, names, is_continued=is_continued) for lines in (new, old))
    return list(next(sides)) != list(next(sides))


def _equal_ends(new: list[bytes], old: list[bytes]) -> tuple[int, int]:
    """Return the numbers of lines at the beginning and at the end that need no comparison.

    Whether a line counts depends on the line before it, and for `#!` on its number. So the first equal line at the end is
    compared, as are the first two lines of a file.
    """
    shortest = min(len(new), len(old))
    first = next((at for at in range(shortest) if new[at] != old[at]), shortest)
    left = shortest - max(first, 2)
    same = next((at for at in range(left) if new[-1 - at] != old[-1 - at]), max(left, 0))
    return first, max(same - 1, 0)


def _counting(lines: list[bytes], start: int, names: tuple[str, ...], *, is_continued: bool) -> Iterator[bytes]:
    for number, line in enumerate(lines, start):
        rest: bytes | None = line
        if not is_continued and not line.endswith(b"\\") and not (number < 2 and line.startswith(b"#!")):
            for name in names:
                rest = LINE_FILTERS[name](rest) if rest is not None else None
        if rest is not None:
            yield rest
        is_continued = line.endswith(b"\\")
