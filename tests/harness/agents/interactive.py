"""Any agent on a terminal: answers to its first questions, until it has run the scripted command, and its end by Ctrl-C."""

import time
from collections.abc import Callable

from tests.harness.terminal import Terminal

# Questions of first runs, by a text that appears on no other screen: the keys of the answer.
QUESTIONS = {
    "Choose the text style": ("enter",),
    "Press Enter to continue": ("enter",),
    "Do you trust": ("enter",),
    "Add .aider* to .gitignore": ("n", "enter"),
}
FAREWELLS = (("ctrl+c",), ("ctrl+c",), ("ctrl+c",), ("ctrl+d",), ("escape",), ("/", "e", "x", "i", "t", "enter"), ("ctrl+c",))
_QUIET = 1.0  # seconds without output, after which a screen is taken to be complete


def wait_until(terminal: Terminal, holds: Callable[[], bool], timeout: float) -> None:
    """Answer the agent's questions until a condition holds. Raises AssertionError with the screen."""
    deadline = time.monotonic() + timeout
    while not holds():
        left = max(deadline - time.monotonic(), 0.01)
        terminal.wait_for(lambda shown: holds() or question(shown) is not None, left)
        asked = None if holds() else question(terminal.wait_quiet(_QUIET, timeout))
        terminal.keys(*(QUESTIONS[asked] if asked else ()))
        if asked:
            terminal.wait_gone(asked)


def question(shown: str) -> str | None:
    """Return the question on a screen."""
    return next((one for one in QUESTIONS if one in shown), None)


def leave(terminal: Terminal) -> int:
    """Press Ctrl-C, and what else ends an agent, until it has exited; return the exit code."""
    for keys in FAREWELLS:
        if not terminal.is_alive():
            break
        for key in keys:
            terminal.keys(key)
        terminal.wait_quiet(_QUIET)
    return terminal.wait_exit()
