"""The changed lines between two byte strings: bare hunks, and hunks with lines of context."""

from collections.abc import Iterable, Iterator, Sequence

from agent_dev.quick_dataclass import dataclass

MAX_DIFF_SIZE = 20 << 20  # bytes on either side; a larger file is one hunk, its lines are not compared
# Lines on either side, as above. libgit2 takes up to 13 µs for each, during which no other thread of Python runs.
MAX_DIFF_LINES = 500_000


@dataclass(frozen=True, slots=True)
class BareHunk:
    """A run of changed lines without context. Lines count from 0."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int

    @property
    def old_end(self) -> int:
        """The old line after the hunk."""
        return self.old_start + self.old_lines

    @property
    def new_end(self) -> int:
        """The new line after the hunk."""
        return self.new_start + self.new_lines


@dataclass(frozen=True, slots=True)
class ContextHunk:
    """Adjacent bare hunks with the unchanged lines around them, as in a unified diff."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    hunks: tuple[BareHunk, ...]

    @property
    def header(self) -> str:
        """The hunk's `@@` line, without a line end."""
        return f"@@ -{_range(self.old_start, self.old_lines)} +{_range(self.new_start, self.new_lines)} @@"


def _range(start: int, count: int) -> str:
    """Format a range as diff does: lines count from 1, and an empty range has the number of the line before it."""
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def split_lines(data: bytes) -> list[bytes]:
    """Split at newlines only (not at CR, form feed or Unicode's separators), keeping them."""
    parts = data.split(b"\n")
    last = parts.pop()
    found = [part + b"\n" for part in parts]
    return [*found, last] if last else found


def detect_line_end(*texts: bytes) -> bytes:
    """Return the line end for new lines: CRLF if the first complete line of every text ends with it, else LF."""
    firsts = [text[: text.index(b"\n") + 1] for text in texts if b"\n" in text]
    return b"\r\n" if firsts and all(first.endswith(b"\r\n") for first in firsts) else b"\n"


def join_lines(parts: Sequence[bytes], end: bytes) -> bytes:
    """Join lines or runs of lines; `end` is added to one without a line end unless it is the last."""
    nonempty = [part for part in parts if part]
    return b"".join([part if part.endswith(b"\n") else part + end for part in nonempty[:-1]] + nonempty[-1:])


def is_diffable(*texts: bytes) -> bool:
    """Return whether texts have few enough bytes and lines to be compared line by line."""
    return all(len(text) <= MAX_DIFF_SIZE and count_lines(text) <= MAX_DIFF_LINES for text in texts)


def find_hunks(before: bytes, after: bytes, *, slide: bool = True) -> tuple[BareHunk, ...]:
    """Return the changed runs in order; of sides that are not diffable, the whole file is one run.

    `slide` shifts a run among equal lines by indentation, as `git diff` does; `git merge` does not.
    """
    if before == after:
        return ()
    if not before or not after or not is_diffable(before, after):
        return (BareHunk(0, count_lines(before), 0, count_lines(after)),)
    # Deferred: the import takes five times as long as starting bubblewrap, and the launch path imports this module.
    from agent_dev.diff.load_pygit2 import load_pygit2

    pygit2 = load_pygit2()
    from pygit2.enums import DiffOption

    flags = DiffOption.FORCE_TEXT | (DiffOption.INDENT_HEURISTIC if slide else DiffOption.NORMAL)
    patch = pygit2.Patch.create_from(before, after, flag=flags, context_lines=0, interhunk_lines=0)
    return tuple(
        BareHunk(
            _from_zero(raw.old_start, raw.old_lines),
            raw.old_lines,
            _from_zero(raw.new_start, raw.new_lines),
            raw.new_lines,
        )
        for raw in patch.hunks
    )


def _from_zero(start: int, count: int) -> int:
    """Convert diff's line number, which is that of the line before an empty range."""
    return start - 1 if count else start


def count_lines(data: bytes) -> int:
    """Return the number of lines; the last one may have no line end."""
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def find_context_hunks(before: bytes, after: bytes, context: int = 3) -> Iterator[ContextHunk]:
    """Yield hunks with `context` unchanged lines; hunks whose context touches are joined, as in git."""
    yield from group_hunks(find_hunks(before, after), count_lines(before), context)


def group_hunks(hunks: Iterable[BareHunk], end: int, context: int = 3) -> Iterator[ContextHunk]:
    """Group bare hunks with `context` lines around them; `end` is the number of lines of the old text."""
    group: list[BareHunk] = []
    for hunk in hunks:
        if group and hunk.old_start - group[-1].old_end > 2 * context:
            yield _hunk(group, context, end)
            group = []
        group.append(hunk)
    if group:
        yield _hunk(group, context, end)


def _hunk(group: list[BareHunk], context: int, old_end: int) -> ContextHunk:
    first, last = group[0], group[-1]
    lead = min(context, first.old_start)
    tail = min(context, old_end - last.old_end)
    return ContextHunk(
        first.old_start - lead,
        last.old_end + tail - first.old_start + lead,
        first.new_start - lead,
        last.new_end + tail - first.new_start + lead,
        tuple(group),
    )
