"""Keys as a person reads them, always taken from the bindings, so that a rebound key is shown as it is."""

from collections.abc import Sequence
from typing import Any

from textual.screen import Screen

from tui.model.document import Tone
from tui.text.cells import width
from tui.widgets.paint import Piece

_NAMES = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "escape": "esc",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "slash": "/",
    "colon": ":",
    "asterisk": "*",
    "exclamation_mark": "!",
    "number_sign": "#",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
}

Keys = dict[str, tuple[str, ...]]


def keys(screen: Screen[Any]) -> Keys:
    """Return the keys of each binding, by its id, as they are shown."""
    found: Keys = {}
    for key, active in screen.active_bindings.items():
        name = active.binding.id
        if name:
            found[name] = (*found.get(name, ()), shown(key))
    return found


def meanings(screen: Screen[Any]) -> dict[str, str]:
    """Return what each binding does, by its id."""
    return {active.binding.id: active.binding.description for active in screen.active_bindings.values() if active.binding.id}


def shown(key: str) -> str:
    """Return a key's name."""
    *modifiers, last = key.split("+")
    return "+".join([*modifiers, _NAMES.get(last, last)])


def hints(some: Sequence[tuple[str, str]], known: Keys, cells: int) -> list[Piece]:
    """Return as many hints as fit, each a binding's first key and what it does; the first ones are the important ones."""
    pieces: list[Piece] = []
    room = cells
    for name, meaning in some:
        key = " ".join(known[one][0] for one in name.split() if one in known)
        needed = width(key) + width(meaning) + 3
        if key and needed <= room:
            pieces += [Piece(f" {key}", "accent"), Piece(f" {meaning} ", Tone.DIM)]
            room -= needed
    return pieces
