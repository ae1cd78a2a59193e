"""Text in terminal cells: control characters are made visible, and text is cut or wrapped to exact widths."""

import unicodedata

from rich.cells import cell_len, get_character_cell_size

from agent_dev.sanitize import visible

MAX_MARKS = 2  # combining marks drawn on one character; the rest are shown as code points
ELLIPSIS = "…"
_BASE = "\u25cc"  # dotted circle, the base of a mark without one
# Regional indicators and skin tones: terminals disagree about their width.
_AMBIGUOUS = ((0x1F1E6, 0x1F1FF), (0x1F3FB, 0x1F3FF))
_AMBIGUOUS_CATEGORIES = {"Cn", "Co", "Cf", "Mc"}  # unassigned, private, formats, marks that take a cell in some terminals

_fixed_width: dict[str, bool] = {}


def width(text: str) -> int:
    """Return the width of cleaned text in cells."""
    return len(text) if text.isascii() else cell_len(text)


def clean_text(text: str | bytes, tab: str = "\u2409") -> str:
    """Return printable text that has the same width in all terminals. Idempotent."""
    if isinstance(text, str) and text.isascii() and text.isprintable():
        return text  # nearly always: a screen has a thousand pieces
    shown = visible(text, tab)
    if shown.isascii():
        return shown
    pieces: list[str] = []
    marks = MAX_MARKS  # a mark at the start has no base
    for character in shown:
        if _is_mark(character):
            if not pieces:
                pieces.append(_BASE)
                marks = 0
            marks += 1
            pieces.append(character if marks <= MAX_MARKS else _code_point(character))
        else:
            marks = 0
            pieces.append(character if _has_fixed_width(character) else _code_point(character))
    return "".join(pieces)


def _code_point(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def _is_mark(character: str) -> bool:
    return character > "\u02ff" and unicodedata.category(character) in ("Mn", "Me")


def _has_fixed_width(character: str) -> bool:
    known = _fixed_width.get(character)
    if known is None:
        known = _fixed_width[character] = _find_fixed_width(character)
    return known


def _find_fixed_width(character: str) -> bool:
    code = ord(character)
    if any(first <= code <= last for first, last in _AMBIGUOUS):
        return False
    return unicodedata.category(character) not in _AMBIGUOUS_CATEGORIES and get_character_cell_size(character) > 0


def crop(text: str, cells: int) -> str:
    """Cut cleaned text at its end to a width, with an ellipsis."""
    if cells <= 0:
        return ""
    return text if _fits(text, cells) else prefix(text, cells - 1) + ELLIPSIS


def crop_words(text: str, cells: int) -> str:
    """Cut cleaned text after a whole word to a width, with an ellipsis; a single word is cut like `crop`."""
    cut = crop(text, cells)
    if cut == text or text[len(cut) - 1 :].startswith(" "):
        return cut
    return cut.rpartition(" ")[0] + ELLIPSIS if " " in cut.strip() else cut


def crop_start(text: str, cells: int) -> str:
    """Cut cleaned text at its start to a width, with an ellipsis, since the file name is the most important part of a path."""
    if cells <= 0:
        return ""
    if _fits(text, cells):
        return text
    free, start = cells - 1, len(text)
    while start:
        needed = get_character_cell_size(text[start - 1])
        if needed > free:
            break
        free -= needed
        start -= 1
    while start < len(text) and _is_mark(text[start]):
        start += 1
    return ELLIPSIS + text[start:]


def _fits(text: str, cells: int) -> bool:
    if text.isascii():
        return len(text) <= cells
    # The first test is cheap: only marks are narrower than a cell, and their number is limited.
    return len(text) <= cells * (MAX_MARKS + 1) and cell_len(text) <= cells


def prefix(text: str, cells: int) -> str:
    """Return as much of cleaned text as fits, without an ellipsis and without reading the rest."""
    free = cells
    for index, character in enumerate(text):
        free -= get_character_cell_size(character)
        if free < 0:
            return text[:index]
    return text


def wrap(text: str, cells: int) -> list[str]:
    """Wrap cleaned text to a width, at spaces where possible."""
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_len(longer) <= cells:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while cell_len(line) > cells:
            head = prefix(line, max(cells, 2))
            lines.append(head)
            line = line[len(head) :]
    return [*lines, line]
