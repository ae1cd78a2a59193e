"""Show the menu on the terminal and run the selected command."""

import os
import sys

from agent_dev.cli import typeahead
from agent_dev.cli.console import write_stdout
from agent_dev.cli.menu.entries import MenuEntry
from agent_dev.cli.menu.view import Menu, menu_lines, press
from agent_dev.cli.watch.live_screen import LiveScreen

_REST_OF_SEQUENCE = 0.05  # seconds in which the rest of an escape sequence follows


def can_show_menu(environ: dict[str, str]) -> bool:
    """Return whether this is a terminal on which the cursor can be moved."""
    return environ.get("TERM", "dumb") not in ("", "dumb") and os.isatty(0) and os.isatty(1)


def select_entry(entries: tuple[MenuEntry, ...], state: list[str]) -> MenuEntry | None:
    """Let the user select an entry; None if the user leaves the menu. Input from before the first paint is dropped."""
    menu = Menu(entries)
    with LiveScreen() as screen:
        typeahead.drop_typeahead()
        while not menu.is_closed:
            screen.draw(menu_lines(menu, state, screen.size))
            data = screen.read_input()
            if data == b"\x1b":
                data += screen.read_input(_REST_OF_SEQUENCE) or b""
            if data is None:
                return None
            menu = press(menu, data)
    return menu.selected


def run_entry(entry: MenuEntry, environ: dict[str, str]) -> None:
    """Print the command and run it in place of this process, with the options that this one got."""
    write_stdout(f"$ {entry.command}\n")
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:], *entry.arguments], environ)
