"""Text in terminal cells: nothing that could move a cursor gets through, and a width asked for is the width returned."""

import unicodedata

from rich.cells import cell_len, get_character_cell_size

from agent_dev.sanitize import visible

MARKS = 2  # as many combining marks are drawn on one character; more are shown by their numbers
CUT = "…"
_BASE = "\u25cc"  # a dotted circle carries a mark that has nothing before it

# Terminals do not agree how wide these are, alone or beside each other: regional indicators, skin tones.
_UNSTEADY = ((0x1F1E6, 0x1F1FF), (0x1F3FB, 0x1F3FF))
_NAMELESS = {"Cn", "Co", "Cf", "Mc"}  # unknown here, private, formats, and marks that some terminals give a cell

_steady: dict[str, bool] = {}


def width(text: str) -> int:
    """Return how many cells cleaned text takes."""
    return cell_len(text)


def clean(text: str | bytes, tab: str = "\u2409") -> str:
    """Return text whose width all terminals agree on and that does nothing but stand there; cleaning twice is once."""
    shown = visible(text, tab)
    if shown.isascii():
        return shown
    pieces: list[str] = []
    marks = MARKS  # a mark at the very start has nothing to stand on
    for character in shown:
        if _is_mark(character):
            if not pieces:
                pieces.append(_BASE)
                marks = 0
            marks += 1
            pieces.append(character if marks <= MARKS else _number(character))
        else:
            marks = 0
            pieces.append(character if _is_steady(character) else _number(character))
    return "".join(pieces)


def _number(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def _is_mark(character: str) -> bool:
    return character > "\u02ff" and unicodedata.category(character) in ("Mn", "Me")


def _is_steady(character: str) -> bool:
    known = _steady.get(character)
    if known is None:
        known = _steady[character] = _judge(character)
    return known


def _judge(character: str) -> bool:
    code = ord(character)
    if any(first <= code <= last for first, last in _UNSTEADY):
        return False
    return unicodedata.category(character) not in _NAMELESS and get_character_cell_size(character) > 0


def crop(text: str, cells: int) -> str:
    """Return as much from the start of cleaned text as fits, with a sign where it was cut."""
    if cells <= 0:
        return ""
    return text if _fits(text, cells) else _head(text, cells - 1) + CUT


def crop_words(text: str, cells: int) -> str:
    """Return as many whole words from the start of cleaned text as fit, with a sign where it was cut; of one word its start."""
    cut = crop(text, cells)
    if cut == text or text[len(cut) - 1 :].startswith(" "):
        return cut
    return cut.rpartition(" ")[0] + CUT if " " in cut.strip() else cut


def crop_start(text: str, cells: int) -> str:
    """Return as much from the end of cleaned text as fits: of a path the file's name tells the most."""
    if cells <= 0:
        return ""
    if _fits(text, cells):
        return text
    room, at = cells - 1, len(text)
    while at:
        needed = get_character_cell_size(text[at - 1])
        if needed > room:
            break
        room -= needed
        at -= 1
    while at < len(text) and _is_mark(text[at]):
        at += 1
    return CUT + text[at:]


def _fits(text: str, cells: int) -> bool:
    # No cleaned character but a mark is narrower than a cell, and marks are few.
    return len(text) <= cells * (MARKS + 1) and cell_len(text) <= cells


def _head(text: str, cells: int) -> str:
    room = cells
    for at, character in enumerate(text):
        room -= get_character_cell_size(character)
        if room < 0:
            return text[:at]
    return text


def wrap(text: str, cells: int) -> list[str]:
    """Break cleaned text into lines that fit, at blanks where there are any."""
    found, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_len(longer) <= cells:
            line = longer
            continue
        if line:
            found.append(line)
        line = word
        while cell_len(line) > cells:
            head = _head(line, max(cells, 2))
            found.append(head)
            line = line[len(head) :]
    return [*found, line]
