"""Parser for patches in the format of `git diff` and `agent-dev diff`."""

from agent_dev.diff.hunks import split_lines
from agent_dev.errors import AgentDevError
from agent_dev.quick_dataclass import dataclass, field

NO_NEWLINE = b"\\ "  # followed by "No newline at end of file", perhaps translated


class InvalidPatch(AgentDevError):
    """invalid patch, line {line}: {reason}"""  # noqa: D400  (an error's docstring is its message)


@dataclass(frozen=True, slots=True)
class PatchHunk:
    """A hunk: its first old line, from 0, and its lines as pairs of a sign (space, - or +) and bytes."""

    old_start: int
    lines: tuple[tuple[bytes, bytes], ...]

    @property
    def old_content(self) -> tuple[bytes, ...]:
        """The hunk's old lines."""
        return tuple(line for sign, line in self.lines if sign != b"+")


@dataclass(frozen=True, slots=True)
class FilePatch:
    """A patch of one path (relative, unquoted). Modes are git's six octal digits, None if not given.

    `renamed_from`: the path before a rename, else "".
    """

    path: bytes
    hunks: tuple[PatchHunk, ...] = ()
    old_mode: int | None = None
    new_mode: int | None = None
    is_new: bool = False
    is_deleted: bool = False
    is_binary: bool = False
    renamed_from: bytes = b""


# --- reading ---


def parse_patch(text: bytes) -> tuple[FilePatch, ...]:
    """Parse a patch; text around it (of a mail, or from `git show`) is skipped, as in git.

    A type change has two entries for one path. Raises InvalidPatch for invalid patches and for edited copies, which
    `git diff --no-renames` writes as additions.
    """
    reader = _PatchReader(split_lines(text))
    found: list[FilePatch] = []
    while not reader.is_at_end:
        if reader.starts_with(b"diff --git ") or reader.has_names():
            found.append(_parse_file(reader))
        elif reader.starts_with(b"@@"):
            raise reader.error("a hunk without a file")
        else:
            reader.next_line()
    return tuple(found)


@dataclass(slots=True)
class _PatchReader:
    """The lines of a patch and the current position."""

    lines: list[bytes]
    position: int = 0

    @property
    def is_at_end(self) -> bool:
        return self.position >= len(self.lines)

    def starts_with(self, *starts: bytes, ahead: int = 0) -> bool:
        return self.position + ahead < len(self.lines) and self.lines[self.position + ahead].startswith(starts)

    def has_names(self) -> bool:
        return self.starts_with(b"--- ") and self.starts_with(b"+++ ", ahead=1)

    def next_line(self) -> bytes:
        self.position += 1
        return self.lines[self.position - 1]

    def error(self, reason: str, *, back: int = 0) -> InvalidPatch:
        return InvalidPatch(line=self.position + 1 - back, reason=reason)


@dataclass(slots=True)
class _Header:
    """The fields of the lines before the first hunk."""

    modes: dict[bytes, int] = field(default_factory=dict)
    is_binary: bool = False
    moved: dict[bytes, bytes] = field(default_factory=dict)  # from and to
    copied: dict[bytes, bytes] = field(default_factory=dict)  # as well


def _parse_file(reader: _PatchReader) -> FilePatch:
    header = _Header()
    names: list[bytes | None] = []
    common = None
    if reader.starts_with(b"diff --git "):
        common = _common_name(reader.next_line()[len(b"diff --git ") :].rstrip(b"\r\n"))
        _parse_extended_header(reader, header)
    if reader.has_names():
        names = [_parse_name(reader, reader.next_line()[4:]), _parse_name(reader, reader.next_line()[4:])]
    moved = header.moved
    if header.copied:
        if len(header.copied) != 2 or moved or names or reader.starts_with(b"@@ -"):
            raise reader.error("copies with edits are not supported; create the patch with --no-renames", back=1)
        return FilePatch(header.copied[b"to"], is_new=True)
    if len(moved) == 2 and names in ([], [moved[b"from"], moved[b"to"]]):
        paths = {moved[b"to"]}
    else:
        paths = {name for name in (common, *names) if name is not None}
        if len(paths) != 1 or moved or names == [None, None]:
            raise reader.error("a file's patch must name exactly one path", back=1)
    hunks = []
    while reader.starts_with(b"@@ -"):
        hunks.append(_parse_hunk(reader))
    return FilePatch(
        paths.pop(),
        tuple(hunks),
        header.modes.get(b"deleted file mode", header.modes.get(b"old mode")),
        header.modes.get(b"new file mode", header.modes.get(b"new mode")),
        is_new=b"new file mode" in header.modes or names[:1] == [None],
        is_deleted=b"deleted file mode" in header.modes or names[1:] == [None],
        is_binary=header.is_binary,
        renamed_from=moved.get(b"from", b""),
    )


def _parse_extended_header(reader: _PatchReader, header: _Header) -> None:
    """Parse git's lines between `diff --git` and the names."""
    while not reader.is_at_end and not reader.has_names() and not reader.starts_with(b"diff --git ", b"@@ -"):
        line = reader.next_line().rstrip(b"\r\n")
        for key in (b"from", b"to"):
            if line.startswith(b"copy %b " % key):
                header.copied[key] = _parse_path(reader, line[len(b"copy  ") + len(key) :])
            if line.startswith(b"rename %b " % key):
                header.moved[key] = _parse_path(reader, line[len(b"rename  ") + len(key) :])
        for key in (b"old mode", b"new mode", b"deleted file mode", b"new file mode"):
            if line.startswith(key + b" "):
                header.modes[key] = _parse_mode(reader, line[len(key) + 1 :])
        header.is_binary = header.is_binary or line.startswith((b"Binary files ", b"GIT binary patch"))


def _parse_path(reader: _PatchReader, text: bytes) -> bytes:
    path = _unquote_optional(text)
    if not path:
        raise reader.error("not a file name in git's format", back=1)
    return path


def _parse_mode(reader: _PatchReader, digits: bytes) -> int:
    if len(digits) != 6 or any(digit not in b"01234567" for digit in digits):
        raise reader.error("not a mode", back=1)
    return int(digits, 8)


def _parse_hunk(reader: _PatchReader) -> PatchHunk:
    start, old_left, new_left = _parse_hunk_header(reader)
    found: list[tuple[bytes, bytes]] = []
    while old_left or new_left or reader.starts_with(NO_NEWLINE):
        if reader.is_at_end:
            raise reader.error("the patch ends inside a hunk")
        line = reader.next_line()
        if line.startswith(NO_NEWLINE) and found:
            found[-1] = (found[-1][0], found[-1][1].removesuffix(b"\n"))
            continue
        sign, rest = (b" ", line) if line in (b"\n", b"\r\n") else (line[:1], line[1:])  # mailers strip a lone space
        if sign not in (b" ", b"-", b"+"):
            raise reader.error("the hunk has fewer lines than its header says, or a line without space, - or +", back=1)
        old_left -= sign != b"+"
        new_left -= sign != b"-"
        if old_left < 0 or new_left < 0:
            raise reader.error("the hunk's lines do not match its header", back=1)
        found.append((sign, rest if rest.endswith(b"\n") else rest + b"\n"))
    if reader.starts_with(b" ", b"+", b"-") and not reader.has_names() and not reader.starts_with(b"-- \n"):  # a mail's signature
        raise reader.error("the hunk has more lines than its header says")
    return PatchHunk(start, tuple(found))


def _parse_hunk_header(reader: _PatchReader) -> tuple[int, int, int]:
    """Parse `@@ -start,count +start,count @@`; return the old start from 0 and both counts."""
    fields = reader.next_line().split(b" ")
    if len(fields) < 4 or not fields[3].startswith(b"@@") or fields[2][:1] != b"+":
        raise reader.error("not a hunk header", back=1)
    (old_start, old_count), (_, new_count) = (_parse_range(reader, field_[1:]) for field_ in fields[1:3])
    return max(0, old_start - 1) if old_count else old_start, old_count, new_count


def _parse_range(reader: _PatchReader, text: bytes) -> tuple[int, int]:
    start, comma, count = text.partition(b",")
    if not start.isdigit() or (comma and not count.isdigit()) or len(text) > 40:
        raise reader.error("not a hunk header", back=1)
    return int(start), int(count) if comma else 1


# --- names ---


def _parse_name(reader: _PatchReader, text: bytes) -> bytes | None:
    """Return the path of a `---` or `+++` line without prefix; None for /dev/null."""
    text = text.rstrip(b"\r\n").partition(b"\t")[0]  # git appends a tab to a name with a space, diff a timestamp
    name = _unquote_optional(text)
    if name == b"/dev/null":
        return None
    path = _without_prefix(name) if name is not None else None
    if path is None:
        raise reader.error("not a file name with prefix a/ or b/", back=1)
    return path


def _common_name(text: bytes) -> bytes | None:
    """Return the path that both names of a `diff --git` line share, None if they differ.

    Unquoted names have no delimiter; equal names have the same length (git's own rule).
    """
    if text.startswith(b'"'):
        end = _closing_quote(text)
        both = (unquote(text[:end]), _unquote_optional(text[end + 1 :]))
    elif text.endswith(b'"') and b' "' in text:
        start = text.index(b' "')
        both = (text[:start], unquote(text[start + 1 :]))
    else:
        middle = len(text) // 2
        both = (text[:middle], text[middle + 1 :])
    old, new = (_without_prefix(name) if name else None for name in both)
    return old if old == new else None


def _unquote_optional(text: bytes) -> bytes | None:
    return unquote(text) if text.startswith(b'"') else text


def _without_prefix(name: bytes) -> bytes | None:
    """Return a name without git's one-letter prefix (a/ b/, or i/ w/ c/ o/ 1/ 2/ with diff.mnemonicPrefix)."""
    return name[2:] if len(name) > 2 and name[1:2] == b"/" and name[:1] in b"abiwco12" else None


def _closing_quote(text: bytes) -> int:
    """Return the position after a quoted name's closing quote."""
    position = 1
    while position < len(text) and text[position : position + 1] != b'"':
        position += 2 if text[position : position + 1] == b"\\" else 1
    return position + 1


_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


def unquote(text: bytes) -> bytes | None:
    """Return a path without git's quoting, the reverse of `patch_write.quote_path`; None if the quoting is broken."""
    if len(text) < 2 or text[:1] != b'"' or _closing_quote(text) != len(text):
        return None
    found, position = bytearray(), 1
    while position < len(text) - 1:
        char = text[position : position + 1]
        if char != b"\\":
            found += char
            position += 1
        elif text[position + 1 : position + 2] in _ESCAPES:
            found.append(_ESCAPES[text[position + 1 : position + 2]])
            position += 2
        else:
            digits = text[position + 1 : position + 4]
            if len(digits) != 3 or digits[0] not in b"0123" or any(digit not in b"01234567" for digit in digits):
                return None
            found.append(int(digits, 8))
            position += 4
    return bytes(found)
