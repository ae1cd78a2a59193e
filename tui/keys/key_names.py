"""Display names of keys, from the active bindings, so that a rebound key is shown."""

from collections.abc import Sequence
from typing import Any

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character
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
    "plus": "+",
}

_MODIFIERS = {"alt", "ctrl", "hyper", "meta", "shift", "super"}
_KEYS = {*(key.value for key in Keys), *KEY_NAME_REPLACEMENTS.values()}
KeysByBinding = dict[str, tuple[str, ...]]


def keys_by_binding(screen: Screen[Any]) -> KeysByBinding:
    """Return the display names of each binding's keys, by binding id."""
    names: KeysByBinding = {}
    for key, active in screen.active_bindings.items():
        name = active.binding.id
        if name:
            names[name] = (*names.get(name, ()), key_name(key))
    return names


def descriptions_by_binding(screen: Screen[Any]) -> dict[str, str]:
    """Return the description of each binding, by binding id."""
    return {active.binding.id: active.binding.description for active in screen.active_bindings.values() if active.binding.id}


def is_key(text: str) -> bool:
    """Return whether a text is a key as Textual names it, such as `ctrl+s`, `f2` or `question_mark`, or a character."""
    *modifiers, last = text.split("+")
    return len(text) == 1 or ({*modifiers} <= _MODIFIERS and (last in _KEYS or key_to_character(last) is not None))


def split_keys(text: str) -> tuple[str, ...]:
    """Return the display names of the keys in a list separated by commas: `?` is the same key as `question_mark`."""
    return tuple(key_name(key.strip()) for key in text.split(","))


def key_name(key: str) -> str:
    """Return the display name of a key."""
    *modifiers, last = key.split("+")
    return "+".join([*modifiers, _NAMES.get(last, last)])


def clicked_binding(pieces: Sequence[Piece], index: int, key_names: KeysByBinding) -> str:
    """Return the binding of a clicked hint, which consists of a key and a label; "" for none."""
    key = pieces[index - index % 2].text.strip()
    return next((name for name, keys in key_names.items() if keys[0] == key), "")


def hint_pieces(labels: Sequence[tuple[str, str]], key_names: KeysByBinding, cells: int) -> list[Piece]:
    """Return the first hints that fit: the first key of each binding, and a label."""
    pieces: list[Piece] = []
    free = cells
    for name, label in labels:
        key = " ".join(key_names[one][0] for one in name.split() if one in key_names)
        needed = width(key) + width(label) + 3
        if key and needed <= free:
            pieces += [Piece(f" {key}", "accent"), Piece(f" {label} ", Tone.DIM)]
            free -= needed
    return pieces
