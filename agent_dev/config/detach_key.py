"""The key that detaches a session from the terminal: two keys in a row, such as `ctrl-a d`."""

from agent_dev.value import Value

_WITH_CTRL = "abcdefghijklmnopqrstuvwxyz\\]^_"


class TerminalKey(Value):
    """A key: its character, in lower case with Ctrl; whether Ctrl is held; whether it is released."""

    character: str
    has_ctrl: bool = False
    is_release: bool = False


def parse_detach_key(text: str) -> tuple[TerminalKey, TerminalKey]:
    """Return the two keys that a text such as `ctrl-a d` names. Raises ValueError."""
    words = text.split()
    if len(words) != 2:
        raise ValueError("expected two keys, such as ctrl-a d")
    first, second = map(_parse_key, words)
    if not first.has_ctrl:
        raise ValueError("the first key must be a ctrl key, such as ctrl-a d")
    return first, second


def _parse_key(word: str) -> TerminalKey:
    name = word.lower().removeprefix("ctrl-")
    has_ctrl = name != word.lower()
    character = name if has_ctrl else word
    if len(character) != 1 or not character.isascii() or not character.isprintable():
        raise ValueError(f"{word} is not a key such as ctrl-a or d")
    if has_ctrl and character not in _WITH_CTRL:
        raise ValueError(f"{word}: terminals have no such key")
    return TerminalKey(character, has_ctrl)
