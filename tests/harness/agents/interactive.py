"""Any agent at a terminal: answers to its first questions until it has run the scripted command, and its end by keys."""

import time
from collections.abc import Callable

from tests.harness.terminal import Terminal

# Questions of first runs, by a text that appears on no other screen: the keys of the answer.
QUESTIONS = {
    "Choose the text style": ("enter",),
    "Press Enter to continue": ("enter",),
    "Add .aider* to .gitignore": ("n", "enter"),
    "Do you want to disable Snapshots": ("enter",),  # of Kilo, on a slow machine
    "any other key to close": ("escape",),  # an advertisement of Cline
}
# Keys that end an agent, in the order in which they are tried: for most of them Ctrl-C twice.
FAREWELLS = (
    ("ctrl+c",),
    ("ctrl+c",),
    ("ctrl+c",),
    ("ctrl+d",),
    ("escape",),
    ("down", "enter"),  # the second item of a list, Exit
    ("ctrl+u", "/", "e", "x", "i", "t", "enter"),
    ("ctrl+c", "ctrl+c"),  # on a slow machine, the two above may be too far apart
    ("ctrl+c", "ctrl+c"),
)
_TRIES = 5
_QUIET = 1.0  # seconds without output, after which a screen is taken to be complete


def wait_until(terminal: Terminal, holds: Callable[[], bool], timeout: float) -> None:
    """Answer the agent's questions until a condition holds. Raises AssertionError with the screen."""
    deadline = time.monotonic() + timeout
    while not holds():
        left = max(deadline - time.monotonic(), 0.01)
        terminal.wait_for(lambda shown: holds() or question(shown) is not None, left)
        asked = None if holds() else question(terminal.wait_quiet(_QUIET, timeout))
        if asked:
            terminal.keys(*QUESTIONS[asked])
            terminal.wait_gone(asked)


def send_prompt(terminal: Terminal, prompt: str) -> None:
    """Answer the first questions until the screen is complete, then type a prompt and send it."""
    terminal.wait_for(_is_drawn, 120)
    wait_for_clock(terminal)
    for _ in range(_TRIES):  # an agent that still starts may ignore keys
        wait_until(terminal, lambda: question(terminal.text()) is None, 60)
        wait_for_clock(terminal)
        terminal.send(prompt)
        wait_for_clock(terminal)
        if prompt in terminal.text():
            break
    terminal.keys("enter")


def _is_drawn(shown: str) -> bool:
    """Return whether the agent has drawn: what is typed before that, only the terminal shows."""
    return any(line.strip() and not line.startswith("agent-dev:") for line in shown.splitlines())


def question(shown: str) -> str | None:
    """Return the question on a screen."""
    return next((one for one in QUESTIONS if one in shown), None)


def leave(terminal: Terminal) -> int:
    """Press Ctrl-C and other keys that end an agent until it has exited; return the number of tries."""
    tries = 0
    for keys in FAREWELLS:
        if not terminal.is_alive():
            break
        tries += 1
        for key in keys:
            terminal.keys(key)
        wait_for_clock(terminal)
    terminal.wait_exit()
    return tries


def wait_for_clock(terminal: Terminal) -> None:
    """Wait until the agent has exited, or has drawn nothing for a moment; a clock on its screen may never stop."""
    deadline = time.monotonic() + 5
    size = -1
    while terminal.is_alive() and time.monotonic() < deadline and len(terminal.raw) != size:
        size = len(terminal.raw)
        try:
            terminal.wait_exit(_QUIET)
        except AssertionError:
            continue
