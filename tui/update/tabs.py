"""The entries of the tabs beside the changes: what is told of one, and which is the next that is looked for."""

from collections.abc import Callable

from tui.model.document import Row, RowKind, Tone
from tui.model.tabs import Entry
from tui.state import State
from tui.text.cells import clean, wrap


def told(entry: Entry, cells: int) -> tuple[Row, ...]:
    """Return the whole of an entry's line, which the list may cut, and what is known of it."""
    head = [Row(RowKind.WORDS, Tone.STRONG, part) for part in wrap(clean(entry.line), cells)]
    return (*head, *(Row(RowKind.WORDS, text=part) for text in entry.about for part in wrap(clean(text), cells) or ("",)))


def risky(state: State, by: int) -> int | None:
    """Return the row of the next entry that wants a look, or the previous one, once around."""
    return _next(state, by, lambda entry: entry.is_risky)


def holding(state: State, by: int) -> int | None:
    """Return the row of the next entry of which something holds what is searched, or the previous one, once around."""
    return _next(state, by, lambda entry: any(matches(text, state.search) for text in (entry.line, *entry.about)))


def _next(state: State, by: int, is_wanted: Callable[[Entry], bool]) -> int | None:
    entries = state.tabs[state.tab]
    order = [*range(state.cursor + 1, len(entries)), *range(state.cursor + 1)]
    if by < 0:
        order = [*range(state.cursor - 1, -1, -1), *range(len(entries) - 1, state.cursor - 1, -1)]
    return next((row for row in order if is_wanted(entries[row])), None)


def matches(text: str | bytes, needle: str) -> bool:
    """Whether a text holds what is searched."""
    if isinstance(text, bytes):
        if needle.isascii():
            return needle.encode().lower() in text.lower()
        text = text.decode("utf-8", "surrogateescape")
    return needle.casefold() in text.casefold()
