"""A change as a document: header rows, the selectable parts, then the diff, unified or side by side."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from agent_dev.diff import hunks
from agent_dev.diff.binary import is_binary
from agent_dev.diff.hunks import BareHunk, ContextHunk
from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay.changes import Change, ChangeKind, has_selectable_mode
from agent_dev.overlay.labels import BLOCKED_SIGN, RISK_SIGN, SIGNS, describe_block, format_count, path_text
from tui.model import file_type
from tui.model.change_list import Section
from tui.model.document import TAB_WIDTH, ChangePart, DiffOptions, DiffRow, Document, RowKind, Tone
from tui.model.wrapping import wrap_rows
from tui.text import labels
from tui.text.cells import clean_text, width, wrap

MAX_LISTED_NAMES = 1000  # names listed for a heading
_TITLE_CELLS = 36  # of the title next to the path


def header_rows(change: Change, names: Sequence[str], cells: int, outcome: str = "", path: str = "") -> tuple[DiffRow, ...]:
    """Return the header rows of a change, wrapped to a width. They do not depend on its content.

    `names` are the changes that it requires, `outcome` is the outcome of its merge with yours. `path` is only shown if the title,
    which also has a position and a state, cuts it.
    """
    first = [labels.describe_kind(change), "ignored by git" if change.is_ignored else ""]
    shown, paths = clean_text(path), list[DiffRow]()
    if width(shown) > cells - _TITLE_CELLS:
        paths = [DiffRow(RowKind.TEXT, Tone.STRONG, part, is_path=True) for part in wrap(shown, cells)]
    lines = [(Tone.DIM, " · ".join(filter(None, first)))]
    if change.obstacle or change.conflict:
        lines.append((Tone.ERROR, f"{BLOCKED_SIGN} {describe_block(change)}"))
    if outcome:
        lines.append((Tone.CHANGED, outcome))
    lines += [(Tone.RISK, f"{RISK_SIGN} {risk.why} ({risk.rule})") for risk in change.risks]
    if names:
        lines.append((Tone.DIM, f"requires {', '.join(names)}"))
    return (*paths, *(DiffRow(RowKind.TEXT, tone, part) for tone, line in lines for part in wrap(clean_text(line), cells)))


def part_rows(change: Change, *, has_lines: bool) -> tuple[DiffRow, ...]:
    """Return the rows that select parts of a change other than lines: creation or deletion, a link's target, the mode."""
    texts = [*filter(None, (labels.describe_mode(change),)), *labels.describe_attributes(change)]
    modes = tuple(_part(ChangePart.MODE, text) for text in texts)
    if has_lines and change.kind in (ChangeKind.EDITED, ChangeKind.RENAMED):
        return modes
    whole = labels.describe_effect(change)
    if has_lines:
        return (_part(ChangePart.WHOLE, whole), *(modes if has_selectable_mode(change) else ()))
    return (_part(ChangePart.WHOLE, ", ".join((whole, *texts))),)


def _part(part: ChangePart, text: str) -> DiffRow:
    return DiffRow(RowKind.PART, Tone.CHANGED, text, part=part)


def diff_document(
    change: Change, header: tuple[DiffRow, ...], sides: tuple[bytes | None, bytes | None], look: DiffOptions
) -> Document:
    """Return the document of a change, given both sides' contents."""
    reason = _no_diff_reason(change, *sides)
    has_lines = not reason and change.type is FileType.FILE and change.kind is not ChangeKind.RETYPED
    head = (*header, *(part_rows(change, has_lines=has_lines) if change.is_clean else ()), DiffRow(RowKind.TEXT))
    if reason:
        return Document(change.key, (*head, *_dim_rows(reason, look.columns)), options=look)
    return _lines(change, head, sides, look)


def _dim_rows(text: str, cells: int) -> Iterator[DiffRow]:
    for paragraph in text.split("\n"):
        yield from (DiffRow(RowKind.TEXT, Tone.DIM, part) for part in wrap(clean_text(paragraph), cells))


def _lines(change: Change, head: tuple[DiffRow, ...], sides: tuple[bytes | None, bytes | None], look: DiffOptions) -> Document:
    before, after = sides[0] or b"", sides[1] or b""
    old, new = tuple(hunks.split_lines(before)), tuple(hunks.split_lines(after))
    blocks = hunks.find_hunks(before, after)
    is_link = change.type is not FileType.FILE or change.kind is ChangeKind.RETYPED
    body = tuple(_body(old, new, blocks, look, has_headings=not is_link and bool(before and after)))
    rows = wrap_rows((*head, *body), old, new, look)
    starts: dict[int, int] = {}
    for at, row in enumerate(rows):
        if row.hunk >= 0:
            starts.setdefault(row.hunk, at)
    return Document(
        change.key,
        rows,
        tuple(starts.values()),
        max((_max_width(line) for line in (*old, *new)), default=0),
        old,
        new,
        blocks,
        has_selectable_lines=change.is_clean and not is_link and bool(blocks),
        has_selectable_mode=has_selectable_mode(change),
        options=look,
    )


def error_document(change: Change, header: tuple[DiffRow, ...], reason: str) -> Document:
    """Return the document of a change that could not be read."""
    return Document(change.key, (*header, DiffRow(RowKind.TEXT, Tone.ERROR, f"{BLOCKED_SIGN} cannot be read: {reason}")))


def _max_width(line: bytes) -> int:
    """Return an upper bound of a line's width: a byte takes at most four cells, a tab more."""
    return (1 if line.isascii() else 4) * len(line) + (TAB_WIDTH - 1) * line.count(b"\t")


def _has_type(entry: Entry | None, kind: FileType) -> bool:
    return entry is not None and entry.type is kind


def _no_diff_reason(change: Change, before: bytes | None, after: bytes | None) -> str:
    """Return the text to show instead of a diff; empty if there is a diff."""
    if change.kind is ChangeKind.METADATA or (change.kind is ChangeKind.RENAMED and before is not None and before == after):
        return "content unchanged" if _has_type(change.after, FileType.FILE) else " "
    not_loaded = [
        entry
        for entry, side in ((change.before, before), (change.after, after))
        if side is None and _has_type(entry, FileType.FILE)
    ]
    if any(entry and entry.size > hunks.MAX_DIFF_SIZE for entry in not_loaded):
        return f"{labels.format_sizes(change)} · larger than {hunks.MAX_DIFF_SIZE >> 20} MB: no diff, selected as a whole"
    if not_loaded:
        return "no diff: the base version is not known"
    if any(side is not None and is_binary(side) for side in (before, after)):
        return _describe_binary(before, after)
    if (before or b"") == (after or b""):
        return "empty file" if _has_type(change.after or change.before, FileType.FILE) else " "
    is_diffable = hunks.is_diffable(before or b"", after or b"")
    return "" if is_diffable else f"more than {hunks.MAX_DIFF_LINES:,} lines: no diff, selected as a whole"


def _describe_binary(before: bytes | None, after: bytes | None) -> str:
    """Return type, size and hash of each side."""
    lines = []
    for label, side in (("before", before), ("after", after)):
        if side is not None:
            lines.append(
                f"{label:<7}{file_type.describe_type(side)} · {labels.exact_size(len(side))}"
                f" · sha256 {sha256(side).hexdigest()[:16]}…"
            )
    return "\n".join(lines)


# The body


def _body(
    old: Sequence[bytes], new: Sequence[bytes], blocks: tuple[BareHunk, ...], look: DiffOptions, *, has_headings: bool
) -> Iterator[DiffRow]:
    """Yield the rows of all hunks, with headings unless a whole file was added or deleted."""
    index = 0
    for hunk in hunks.group_hunks(blocks, len(old), look.context):
        if has_headings:
            yield DiffRow(RowKind.HEADING, Tone.HEADING, _header(hunk, old))
        yield from _hunk(hunk, index, old, new, look)
        index += len(hunk.hunks)


def _header(hunk: ContextHunk, old: Sequence[bytes]) -> str:
    """Return the `@@` line with the enclosing definition, found as git does: the last line above that starts with a letter."""
    for number in range(min(hunk.old_start, len(old)) - 1, max(hunk.old_start - 500, 0) - 1, -1):
        line = old[number]
        if line[:1].isalpha() or line[:1] in (b"_", b"$"):
            return f"{hunk.header} {line[:80].decode('utf-8', 'surrogateescape').rstrip()}"
    return hunk.header


def _hunk(hunk: ContextHunk, first: int, old: Sequence[bytes], new: Sequence[bytes], look: DiffOptions) -> Iterator[DiffRow]:
    start, shift = hunk.old_start, hunk.new_start - hunk.old_start
    for index, block in enumerate(hunk.hunks, first):
        yield from _same(start, block.old_start, shift, old)
        if look.hides_whitespace and _is_whitespace_only(block, old, new):
            size = max(block.old_lines, block.new_lines)
            text = f"{format_count(size, 'line')} differ{'s' * (size == 1)} only in whitespace"
            yield DiffRow(RowKind.WHITESPACE, Tone.DIM, text, hunk=index)
        elif look.is_split:
            yield from _side_by_side(block, index, old, new)
        else:
            yield from _unified(block, index, old, new)
        start, shift = block.old_end, block.new_end - block.old_end
    yield from _same(start, hunk.old_start + hunk.old_lines, shift, old)


def _is_whitespace_only(block: BareHunk, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    before, after = old[block.old_start : block.old_end], new[block.new_start : block.new_end]
    return b"".join(b"".join(before).split()) == b"".join(b"".join(after).split())


def _same(start: int, end: int, shift: int, old: Sequence[bytes]) -> Iterator[DiffRow]:
    for number in range(start, end):
        yield DiffRow(RowKind.CONTEXT, old_line=number, new_line=number + shift)
        yield from _no_newline_row(old[number], Tone.DIM)


def _no_newline_row(line: bytes, tone: Tone) -> Iterator[DiffRow]:
    if not line.endswith(b"\n"):
        yield DiffRow(RowKind.TEXT, tone, "\\ No newline at end of file")


def _unified(block: BareHunk, index: int, old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[DiffRow]:
    for number in range(block.old_start, block.old_end):
        yield DiffRow(RowKind.REMOVED, Tone.REMOVED, old_line=number, hunk=index)
        yield from _no_newline_row(old[number], Tone.DIM)
    for number in range(block.new_start, block.new_end):
        yield DiffRow(RowKind.ADDED, Tone.ADDED, new_line=number, hunk=index)
        yield from _no_newline_row(new[number], Tone.DIM)


def _side_by_side(block: BareHunk, index: int, old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[DiffRow]:
    for step in range(max(block.old_lines, block.new_lines)):
        left = block.old_start + step if step < block.old_lines else -1
        right = block.new_start + step if step < block.new_lines else -1
        kind = RowKind.PAIR if left >= 0 and right >= 0 else RowKind.REMOVED if left >= 0 else RowKind.ADDED
        yield DiffRow(kind, old_line=left, new_line=right, hunk=index)
        sides = [lines[number] for lines, number in ((old, left), (new, right)) if number >= 0]
        if not all(line.endswith(b"\n") for line in sides):
            yield DiffRow(RowKind.TEXT, Tone.DIM, "\\ No newline at end of file")


_SECTIONS = {
    Section.RISKY: "review each of these: it can run code later, points outside the repository, or is in conflict",
    Section.RENAMED: "a directory that was renamed, with these files; → lists them, space selects them as one",
    Section.FOLDED: "ignored by git or generated: build results, downloads, caches",
    Section.LOCK_FILES: "lock files of package managers",
}


def heading_document(section: Section, first: Sequence[Change], count: int) -> Document:
    """Return the document of a heading: a description, the number of its changes, and the first names."""
    head = [DiffRow(RowKind.TEXT, Tone.DIM, text) for text in (_SECTIONS.get(section, ""), format_count(count, "change")) if text]
    rows = [DiffRow(RowKind.TEXT, text=f"{SIGNS[one.kind]} {path_text(one.key.path)}") for one in first]
    more = [DiffRow(RowKind.TEXT, Tone.DIM, f"and {count - len(rows):,} more")] if count > len(rows) else []
    return Document(None, (*head, DiffRow(RowKind.TEXT), *rows, *more))
