"""Entries of the tabs other than Changes: their details, and searches among them."""

from collections.abc import Callable

from tui.model.document import DiffRow, RowKind, Tone
from tui.model.tabs import TabEntry
from tui.state import State
from tui.text.cells import clean_text, wrap


def entry_rows(entry: TabEntry, cells: int) -> tuple[DiffRow, ...]:
    """Return the full line of an entry, which the list may cut, and its details."""
    head = [DiffRow(RowKind.TEXT, Tone.STRONG, part) for part in wrap(clean_text(entry.title), cells)]
    return (
        *head,
        *(DiffRow(RowKind.TEXT, text=part) for text in entry.details for part in wrap(clean_text(text), cells) or ("",)),
    )


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
