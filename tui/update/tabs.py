"""Entries of the tabs other than Changes: their details, and searches among them."""

import re
from collections.abc import Callable

from tui.model.document import DiffRow, Document, RowKind, Tone
from tui.model.tabs import TabEntry
from tui.state import State
from tui.text.cells import clean_text, prefix, wrap

_BOX = 4  # cells of a checkbox and the blank after it
_FILE = "diff --git "  # begins a file of a patch
_OBJECT_IDS = re.compile(r"^index ([0-9a-f]{7,64})\.\.([0-9a-f]{7,64})")
_SHORT = 10


def entry_document(entry: TabEntry, cells: int, *, is_selected: bool) -> Document:
    """Return the full line of an entry, which the list may cut, and its details; for a commit, also a checkbox and its patch."""
    first, *more = wrap(clean_text(entry.title), cells - _BOX if entry.id else cells)
    rows = [DiffRow(RowKind.HEADING, Tone.STRONG, first, is_applied=is_selected if entry.id else None)]
    rows += [DiffRow(RowKind.TEXT, Tone.STRONG, " " * (_BOX if entry.id else 0) + part) for part in more]
    files: list[int] = []
    is_patch = is_header = False
    for text in entry.details:
        if text.startswith(_FILE):
            is_patch = is_header = True
            files.append(len(rows))
        elif is_patch and text.startswith("@@"):
            is_header = False
        tone = _patch_tone(text, is_header=is_header) if is_patch else Tone.PLAIN
        shown = _OBJECT_IDS.sub(_shortened, text) if is_header else text
        parts = _lines(clean_text(shown), cells) if is_patch else wrap(clean_text(shown), cells)
        rows += [DiffRow(RowKind.TEXT, tone, part) for part in parts or ("",)]
    return Document(None, tuple(rows), tuple(files))


def _lines(text: str, cells: int) -> list[str]:
    """Return a line of a patch in parts of a width, with all its blanks."""
    parts = []
    while text:
        parts.append(prefix(text, max(cells, 2)))
        text = text[len(parts[-1]) :]
    return parts


def _shortened(match: "re.Match[str]") -> str:
    return f"index {match[1][:_SHORT]}..{match[2][:_SHORT]}"


def _patch_tone(text: str, *, is_header: bool) -> Tone:
    if text.startswith(_FILE):
        return Tone.STRONG
    if is_header:
        return Tone.DIM
    return {"@": Tone.HEADING, "+": Tone.ADDED, "-": Tone.REMOVED}.get(text[:1], Tone.PLAIN)


def next_risky_row(state: State, by: int) -> int | None:
    """Return the row of the next or previous risky entry, with wrap-around."""
    return _next(state, by, lambda entry: entry.is_risky)


def next_match_row(state: State, by: int) -> int | None:
    """Return the row of the next or previous entry that contains the searched text, with wrap-around."""
    return _next(state, by, lambda entry: any(contains_text(text, state.search) for text in (entry.title, *entry.details)))


def _next(state: State, by: int, predicate: Callable[[TabEntry], bool]) -> int | None:
    entries = state.tabs[state.tab]
    order = [*range(state.cursor + 1, len(entries)), *range(state.cursor + 1)]
    if by < 0:
        order = [*range(state.cursor - 1, -1, -1), *range(len(entries) - 1, state.cursor - 1, -1)]
    return next((row for row in order if predicate(entries[row])), None)


def contains_text(text: str | bytes, needle: str) -> bool:
    """Return whether a text contains the searched text, ignoring case."""
    if isinstance(text, bytes):
        if needle.isascii():
            return needle.encode().lower() in text.lower()
        text = text.decode("utf-8", "surrogateescape")
    return needle.casefold() in text.casefold()
