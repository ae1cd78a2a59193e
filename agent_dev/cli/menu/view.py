"""The menu's cursor, keys and lines."""

from collections.abc import Iterator, Sequence

from agent_dev.cli.menu.entries import MenuEntry
from agent_dev.quick_dataclass import dataclass
from agent_dev.sanitize import visible

UP, DOWN, ENTER, QUIT = "up", "down", "enter", "quit"
_KEYS = {
    b"\x1b[A": UP,
    b"\x1bOA": UP,
    b"k": UP,
    b"\x1b[B": DOWN,
    b"\x1bOB": DOWN,
    b"j": DOWN,
    b"\r": ENTER,
    b"\n": ENTER,
    b"\x1b": QUIT,
    b"q": QUIT,
    b"\x03": QUIT,
    b"\x04": QUIT,
}
_FOOTER = "↑↓ move   enter run   esc leave"
_BOLD, _DIM, _NORMAL = "\x1b[1m", "\x1b[2m", "\x1b[22m"
_LABEL = 44  # columns of a label, before the command


@dataclass(frozen=True, slots=True)
class Menu:
    """The entries and the cursor; `is_closed`: the user left the menu. `selected`: the entry to run."""

    entries: tuple[MenuEntry, ...]
    cursor: int = 0
    is_closed: bool = False
    selected: MenuEntry | None = None


def press(menu: Menu, data: bytes) -> Menu:
    """Return the menu after some input; input after the menu was closed is dropped."""
    for key in _split(data):
        menu = _press_one(menu, key)
        if menu.is_closed:
            break
    return menu


def _press_one(menu: Menu, key: bytes) -> Menu:
    entries, cursor = menu.entries, menu.cursor
    match _KEYS.get(key):
        case "up":
            return Menu(entries, max(0, cursor - 1))
        case "down":
            return Menu(entries, min(len(entries) - 1, cursor + 1))
        case "enter":
            return Menu(entries, cursor, is_closed=True, selected=entries[cursor])
        case "quit":
            return Menu(entries, cursor, is_closed=True)
        case _:
            pass
    for number, one in enumerate(entries):
        if one.key and one.key.encode() == key:
            return Menu(entries, number, is_closed=True, selected=one)
    return menu


def _split(data: bytes) -> Iterator[bytes]:
    """Yield keys: an escape sequence or a byte each. A lone escape is the escape key; other sequences are one unknown key."""
    while data:
        size = 1
        if data[:2] in (b"\x1b[", b"\x1bO"):
            size = next((n + 1 for n in range(2, len(data)) if 0x40 <= data[n] <= 0x7E), len(data))
        elif data[:1] == b"\x1b" and len(data) > 1:
            size = 2  # with Alt
        yield data[:size]
        data = data[size:]


def menu_lines(menu: Menu, state: Sequence[str], size: tuple[int, int]) -> list[str]:
    """Return the lines for a terminal of some columns and rows: the state as far as it fits, the entries, the keys."""
    columns, rows = size
    free = max(1, rows - 1)  # without the footer
    shown = min(len(menu.entries), free)
    above = list(state[: max(0, free - shown - 1)])
    first = max(0, min(menu.cursor - shown // 2, len(menu.entries) - shown))
    entries = [
        _entry_line(one, columns, is_cursor=one is menu.entries[menu.cursor]) for one in menu.entries[first : first + shown]
    ]
    lines = [*(_cut(line, columns) for line in above), *([""] if above else []), *entries]
    return [*lines, f"{_DIM}{_cut(_FOOTER, columns)}{_NORMAL}"][:rows]


def _entry_line(one: MenuEntry, columns: int, *, is_cursor: bool) -> str:
    label = f"{'>' if is_cursor else ' '} {one.key or ' '}  {visible(one.label)}"
    command = visible(one.command)
    text = _cut(label, columns)
    if is_cursor:
        text = f"{_BOLD}{text}{_NORMAL}"
    padding = max(2, _LABEL - len(label))
    if len(label) + padding + len(command) > columns:
        return text
    return f"{text}{' ' * padding}{_DIM}{command}{_NORMAL}"


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: max(0, columns - 1)] + "…"
