"""Two byte strings as blocks of changed lines, and one change as the patch text that git reads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent_dev.overlay.changes import Change, Entry, FileType, Kind

LARGEST = 20 << 20  # bytes on either side; past that a file is one choice, and its lines are not compared
_HEAD = 8000  # git's own window for its guess whether a file is binary (xdiff-interface.c)


@dataclass(frozen=True, slots=True)
class Block:
    """One contiguous run of changed lines: what stood there, and what stands there now. Lines count from 0."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int

    @property
    def old_end(self) -> int:
        """The first old line behind the block."""
        return self.old_start + self.old_lines

    @property
    def new_end(self) -> int:
        """The first new line behind the block."""
        return self.new_start + self.new_lines


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighbouring blocks with the unchanged lines around them, as one piece of a unified diff."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    blocks: tuple[Block, ...]

    @property
    def header(self) -> str:
        """The hunk's `@@` line, without a line end."""
        return f"@@ -{_range(self.old_start, self.old_lines)} +{_range(self.new_start, self.new_lines)} @@"


def _range(start: int, count: int) -> str:
    """Return a range as diff counts it: from 1, but an empty one names the line before it."""
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def is_binary(data: bytes) -> bool:
    """Whether git would call these bytes binary: a NUL near the start."""
    return b"\0" in data[:_HEAD]


def lines(data: bytes) -> list[bytes]:
    """Split at newlines only (not at CR, form feed or Unicode's separators), keeping them."""
    pieces = data.split(b"\n")
    last = pieces.pop()
    found = [piece + b"\n" for piece in pieces]
    return [*found, last] if last else found


def line_end(*texts: bytes) -> bytes:
    """Return CRLF when the first ended line of every text that has one ends so, else LF: what a new line end should be."""
    firsts = [text[: text.index(b"\n") + 1] for text in texts if b"\n" in text]
    return b"\r\n" if firsts and all(first.endswith(b"\r\n") for first in firsts) else b"\n"


def joined(pieces: Sequence[bytes], end: bytes) -> bytes:
    """Join lines or runs of lines; one without a line end gets `end` when another follows, so that no two grow together."""
    some = [piece for piece in pieces if piece]
    return b"".join([piece if piece.endswith(b"\n") else piece + end for piece in some[:-1]] + some[-1:])


def is_diffable(before: bytes, after: bytes) -> bool:
    """Whether both sides are small enough to compare their lines."""
    return max(len(before), len(after)) <= LARGEST


def blocks(before: bytes, after: bytes, *, slide: bool = True) -> tuple[Block, ...]:
    """Return the changed runs in order; past LARGEST the whole file is one.

    `slide` moves a run among equal lines to where indentation says that a person would see it, as `git diff` does;
    `git merge` does not.
    """
    if before == after:
        return ()
    if not before or not after or not is_diffable(before, after):
        return (Block(0, _count_lines(before), 0, _count_lines(after)),)
    # Deferred: importing it costs as much as starting bubblewrap five times, and the launch path imports core.
    import pygit2
    from pygit2.enums import DiffOption

    flags = DiffOption.FORCE_TEXT | (DiffOption.INDENT_HEURISTIC if slide else DiffOption.NORMAL)
    patch = pygit2.Patch.create_from(before, after, flag=flags, context_lines=0, interhunk_lines=0)
    return tuple(
        Block(
            _from_zero(hunk.old_start, hunk.old_lines),
            hunk.old_lines,
            _from_zero(hunk.new_start, hunk.new_lines),
            hunk.new_lines,
        )
        for hunk in patch.hunks
    )


def _from_zero(start: int, count: int) -> int:
    """Undo diff's counting, which for an empty range names the line before it."""
    return start - 1 if count else start


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def count(before: bytes, after: bytes) -> tuple[int, int]:
    """Return how many lines were inserted and deleted."""
    found = blocks(before, after)
    return sum(block.new_lines for block in found), sum(block.old_lines for block in found)


def unified(before: bytes, after: bytes, context: int = 3) -> Iterator[Hunk]:
    """Yield the blocks with `context` unchanged lines around them, those that then touch in one hunk, as git does."""
    yield from grouped(blocks(before, after), _count_lines(before), context)


def grouped(found: Iterable[Block], end: int, context: int = 3) -> Iterator[Hunk]:
    """Yield blocks in hunks with `context` lines around them; `end` is how many lines the old text has."""
    group: list[Block] = []
    for block in found:
        if group and block.old_start - group[-1].old_end > 2 * context:
            yield _hunk(group, context, end)
            group = []
        group.append(block)
    if group:
        yield _hunk(group, context, end)


def _hunk(group: list[Block], context: int, old_end: int) -> Hunk:
    first, last = group[0], group[-1]
    lead = min(context, first.old_start)
    tail = min(context, old_end - last.old_end)
    return Hunk(
        first.old_start - lead,
        last.old_end + tail - first.old_start + lead,
        first.new_start - lead,
        last.new_end + tail - first.new_start + lead,
        tuple(group),
    )


def patch(change: Change, path: bytes, before: bytes | None, after: bytes | None, *, with_numbers: bool = False) -> bytes:
    """Return one change in git's patch format, for `git apply`; `with_numbers`: each hunk says the numbers of its blocks.

    `path` is the name to write, relative. `before` and `after` are the bytes of a file or a link's target, None where
    there are none. What git cannot express (an empty directory, a fifo, an owner's read bit) becomes a comment, which
    git skips. A binary file is only named, as `git diff` does.
    """
    old, new = _git_mode(change.before), _git_mode(change.after)
    unsaid = _unsaid(change, old, new)
    comment = b"# " + quoted(path) + f": {unsaid}; git has no words for it\n".encode() if unsaid else b""
    if change.kind is Kind.METADATA:
        before = after = b""
    if (old is None and new is None) or (old == new and before is not None and before == after):
        return comment
    if old and new and old[:3] != new[:3]:  # a file became a link or the reverse: git writes two patches
        return comment + _one(path, (old, None), (before, None)) + _one(path, (None, new), (None, after))
    return comment + _one(path, (old, new), (before, after), with_numbers=with_numbers)


def _git_mode(entry: Entry | None) -> str | None:
    """Return the mode that git keeps for an entry; None for nothing and for what git does not keep."""
    if entry is None:
        return None
    if entry.type is FileType.SYMLINK:
        return "120000"
    if entry.type is FileType.FILE:
        return "100755" if entry.mode & 0o100 else "100644"
    return None


def _unsaid(change: Change, old: str | None, new: str | None) -> str:
    """Return what of a change gets lost in git's format; empty when nothing does."""
    if (change.after and new is None) or (change.after is None and old is None):
        return f"{change.kind} {change.type}"
    if change.before is None or change.after is None or old != new or old == "120000":
        return ""
    if change.before.mode != change.after.mode:
        return f"mode {change.before.mode:04o} becomes {change.after.mode:04o}"
    return "attributes" if change.before.attributes != change.after.attributes else ""


def _one(
    path: bytes, modes: tuple[str | None, str | None], sides: tuple[bytes | None, bytes | None], *, with_numbers: bool = False
) -> bytes:
    old, new = quoted(b"a/" + path), quoted(b"b/" + path)
    head = [b"diff --git %s %s\n" % (old, new), *_mode_lines(*modes)]
    shown = [old if modes[0] else b"/dev/null", new if modes[1] else b"/dev/null"]
    if any(mode and side is None for mode, side in zip(modes, sides, strict=True)):
        return b"".join([*head, b"Binary files %s and %s differ\n" % (shown[0], shown[1])])
    before, after = sides[0] or b"", sides[1] or b""
    if before == after:
        return b"".join(head)
    if is_binary(before) or is_binary(after) or not is_diffable(before, after):
        return b"".join([*head, b"Binary files %s and %s differ\n" % (shown[0], shown[1])])
    names = [b"--- %s\n" % _ended(shown[0]), b"+++ %s\n" % _ended(shown[1])]
    return b"".join([*head, *names, *_body(before, after, with_numbers=with_numbers)])


def _mode_lines(old: str | None, new: str | None) -> list[bytes]:
    if old is None:
        return [f"new file mode {new}\n".encode()]
    if new is None:
        return [f"deleted file mode {old}\n".encode()]
    return [f"old mode {old}\n".encode(), f"new mode {new}\n".encode()] if old != new else []


def _body(before: bytes, after: bytes, *, with_numbers: bool) -> Iterator[bytes]:
    old, new = lines(before), lines(after)
    number = 1
    for hunk in unified(before, after):
        last = number + len(hunk.blocks) - 1
        name = f" block {number}" if last == number else f" blocks {number}-{last}"
        yield hunk.header.encode() + (name.encode() if with_numbers else b"") + b"\n"
        number = last + 1
        at = hunk.old_start
        for block in hunk.blocks:
            yield from _marked(b" ", old[at : block.old_start])
            yield from _marked(b"-", old[block.old_start : block.old_end])
            yield from _marked(b"+", new[block.new_start : block.new_end])
            at = block.old_end
        yield from _marked(b" ", old[at : hunk.old_start + hunk.old_lines])


def _marked(sign: bytes, some: Iterable[bytes]) -> Iterator[bytes]:
    for line in some:
        yield sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"


_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


def quoted(path: bytes) -> bytes:
    """Return a path as git writes it (quote.c, core.quotePath on): in double quotes and octal where it must be."""
    if all(0x20 <= byte < 0x7F and byte not in _ESCAPES for byte in path):
        return path
    escaped = (_ESCAPES.get(byte) or (bytes((byte,)) if 0x20 <= byte < 0x7F else b"\\%03o" % byte) for byte in path)
    return b'"' + b"".join(escaped) + b'"'


def _ended(name: bytes) -> bytes:
    """Return a name for a `---` or `+++` line: after a space git puts a tab, so that its end can be told."""
    return name + b"\t" if b" " in name else name
