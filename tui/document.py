"""A change as the rows of the diff pane: what happened in words, then the lines, unified."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent_dev.core import blocks
from agent_dev.core.blocks import Hunk
from agent_dev.core.changes import Change, Entry, FileType, Key, Kind
from tui import words
from tui.cells import clean, wrap
from tui.rows import Group


class Tone(StrEnum):
    """How a piece of text is meant; the style sheet says how it looks."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    HUNK = "hunk"
    RISK = "risk"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Line:
    """One row: `number` counts from 1 in the file that the line is of; None for words of ours."""

    tone: Tone
    text: str | bytes
    sign: str = " "
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """All rows of one change. `starts` are the rows where blocks start, `longest` bounds the width of its lines."""

    key: Key | None
    lines: tuple[Line, ...]
    starts: tuple[int, ...] = ()
    longest: int = 0


_SIGNS = {Tone.PLAIN: " ", Tone.ADDED: "+", Tone.REMOVED: "-"}
TAB = 4  # cells between tab stops
_FOLLOWING = 1000  # names that are listed for a directory


def notes(change: Change, names: Sequence[str], cells: int) -> tuple[Line, ...]:
    """Return what can be said about a change without reading it, broken at a width. `names` are of what it needs."""
    first = [words.kind(change), words.lines(change.insertions, change.deletions), "ignored by git" if change.ignored else ""]
    found = [Line(Tone.DIM, " · ".join(filter(None, first)))]
    if change.obstacle or change.conflict:
        found.append(Line(Tone.WRONG, f"{words.BLOCKED} cannot be merged: {change.obstacle or change.conflict}"))
    if change.conflict:
        found.append(Line(Tone.DIM, "yours stays as it is; agent-dev merge --resolve settles it"))
    if change.is_merged:
        found.append(Line(Tone.CHANGED, "you changed it too: both fit together, and what lands has both"))
    found += [Line(Tone.RISK, f"{words.RISK} {risk.why} ({risk.rule})") for risk in change.risks]
    if said := words.mode(change):
        found.append(Line(Tone.CHANGED, said))
    found += [Line(Tone.CHANGED, said) for said in words.attributes(change)]
    if names:
        found.append(Line(Tone.DIM, f"is taken together with {', '.join(names)}"))
    wrapped = (Line(line.tone, part) for line in found for part in wrap(clean(line.text), cells))
    return (*wrapped, Line(Tone.PLAIN, ""))


def document(change: Change, top: tuple[Line, ...], before: bytes | None, after: bytes | None) -> Document:
    """Return all rows of a change, from both sides' bytes."""
    missing = _missing(change, before, after)
    if missing:
        return Document(change.key, (*top, Line(Tone.DIM, missing)))
    old, new = before or b"", after or b""
    if any(side is not None and blocks.is_binary(side) for side in (before, after)):
        return Document(change.key, (*top, Line(Tone.DIM, f"binary · {words.sizes(change)}")))
    if old == new:
        return Document(change.key, (*top, Line(Tone.DIM, _nothing(change))))
    body, starts = _body(old, new, is_link=_is(change.after or change.before, FileType.SYMLINK))
    longest = max((_bound(line.text) for line in body), default=0)
    return Document(change.key, (*top, *body), tuple(len(top) + start for start in starts), longest)


def failed(change: Change, top: tuple[Line, ...], why: str) -> Document:
    """Return the rows of a change that could not be read."""
    return Document(change.key, (*top, Line(Tone.WRONG, f"{words.BLOCKED} cannot be read: {why}")))


def _bound(text: str | bytes) -> int:
    """Return a number of cells that a line does not exceed: no byte shows as more than four, but a tab."""
    if isinstance(text, bytes) and not text.isascii():
        return 4 * len(text) + TAB * text.count(b"\t")
    tabs = text.count(b"\t") if isinstance(text, bytes) else 0
    return len(text) + (TAB - 1) * tabs


def _is(entry: Entry | None, wanted: FileType) -> bool:
    return entry is not None and entry.type is wanted


def _missing(change: Change, before: bytes | None, after: bytes | None) -> str:
    """Return why lines cannot be compared; empty when they can."""
    if change.kind is Kind.METADATA:
        return "its content is as it was" if _is(change.after, FileType.FILE) else ""
    unread = [
        entry for entry, side in ((change.before, before), (change.after, after)) if side is None and _is(entry, FileType.FILE)
    ]
    if any(entry and entry.size > blocks.LARGEST for entry in unread):
        return f"{words.sizes(change)} · past {blocks.LARGEST >> 20} MB a file is one choice, its lines are not shown"
    return "what stood here before is not known, so there is nothing to compare" if unread else ""


def _nothing(change: Change) -> str:
    if _is(change.after or change.before, FileType.FILE):
        return "an empty file"
    return ""


def _body(before: bytes, after: bytes, *, is_link: bool) -> tuple[list[Line], list[int]]:
    found: list[Line] = []
    starts: list[int] = []
    old, new = blocks.lines(before), blocks.lines(after)
    hunks = list(blocks.unified(before, after))
    is_whole = len(hunks) == 1 and not (before and after)
    for hunk in hunks:
        if not is_whole and not is_link:
            found.append(Line(Tone.HUNK, hunk.header))
        starts.extend(len(found) + offset for offset in _offsets(hunk))
        found.extend(_hunk(hunk, old, new, "→ " if is_link else ""))
    return found, starts


def _offsets(hunk: Hunk) -> Iterator[int]:
    """Yield where each block starts among the rows of its hunk."""
    grown = 0
    for block in hunk.blocks:
        yield block.old_start - hunk.old_start + grown
        grown += block.new_lines


def _hunk(hunk: Hunk, old: list[bytes], new: list[bytes], lead: str) -> Iterator[Line]:
    at, shift = hunk.old_start, hunk.new_start - hunk.old_start
    for block in hunk.blocks:
        yield from _run(Tone.PLAIN, old[at : block.old_start], at + shift, lead)
        yield from _run(Tone.REMOVED, old[block.old_start : block.old_end], block.old_start, lead)
        yield from _run(Tone.ADDED, new[block.new_start : block.new_end], block.new_start, lead)
        at, shift = block.old_end, block.new_end - block.old_end
    yield from _run(Tone.PLAIN, old[at : hunk.old_start + hunk.old_lines], at + shift, lead)


def _run(tone: Tone, some: list[bytes], start: int, lead: str) -> Iterator[Line]:
    for number, line in enumerate(some, start + 1):
        ends = line.endswith(b"\n")
        text = line[:-1] if ends else line
        yield Line(tone, lead.encode() + text, _SIGNS[tone], None if lead else number)
        if not ends and not lead:
            yield Line(Tone.DIM, "no newline at the end", "\\")


def overview(group: Group) -> Document:
    """Return what stands below a heading."""
    if group.is_ignored:
        head = [Line(Tone.DIM, "files that git ignores: build results, downloads, caches"), Line(Tone.PLAIN, "")]
    else:
        head = [Line(Tone.DIM, words.number(len(group.changes), "change")), Line(Tone.PLAIN, "")]
    rows = [Line(Tone.PLAIN, f"{words.SIGNS[one.kind]} {words.text(one.key.path)}") for one in group.changes[:_FOLLOWING]]
    more = len(group.changes) - len(rows)
    return Document(None, (*head, *rows, *([Line(Tone.DIM, f"and {more:,} more")] if more else [])))
