"""A change as a document: what happened in words, what can be chosen of it, then its lines, below or beside each other."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from agent_dev.diff import hunks as blocks
from agent_dev.diff.hunks import Block, Hunk
from agent_dev.overlay.changes import Change, Entry, FileType, Kind
from tui.model import file_type as media
from tui.model.change_list import Section
from tui.model.document import TAB, Document, Look, Part, Row, RowKind, Tone
from tui.model.wrapping import turned
from tui.text import labels as words
from tui.text.cells import clean, wrap

FOLLOWING = 1000  # names that are listed for a directory


def notes(change: Change, names: Sequence[str], cells: int, renamed: str = "", settled: str = "") -> tuple[Row, ...]:
    """Return what can be said about a change without reading it, broken at a width.

    `names` are of what it needs, `renamed` says where it came from or went, `settled` what becomes of one of both.
    """
    first = [words.kind(change), renamed, "ignored by git" if change.ignored else ""]
    found = [(Tone.DIM, " · ".join(filter(None, first)))]
    if change.obstacle or change.conflict:
        found.append((Tone.WRONG, f"{words.BLOCKED} cannot be merged: {change.obstacle or change.conflict}"))
    if settled:
        found.append((Tone.CHANGED, settled))
    found += [(Tone.RISK, f"{words.RISK} {risk.why} ({risk.rule})") for risk in change.risks]
    if names:
        found.append((Tone.DIM, f"is taken together with {', '.join(names)}"))
    return tuple(Row(RowKind.WORDS, tone, part) for tone, said in found for part in wrap(clean(said), cells))


def parts(change: Change, *, has_lines: bool) -> tuple[Row, ...]:
    """Return the rows that choose a change without its lines: that it comes or goes, where it points, its mode."""
    said = [*filter(None, (words.mode(change),)), *words.attributes(change)]
    modes = tuple(_part(Part.MODE, text) for text in said)
    if has_lines and change.kind is Kind.EDITED:
        return modes
    whole = words.whole(change)
    if has_lines:
        return (_part(Part.WHOLE, whole), *(modes if has_mode(change) else ()))
    return (_part(Part.WHOLE, ", ".join((whole, *said))),)


def _part(part: Part, text: str) -> Row:
    return Row(RowKind.PART, Tone.CHANGED, text, part=part)


def has_mode(change: Change) -> bool:
    """Whether the mode and attributes of a change can be taken or left by themselves."""
    after, before = change.after, change.before
    if change.type is not FileType.FILE or after is None:
        return False
    if change.kind is Kind.ADDED:
        return bool(after.mode & 0o111)
    return (
        change.kind is Kind.EDITED and before is not None and (before.mode, before.attributes) != (after.mode, after.attributes)
    )


def document(change: Change, top: tuple[Row, ...], sides: tuple[bytes | None, bytes | None], look: Look) -> Document:
    """Return all rows of a change, from both sides' bytes."""
    missing = _missing(change, *sides)
    has_lines = not missing and change.type is FileType.FILE and change.kind is not Kind.RETYPED
    head = (*top, *(parts(change, has_lines=has_lines) if change.is_clean else ()), Row(RowKind.WORDS))
    if missing:
        return Document(change.key, (*head, *_said(missing, look.columns)), look=look)
    return _lines(change, head, sides, look)


def _said(text: str, cells: int) -> Iterator[Row]:
    for paragraph in text.split("\n"):
        yield from (Row(RowKind.WORDS, Tone.DIM, part) for part in wrap(clean(paragraph), cells))


def _lines(change: Change, head: tuple[Row, ...], sides: tuple[bytes | None, bytes | None], look: Look) -> Document:
    before, after = sides[0] or b"", sides[1] or b""
    old, new = tuple(blocks.lines(before)), tuple(blocks.lines(after))
    found = blocks.blocks(before, after)
    is_link = change.type is not FileType.FILE or change.kind is Kind.RETYPED
    body = tuple(_body(old, new, found, look, is_bare=is_link or not (before and after)))
    rows = turned((*head, *body), old, new, look)
    starts: dict[int, int] = {}
    for at, row in enumerate(rows):
        if row.block >= 0:
            starts.setdefault(row.block, at)
    return Document(
        change.key,
        rows,
        tuple(starts.values()),
        max((_bound(line) for line in (*old, *new)), default=0),
        old,
        new,
        found,
        has_lines=change.is_clean and not is_link and bool(found),
        has_mode=has_mode(change),
        look=look,
    )


def failed(change: Change, top: tuple[Row, ...], why: str) -> Document:
    """Return the rows of a change that could not be read."""
    return Document(change.key, (*top, Row(RowKind.WORDS, Tone.WRONG, f"{words.BLOCKED} cannot be read: {why}")))


def _bound(line: bytes) -> int:
    """Return a number of cells that a line does not exceed: no byte shows as more than four, but a tab."""
    return (1 if line.isascii() else 4) * len(line) + (TAB - 1) * line.count(b"\t")


def _is(entry: Entry | None, wanted: FileType) -> bool:
    return entry is not None and entry.type is wanted


def _missing(change: Change, before: bytes | None, after: bytes | None) -> str:
    """Return what stands in place of lines; empty when they can be compared."""
    if change.kind is Kind.METADATA:
        return "its content is as it was" if _is(change.after, FileType.FILE) else " "
    unread = [
        entry for entry, side in ((change.before, before), (change.after, after)) if side is None and _is(entry, FileType.FILE)
    ]
    if any(entry and entry.size > blocks.LARGEST for entry in unread):
        return f"{words.sizes(change)} · past {blocks.LARGEST >> 20} MB a file is one choice, its lines are not shown"
    if unread:
        return "what stood here before is not known, so there is nothing to compare"
    if any(side is not None and blocks.is_binary(side) for side in (before, after)):
        return _binary(before, after)
    if (before or b"") == (after or b""):
        return "an empty file" if _is(change.after or change.before, FileType.FILE) else " "
    return ""


def _binary(before: bytes | None, after: bytes | None) -> str:
    """Return type, size and hash of each side."""
    said = []
    for label, side in (("before", before), ("after", after)):
        if side is not None:
            said.append(f"{label:<7}{media.kind(side)} · {words.size(len(side))} · sha256 {sha256(side).hexdigest()[:16]}…")
    return "\n".join(said)


# The body


def _body(old: Sequence[bytes], new: Sequence[bytes], found: tuple[Block, ...], look: Look, *, is_bare: bool) -> Iterator[Row]:
    """Yield the rows of all hunks; `is_bare`: one hunk that needs no heading."""
    index = 0
    for hunk in blocks.grouped(found, len(old), look.context):
        if not is_bare:
            yield Row(RowKind.HUNK, Tone.HUNK, _header(hunk, old))
        yield from _hunk(hunk, index, old, new, look)
        index += len(hunk.blocks)


def _header(hunk: Hunk, old: Sequence[bytes]) -> str:
    """Return the `@@` line with the definition that the hunk lies in, as git guesses it: the last line that starts a word."""
    for number in range(min(hunk.old_start, len(old)) - 1, max(hunk.old_start - 500, 0) - 1, -1):
        line = old[number]
        if line[:1].isalpha() or line[:1] in (b"_", b"$"):
            return f"{hunk.header} {line[:80].decode('utf-8', 'surrogateescape').rstrip()}"
    return hunk.header


def _hunk(hunk: Hunk, first: int, old: Sequence[bytes], new: Sequence[bytes], look: Look) -> Iterator[Row]:
    at, shift = hunk.old_start, hunk.new_start - hunk.old_start
    for index, block in enumerate(hunk.blocks, first):
        yield from _same(at, block.old_start, shift, old)
        if look.is_spaceless and _is_quiet(block, old, new):
            size = max(block.old_lines, block.new_lines)
            text = f"{words.number(size, 'line')} differ{'s' * (size == 1)} only in white space"
            yield Row(RowKind.QUIET, Tone.DIM, text, block=index)
        elif look.is_split:
            yield from _beside(block, index, old, new)
        else:
            yield from _below(block, index, old, new)
        at, shift = block.old_end, block.new_end - block.old_end
    yield from _same(at, hunk.old_start + hunk.old_lines, shift, old)


def _is_quiet(block: Block, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    before, after = old[block.old_start : block.old_end], new[block.new_start : block.new_end]
    return b"".join(b"".join(before).split()) == b"".join(b"".join(after).split())


def _same(start: int, end: int, shift: int, old: Sequence[bytes]) -> Iterator[Row]:
    for number in range(start, end):
        yield Row(RowKind.SAME, old=number, new=number + shift)
        yield from _bare(old[number], Tone.DIM)


def _bare(line: bytes, tone: Tone) -> Iterator[Row]:
    if not line.endswith(b"\n"):
        yield Row(RowKind.WORDS, tone, "\\ no newline at the end")


def _below(block: Block, index: int, old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[Row]:
    for number in range(block.old_start, block.old_end):
        yield Row(RowKind.OLD, Tone.REMOVED, old=number, block=index)
        yield from _bare(old[number], Tone.DIM)
    for number in range(block.new_start, block.new_end):
        yield Row(RowKind.NEW, Tone.ADDED, new=number, block=index)
        yield from _bare(new[number], Tone.DIM)


def _beside(block: Block, index: int, old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[Row]:
    for step in range(max(block.old_lines, block.new_lines)):
        was = block.old_start + step if step < block.old_lines else -1
        now = block.new_start + step if step < block.new_lines else -1
        kind = RowKind.PAIR if was >= 0 and now >= 0 else RowKind.OLD if was >= 0 else RowKind.NEW
        yield Row(kind, old=was, new=now, block=index)
        sides = [lines[number] for lines, number in ((old, was), (new, now)) if number >= 0]
        if not all(line.endswith(b"\n") for line in sides):
            yield Row(RowKind.WORDS, Tone.DIM, "\\ no newline at the end")


_SECTIONS = {
    Section.RISKY: "each of these wants a look of its own: it can run something later, reach outside, or is in conflict",
    Section.FOLDED: "files that git ignores, and what is generated: build results, downloads, caches",
    Section.LOCKS: "what package managers write beside what was asked for",
}


def overview(section: Section, first: Sequence[Change], count: int) -> Document:
    """Return what stands beside a heading: what it holds, the first ones by name."""
    head = [Row(RowKind.WORDS, Tone.DIM, text) for text in (_SECTIONS.get(section, ""), words.number(count, "change")) if text]
    rows = [Row(RowKind.WORDS, text=f"{words.SIGNS[one.kind]} {words.text(one.key.path)}") for one in first]
    more = [Row(RowKind.WORDS, Tone.DIM, f"and {count - len(rows):,} more")] if count > len(rows) else []
    return Document(None, (*head, Row(RowKind.WORDS), *rows, *more))
