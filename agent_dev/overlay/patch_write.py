"""Write changes in git's patch format, so that `git apply` restores them byte for byte (git-diff, "Generating patch text")."""

import re
from collections.abc import Iterable, Iterator

from agent_dev.diff.binary import is_binary
from agent_dev.diff.binary_patch import format_binary_patch, has_control_characters
from agent_dev.diff.hunks import find_context_hunks, is_diffable, split_lines
from agent_dev.fs.entry import Entry, FileType
from agent_dev.git.object_id import blob_id
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.quick_dataclass import dataclass

MAX_SIDE_SIZE = 256 << 20  # bytes per side; git refuses patches of 1 GiB, and a binary patch contains both sides
# Paths that git refuses (read-cache.c, verify_path) with the default core.protectNTFS.
_REFUSED_PATH = re.compile(rb"(?:^|[/\\])(?:\.git|git~1)[ .]*(?:[/\\:]|$)", re.IGNORECASE)
_REFUSED_LINK = re.compile(rb"(?:^|/)\.gitmodules(?:/|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PatchFormat:
    """Options of a patch.

    `is_exact`: binary files, and text that could control a terminal, in git's binary format; else such files are only named.
    `with_numbers`: each hunk header shows the numbers of its bare hunks (hunks without context).
    """

    is_exact: bool = True
    is_sha256: bool = False
    with_numbers: bool = False


EXACT_FORMAT = PatchFormat()
DISPLAY_FORMAT = PatchFormat(is_exact=False)


@dataclass(frozen=True, slots=True)
class _PatchSide:
    """One side of a patch of one path; `mode` is None if the path does not exist there."""

    name: bytes
    mode: str | None
    data: bytes

    @property
    def shown(self) -> bytes:
        return self.name if self.mode else b"/dev/null"


def change_patch(
    change: Change, path: bytes, before: bytes | None, after: bytes | None, form: PatchFormat = EXACT_FORMAT
) -> bytes:
    """Return one change as a patch; `omitted_part` reports the parts that it does not contain.

    `path` is the relative name to write. `before` and `after` are a file's content or a link's target; None if it does not exist
    or is unknown.
    """
    old, new = _git_mode(change.before), _git_mode(change.after)
    if (old is None and new is None) or (form.is_exact and _is_refused(change, path)):
        return b""
    if change.kind is ChangeKind.METADATA:
        before = after = b""
    if old and new and old[:3] != new[:3]:  # a file became a link or vice versa: git writes two patches
        pairs = [((old, None), (before, None)), ((None, new), (None, after))]
    else:
        pairs = [((old, new), (before, after))]
    if old == new and before is not None and before == after:
        return b""
    if any(mode and data is None for modes, data_of in pairs for mode, data in zip(modes, data_of, strict=True)):
        return b"" if form.is_exact else b"".join(_patch_without_content(path, modes) for modes, _ in pairs)
    return b"".join(_file_patch(*_sides((path, path), modes, data_of), form) for modes, data_of in pairs)


def rename_patch(
    paths: tuple[bytes, bytes], old: Change, new: Change, sides: tuple[bytes, bytes], form: PatchFormat = EXACT_FORMAT
) -> bytes:
    """Return the deletion of one file and the addition of another as one patch."""
    before, after = _sides(paths, (_git_mode(old.before), _git_mode(new.after)), sides)
    return _file_patch(before, after, form)


def copy_patch(paths: tuple[bytes, bytes], origin: Entry, change: Change, data: bytes) -> bytes:
    """Return the addition of a file as a copy; b"" if git refuses its path."""
    if _is_refused(change, paths[1]):
        return b""
    before, after = _sides(paths, (_git_mode(origin), _git_mode(change.after)), (data, data))
    rows = (b"copy from %s\n" % _without_prefix(before.name), b"copy to %s\n" % _without_prefix(after.name))
    head = (*_mode_lines(before.mode, after.mode), b"similarity index 100%\n", *rows)
    return b"".join([_first_line(before, after, is_alone=False), *head])


def omitted_part(change: Change, path: bytes, before: bytes | None, after: bytes | None) -> str:
    """Return the part of a change that its patch does not contain; "" if it is complete."""
    old, new = _git_mode(change.before), _git_mode(change.after)
    if _is_refused(change, path):
        return "git refuses this path"
    if (change.after and new is None) or (change.after is None and old is None):
        return f"{change.kind} {change.type}"
    has_bytes = change.kind is not ChangeKind.METADATA
    if has_bytes and any(mode and data is None for mode, data in ((old, before), (new, after))):
        return "its content is too large or unknown"
    if change.before is None or change.after is None or old != new or old == "120000":
        return ""
    if change.before.mode != change.after.mode:
        return f"mode changed from {change.before.mode:04o} to {change.after.mode:04o}"
    return "attributes" if change.before.attributes != change.after.attributes else ""


def _is_refused(change: Change, path: bytes) -> bool:
    is_link = FileType.SYMLINK in {entry.type for entry in (change.before, change.after) if entry is not None}
    return _REFUSED_PATH.search(path) is not None or (is_link and _REFUSED_LINK.search(path) is not None)


def _git_mode(entry: Entry | None) -> str | None:
    """Return the mode that git records for an entry; None for no entry and for types that git does not record."""
    if entry is None:
        return None
    if entry.type is FileType.SYMLINK:
        return "120000"
    if entry.type is FileType.FILE:
        return "100755" if entry.mode & 0o100 else "100644"
    return None


def _sides(
    paths: tuple[bytes, bytes], modes: tuple[str | None, str | None], data: tuple[bytes | None, bytes | None]
) -> tuple[_PatchSide, _PatchSide]:
    old, new = (quote_path(start + path) for start, path in zip((b"a/", b"b/"), paths, strict=True))
    return _PatchSide(old, modes[0], data[0] or b""), _PatchSide(new, modes[1], data[1] or b"")


def _file_patch(before: _PatchSide, after: _PatchSide, form: PatchFormat) -> bytes:
    is_moved = _without_prefix(before.name) != _without_prefix(after.name)
    head = [*_mode_lines(before.mode, after.mode), *(_rename_lines(before, after) if is_moved else ())]
    is_same = before.data == after.data
    if not is_same or not (before.mode and after.mode):
        head.append(_index_line(before, after, is_sha256=form.is_sha256))
    if is_same:
        return b"".join([_first_line(before, after, is_alone=not is_moved), *head])
    if is_binary(before.data) or is_binary(after.data) or not is_diffable(before.data, after.data):
        return b"".join([_first_line(before, after, is_alone=not is_moved), *head, *_binary(before, after, form)])
    body = b"".join(_hunk_lines(before.data, after.data, with_numbers=form.with_numbers))
    if form.is_exact and has_control_characters(body):
        return b"".join([_first_line(before, after, is_alone=not is_moved), *head, *_binary(before, after, form)])
    names = b"--- %s\n+++ %s\n" % (_terminated_name(before.shown), _terminated_name(after.shown))
    return b"".join([_first_line(before, after, is_alone=False), *head, names, body])


def _first_line(before: _PatchSide, after: _PatchSide, *, is_alone: bool) -> bytes:
    """Return the first line of a patch. If it alone has the names, a name with a space must be quoted for git to find it."""
    names = [b'"%b"' % name if is_alone and b" " in name and name[:1] != b'"' else name for name in (before.name, after.name)]
    return b"diff --git %s %s\n" % tuple(names)


def _patch_without_content(path: bytes, modes: tuple[str | None, str | None]) -> bytes:
    """Return a patch, for display, of a change whose content is unknown."""
    before, after = _sides((path, path), modes, (None, None))
    return b"".join([_first_line(before, after, is_alone=False), *_mode_lines(*modes), *_binary(before, after, DISPLAY_FORMAT)])


def _binary(before: _PatchSide, after: _PatchSide, form: PatchFormat) -> Iterable[bytes]:
    if form.is_exact:
        return format_binary_patch(before.data, after.data)
    return (b"Binary files %s and %s differ\n" % (before.shown, after.shown),)


def _mode_lines(old: str | None, new: str | None) -> list[bytes]:
    if old is None:
        return [f"new file mode {new}\n".encode()]
    if new is None:
        return [f"deleted file mode {old}\n".encode()]
    return [f"old mode {old}\n".encode(), f"new mode {new}\n".encode()] if old != new else []


def _rename_lines(before: _PatchSide, after: _PatchSide) -> list[bytes]:
    percent = 100 if before.data == after.data else _similarity(before.data, after.data)
    rows = (b"rename from %s\n", before.name), (b"rename to %s\n", after.name)
    return [b"similarity index %d%%\n" % percent, *(text % _without_prefix(name) for text, name in rows)]


def _similarity(before: bytes, after: bytes) -> int:
    """Return the percentage of the larger text that both texts share; at most 99."""
    deleted = added = 0
    for line in _hunk_lines(before, after) if is_diffable(before, after) else ():
        deleted += len(line) - 1 if line.startswith(b"-") else 0
        added += len(line) - 1 if line.startswith(b"+") else 0
    largest = max(len(before), len(after), 1)
    return max(0, min(99, 100 * (largest - max(deleted, added)) // largest))


def _without_prefix(name: bytes) -> bytes:
    """Return a name without its a/ or b/, quoted if it was quoted."""
    return b'"' + name[3:] if name.startswith(b'"') else name[2:]


def _index_line(before: _PatchSide, after: _PatchSide, *, is_sha256: bool) -> bytes:
    zero = "0" * (64 if is_sha256 else 40)
    old, new = (blob_id(side.data, is_sha256=is_sha256) if side.mode else zero for side in (before, after))
    mode = f" {after.mode}" if before.mode == after.mode else ""
    return f"index {old}..{new}{mode}\n".encode()


def _hunk_lines(before: bytes, after: bytes, *, with_numbers: bool = False) -> Iterator[bytes]:
    old, new = split_lines(before), split_lines(after)
    number = 1
    for hunk in find_context_hunks(before, after):
        last = number + len(hunk.hunks) - 1
        name = f" hunk {number}" if last == number else f" hunks {number}-{last}"
        yield hunk.header.encode() + (name.encode() if with_numbers else b"") + b"\n"
        number = last + 1
        position = hunk.old_start
        for block in hunk.hunks:
            yield from _prefixed_lines(b" ", old[position : block.old_start])
            yield from _prefixed_lines(b"-", old[block.old_start : block.old_end])
            yield from _prefixed_lines(b"+", new[block.new_start : block.new_end])
            position = block.old_end
        yield from _prefixed_lines(b" ", old[position : hunk.old_start + hunk.old_lines])


def _prefixed_lines(sign: bytes, lines_to_write: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines_to_write:
        yield sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"


_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


def quote_path(path: bytes) -> bytes:
    """Return a path as git writes it (quote.c, core.quotePath on): double-quoted and with octal escapes if needed."""
    if all(0x20 <= byte < 0x7F and byte not in _ESCAPES for byte in path):
        return path
    escaped = (_ESCAPES.get(byte) or (bytes((byte,)) if 0x20 <= byte < 0x7F else b"\\%03o" % byte) for byte in path)
    return b'"' + b"".join(escaped) + b'"'


def _terminated_name(name: bytes) -> bytes:
    """Return a name for a `---` or `+++` line: after a name with a space git puts a tab to mark its end."""
    return name + b"\t" if b" " in name else name
