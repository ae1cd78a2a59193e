"""A patch as `git diff` and `agent-dev diff` write it: read into hunks, and each hunk found in what the agent changed."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent_dev.diff.hunks import Block, blocks, is_diffable, lines
from agent_dev.diff.partial import NOTHING, Choice, with_lines
from agent_dev.errors import AgentDevError

NO_NEWLINE = b"\\ "  # what follows is "No newline at end of file", or the same in the language of who wrote it


class BadPatch(AgentDevError):
    """the patch cannot be read at line {line}: {reason}"""  # noqa: D400  (an error's docstring is its message)


class PatchDoesNotFit(AgentDevError):
    """{path}, hunk {hunk} of the patch: {reason}"""  # noqa: D400  (an error's docstring is its message)


@dataclass(frozen=True, slots=True)
class PatchHunk:
    """One hunk: the old line it starts at, from 0, and its lines as pairs of a sign (space, - or +) and bytes."""

    old_start: int
    lines: tuple[tuple[bytes, bytes], ...]

    @property
    def preimage(self) -> tuple[bytes, ...]:
        """The old lines that it names."""
        return tuple(line for sign, line in self.lines if sign != b"+")


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch says about one path (relative, unquoted). Modes are git's six octal digits, None where it names none."""

    path: bytes
    hunks: tuple[PatchHunk, ...] = ()
    old_mode: int | None = None
    new_mode: int | None = None
    is_new: bool = False
    is_deleted: bool = False
    is_binary: bool = False


# --- reading ---


def parse(text: bytes) -> tuple[FilePatch, ...]:
    """Read a patch; text around the files (a mail's, `git show`'s) is skipped, as git does.

    A type change stands as two entries of one path. Raises BadPatch for what cannot be read, and for renames and copies,
    which name two paths: `git diff --no-renames` writes them as a deletion and an addition.
    """
    reader = _Reader(lines(text))
    found: list[FilePatch] = []
    while not reader.is_at_end:
        if reader.sees(b"diff --git ") or reader.sees_names():
            found.append(_file(reader))
        elif reader.sees(b"@@"):
            raise reader.error("a hunk without a file")
        else:
            reader.take()
    return tuple(found)


@dataclass(slots=True)
class _Reader:
    """The lines of a patch and where the reading stands."""

    lines: list[bytes]
    at: int = 0

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.lines)

    def sees(self, *starts: bytes, ahead: int = 0) -> bool:
        return self.at + ahead < len(self.lines) and self.lines[self.at + ahead].startswith(starts)

    def sees_names(self) -> bool:
        return self.sees(b"--- ") and self.sees(b"+++ ", ahead=1)

    def take(self) -> bytes:
        self.at += 1
        return self.lines[self.at - 1]

    def error(self, reason: str, *, back: int = 0) -> BadPatch:
        return BadPatch(line=self.at + 1 - back, reason=reason)


@dataclass(slots=True)
class _Header:
    """What the lines before the first hunk say."""

    modes: dict[bytes, int] = field(default_factory=dict)
    is_binary: bool = False


def _file(reader: _Reader) -> FilePatch:
    header = _Header()
    names: list[bytes | None] = []
    common = None
    if reader.sees(b"diff --git "):
        common = _common_name(reader.take()[len(b"diff --git ") :].rstrip(b"\r\n"))
        _extended(reader, header)
    if reader.sees_names():
        names = [_name(reader, reader.take()[4:]), _name(reader, reader.take()[4:])]
    paths = {name for name in (common, *names) if name is not None}
    if len(paths) != 1 or names == [None, None]:
        raise reader.error("two paths, or none, in one patch of a file", back=1)
    hunks = []
    while reader.sees(b"@@ -"):
        hunks.append(_hunk(reader))
    return FilePatch(
        paths.pop(),
        tuple(hunks),
        header.modes.get(b"deleted file mode", header.modes.get(b"old mode")),
        header.modes.get(b"new file mode", header.modes.get(b"new mode")),
        is_new=b"new file mode" in header.modes or names[:1] == [None],
        is_deleted=b"deleted file mode" in header.modes or names[1:] == [None],
        is_binary=header.is_binary,
    )


def _extended(reader: _Reader, header: _Header) -> None:
    """Read git's lines between `diff --git` and the names."""
    while not reader.is_at_end and not reader.sees_names() and not reader.sees(b"diff --git ", b"@@ -"):
        line = reader.take().rstrip(b"\r\n")
        if line.startswith((b"rename ", b"copy ")):
            raise reader.error("renames and copies are not read; write the patch with --no-renames", back=1)
        for word in (b"old mode", b"new mode", b"deleted file mode", b"new file mode"):
            if line.startswith(word + b" "):
                header.modes[word] = _mode(reader, line[len(word) + 1 :])
        header.is_binary = header.is_binary or line.startswith((b"Binary files ", b"GIT binary patch"))


def _mode(reader: _Reader, digits: bytes) -> int:
    if len(digits) != 6 or any(digit not in b"01234567" for digit in digits):
        raise reader.error("not a mode", back=1)
    return int(digits, 8)


def _hunk(reader: _Reader) -> PatchHunk:
    start, old_left, new_left = _range_line(reader)
    found: list[tuple[bytes, bytes]] = []
    while old_left or new_left or reader.sees(NO_NEWLINE):
        if reader.is_at_end:
            raise reader.error("it ends inside a hunk")
        line = reader.take()
        if line.startswith(NO_NEWLINE) and found:
            found[-1] = (found[-1][0], found[-1][1].removesuffix(b"\n"))
            continue
        sign, rest = (b" ", line) if line in (b"\n", b"\r\n") else (line[:1], line[1:])  # mailers cut a lone space
        if sign not in (b" ", b"-", b"+"):
            raise reader.error("a line of a hunk begins with a space, - or +, and there are fewer than its header says", back=1)
        old_left -= sign != b"+"
        new_left -= sign != b"-"
        if old_left < 0 or new_left < 0:
            raise reader.error("the hunk has other lines than its header says", back=1)
        found.append((sign, rest if rest.endswith(b"\n") else rest + b"\n"))
    if reader.sees(b" ", b"+", b"-") and not reader.sees_names() and not reader.sees(b"-- \n"):  # a mail's signature
        raise reader.error("the hunk has more lines than its header says")
    return PatchHunk(start, tuple(found))


def _range_line(reader: _Reader) -> tuple[int, int, int]:
    """Read `@@ -start,count +start,count @@`; return the old start from 0 and both counts."""
    words = reader.take().split(b" ")
    if len(words) < 4 or not words[3].startswith(b"@@") or words[2][:1] != b"+":
        raise reader.error("not the first line of a hunk", back=1)
    (old_start, old_count), (_, new_count) = (_range(reader, word[1:]) for word in words[1:3])
    return max(0, old_start - 1) if old_count else old_start, old_count, new_count


def _range(reader: _Reader, text: bytes) -> tuple[int, int]:
    start, comma, count = text.partition(b",")
    if not start.isdigit() or (comma and not count.isdigit()) or len(text) > 40:
        raise reader.error("not the first line of a hunk", back=1)
    return int(start), int(count) if comma else 1


# --- names ---


def _name(reader: _Reader, text: bytes) -> bytes | None:
    """Return the path of a `---` or `+++` line without its prefix; None for /dev/null."""
    text = text.rstrip(b"\r\n").partition(b"\t")[0]  # git puts a tab behind a name with a space, diff a time
    name = _maybe_quoted(text)
    if name == b"/dev/null":
        return None
    path = _without_prefix(name) if name is not None else None
    if path is None:
        raise reader.error("not a name as git writes it, with a/ or b/ before the path", back=1)
    return path


def _common_name(text: bytes) -> bytes | None:
    """Return the path that both names of a `diff --git` line share, None when they differ.

    Unquoted names have no end of their own: when both are the same path, they are of one length (git's own rule).
    """
    if text.startswith(b'"'):
        end = _closing(text)
        both = (unquoted(text[:end]), _maybe_quoted(text[end + 1 :]))
    elif text.endswith(b'"') and b' "' in text:
        start = text.index(b' "')
        both = (text[:start], unquoted(text[start + 1 :]))
    else:
        middle = len(text) // 2
        both = (text[:middle], text[middle + 1 :])
    old, new = (_without_prefix(name) if name else None for name in both)
    return old if old == new else None


def _maybe_quoted(text: bytes) -> bytes | None:
    return unquoted(text) if text.startswith(b'"') else text


def _without_prefix(name: bytes) -> bytes | None:
    """Return a name without git's one-letter prefix (a/ b/, or i/ w/ c/ o/ 1/ 2/ with diff.mnemonicPrefix)."""
    return name[2:] if len(name) > 2 and name[1:2] == b"/" and name[:1] in b"abiwco12" else None


def _closing(text: bytes) -> int:
    """Return the place behind the quote that ends a quoted name."""
    at = 1
    while at < len(text) and text[at : at + 1] != b'"':
        at += 2 if text[at : at + 1] == b"\\" else 1
    return at + 1


_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


def unquoted(text: bytes) -> bytes | None:
    """Return the path behind git's quoting, the reverse of `blocks.quoted`; None where the quoting is broken."""
    if len(text) < 2 or text[:1] != b'"' or _closing(text) != len(text):
        return None
    found, at = bytearray(), 1
    while at < len(text) - 1:
        one = text[at : at + 1]
        if one != b"\\":
            found += one
            at += 1
        elif text[at + 1 : at + 2] in _ESCAPES:
            found.append(_ESCAPES[text[at + 1 : at + 2]])
            at += 2
        else:
            digits = text[at + 1 : at + 4]
            if len(digits) != 3 or digits[0] not in b"0123" or any(digit not in b"01234567" for digit in digits):
                return None
            found.append(int(digits, 8))
            at += 4
    return bytes(found)


# --- finding the hunks in a change ---


def choose(patch: FilePatch, before: bytes, after: bytes) -> Choice:
    """Return the choice over `blocks(before, after)` that takes exactly the lines this patch names.

    Every `-` line must be one that the agent took away and every `+` line one that it put there, in the same run of
    changed lines. Where a hunk is not at the line it says, the nearest place behind the hunk before it is taken where it
    fits, as `git apply` does. A `+` line of part of a run may stand where `choice.apply` puts it, or behind what is
    kept, as in a patch edited by hand; either way the line is chosen, and its place is `choice.apply`'s to say.
    Raises PatchDoesNotFit.
    """
    if patch.is_binary or not is_diffable(before, after):
        raise PatchDoesNotFit(path=patch.path, hunk=1, reason="the file is binary or too large for lines; take it whole")
    found = blocks(before, after)
    text = _Texts(lines(before), lines(after), found, tuple(block.old_start for block in found))
    old: set[int] = set()
    new: set[int] = set()
    behind = _Placed()
    for number, hunk in enumerate(patch.hunks, 1):
        placed = _place(text, hunk, behind)
        if placed is None:
            raise PatchDoesNotFit(path=patch.path, hunk=number, reason=_reason(text, hunk, behind))
        old.update(placed.old)
        new.update(placed.new)
        behind = placed
    return with_lines(NOTHING, found, frozenset(old), frozenset(new))


@dataclass(frozen=True, slots=True)
class _Texts:
    old: list[bytes]
    new: list[bytes]
    found: tuple[Block, ...]
    starts: tuple[int, ...]  # the blocks' old starts, to search in


@dataclass(frozen=True, slots=True)
class _Placed:
    """A hunk in its place: the lines it chooses, the old line behind it, how far off it was, the block and new line behind."""

    old: frozenset[int] = frozenset()
    new: frozenset[int] = frozenset()
    end: int = 0
    offset: int = 0
    block: int = -1
    next_new: int = 0


def _places(text: _Texts, hunk: PatchHunk, behind: _Placed) -> Iterator[int]:
    """Yield where the old lines of a hunk stand, the nearest to where they should be first."""
    before = hunk.preimage
    last = len(text.old) - len(before)
    expected = min(max(hunk.old_start + behind.offset, behind.end), last)
    for distance in range(last + 1):
        for at in (expected + distance, expected - distance)[: distance + 1]:
            if behind.end <= at <= last and _stands(text.old, before, at):
                yield at


def _stands(old: list[bytes], before: tuple[bytes, ...], at: int) -> bool:
    return all(_is_line(line, old[at + step]) for step, line in enumerate(before))


def _is_line(said: bytes, line: bytes) -> bool:
    """Whether a patch's line is this one; a patch of part of a change may have had to end a line that has no end."""
    return said == line or (not line.endswith(b"\n") and said in (line + b"\n", line + b"\r\n"))


def _place(text: _Texts, hunk: PatchHunk, behind: _Placed) -> _Placed | None:
    for at in _places(text, hunk, behind):
        placed = _chosen(text, hunk, behind, at)
        if placed:
            return placed
    return None


def _chosen(text: _Texts, hunk: PatchHunk, behind: _Placed, at: int) -> _Placed | None:
    """Choose the lines of a hunk whose old lines stand at `at`; None when one of them is not the agent's edit."""
    old: set[int] = set()
    added: dict[int, list[tuple[int, bytes]]] = {}
    here = at
    for sign, line in hunk.lines:
        if sign != b" ":
            index = _block_at(text, here, is_insertion=sign == b"+")
            if index is None:
                return None
            if sign == b"+":
                added.setdefault(index, []).append((here - text.found[index].old_start, line))
            else:
                old.add(here)
        here += sign != b"+"
    new: list[int] = []
    block, next_new = behind.block, behind.next_new
    for index, some in added.items():
        matched = _matched(text, text.found[index], some, next_new if index == block else 0)
        if matched is None:
            return None
        new += matched
        block, next_new = index, matched[-1] + 1
    return _Placed(frozenset(old), frozenset(new), here, at - hunk.old_start, block, next_new)


def _block_at(text: _Texts, line: int, *, is_insertion: bool) -> int | None:
    """Return the block that holds an old line; for an insertion before that line also the one that ends there."""
    index = bisect_right(text.starts, line) - 1
    return index if index >= 0 and line < text.found[index].old_end + is_insertion else None


def _matched(text: _Texts, block: Block, some: list[tuple[int, bytes]], first: int) -> tuple[int, ...] | None:
    """Return which new lines of a block these are, in order; the k-th belongs behind k old ones, if that can be."""
    for is_strict in (True, False):
        numbers: list[int] = []
        number = max(first, block.new_start)
        for behind, line in some:
            while number < block.new_end and not (
                _is_line(line, text.new[number])
                and (not is_strict or behind == min(number - block.new_start + 1, block.old_lines))
            ):
                number += 1
            numbers.append(number)
            number += 1
        if numbers[-1] < block.new_end:
            return tuple(numbers)
    return None


def _reason(text: _Texts, hunk: PatchHunk, behind: _Placed) -> str:
    if next(_places(text, hunk, behind), None) is None:
        return "its old lines are not in the file, or not in this order"
    return "not every line of it is a line that the agent changed there"
