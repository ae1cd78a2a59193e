"""The review screen on a real pty: it restores the terminal however it ends, and drops keys typed before its first paint."""

import errno
import io
import os
import re
import signal
import sys
import termios
from pathlib import Path
from unittest import mock

import pytest
from textual.drivers.linux_driver import LinuxDriver

from tests.harness.terminal import Shell, Terminal
from tui.terminal.driver import WakeableDriver
from tui.terminal.terminal_setup import can_show_screen

ROOT = Path(__file__).parents[2]
REVIEW = "from tui.app import run_review; from tests.harness.sample_session import Sample; run_review(Sample())"
PROGRAM = """
import sys
from tui.app import run_review
from tests.harness.sample_session import Sample
sys.stdout.write("BEFORE\\n"); sys.stdout.flush()
if "wait" in sys.argv: sys.stdin.readline()
sample = Sample()
run_review(sample)
print("RESULT", sorted(key.path for one in sample.merges for key in one.keys) or None)
"""
READY = "? help"


def is_ready(text: str) -> bool:
    """Return whether the screen takes input: it counts lines only after the first paint, before which it drops keys."""
    return READY in text and re.search(r"/[1-9][\d,+]* hunks|hunks 0/[1-9]", text) is not None


def argv(*words: str) -> list[str]:
    """Return the command that shows the sample and prints the merged paths."""
    return [sys.executable, "-c", PROGRAM, *words]


def opened(*, rows: int = 24, cols: int = 80, **env: str) -> Terminal:
    """Return a terminal in which the screen is open."""
    terminal = Terminal(argv(), rows=rows, cols=cols, cwd=ROOT, env=env)
    terminal.wait_for(is_ready)
    return terminal


def assert_restored(raw: bytes) -> None:
    """Assert that the sequences that restore the terminal were written."""
    assert raw.rfind(b"\x1b[?1049l") > raw.rfind(b"\x1b[?1049h") >= 0
    assert raw.rfind(b"\x1b[?1003l") > raw.rfind(b"\x1b[?1003h") >= 0
    assert raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l") >= 0


def test_the_selection_is_returned() -> None:
    with opened() as terminal:
        terminal.keys(*["n"] * 4, "space", "c")
        terminal.wait_for("Yes, apply 1 change")
        terminal.keys("y")
        terminal.wait_for("1 changes merged")
        terminal.keys("enter")
        terminal.wait_for("RESULT [b'README.md']")
        assert terminal.wait_exit() == 0
        assert_restored(terminal.raw)


def test_the_terminal_modes_are_restored() -> None:
    with Shell(cwd=ROOT) as shell:
        before = shell.stty()
        shell.run("true")
        shell.send(f"{sys.executable} -c '{REVIEW}'\n")
        shell.wait_for(is_ready)
        shell.keys("q")
        shell.wait_prompt()
        assert shell.stty() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_restores_the_terminal_and_merges_nothing(number: int) -> None:
    with opened() as terminal:
        terminal.keys("A")
        terminal.wait_for("all safe changes selected")
        terminal.kill(number)
        terminal.wait_exit()
        assert_restored(terminal.raw)
        assert b"RESULT [" not in terminal.raw


def test_a_closed_window_ends_the_screen() -> None:
    with opened() as terminal:
        terminal.keys("A")
        terminal.wait_for("all safe changes selected")
        terminal.hang_up()
        terminal.wait_exit()


# The kernel sends SIGCONT after SIGHUP: here, while the handler of SIGHUP ends the screen.
CONTINUED = """
import signal
from tui.app import ReviewApp
close = ReviewApp._close
def continued(*args, **more):
    signal.raise_signal(signal.SIGCONT)
    close(*args, **more)
ReviewApp._close = continued
"""


def test_a_closed_window_ends_the_screen_that_the_kernel_continues() -> None:
    with Terminal([sys.executable, "-c", CONTINUED + PROGRAM], cwd=ROOT) as terminal:
        terminal.wait_for(is_ready)
        terminal.hang_up()
        terminal.wait_exit()


@pytest.mark.parametrize("error", [OSError(errno.EIO, "gone"), termios.error(errno.EIO, "gone")], ids=["OSError", "termios"])
def test_continuing_without_a_terminal_is_no_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """In the handler of SIGHUP, which the handler of SIGCONT may interrupt, an error would let the program run forever."""
    restarted = mock.Mock(side_effect=error)
    monkeypatch.setattr(LinuxDriver, "_sigcont_application", restarted)
    driver = object.__new__(WakeableDriver)
    driver._is_starting = driver._must_restart = False
    driver._sigcont_application()
    driver._sigcont_application()
    assert restarted.call_count == 2


def test_keys_typed_before_the_screen_opens_do_nothing() -> None:
    with Terminal(argv("wait"), cwd=ROOT) as terminal:
        terminal.wait_for("BEFORE")
        terminal.send("\nAcy\r y")
        terminal.wait_for(is_ready)
        terminal.keys("j")
        text = terminal.wait_for("▌[ ]   ~! package.json")
        assert "selected 0 of" in text


def test_escape_and_a_key_typed_at_once_are_two_keys() -> None:
    with opened() as terminal:
        terminal.send("\r\x1bj")  # into the diff, and back to the list, where the cursor moves
        terminal.wait_for("▌[ ]   ~! package.json")
        terminal.send("\r\x1b ")
        terminal.wait_for("selected 1 of")
        terminal.wait_for("▌[x]   ~! package.json")


def test_columns_and_lines_in_the_environment_are_ignored() -> None:
    with opened(rows=30, cols=110, COLUMNS="50", LINES="12") as terminal:
        assert "│" in terminal.text()
        assert len(terminal.text().splitlines()) == 30


@pytest.mark.parametrize(("key", "page"), [("", READY), ("?", "Keys"), ("q", "Quit without applying?"), ("f", "filter:")])
def test_the_screen_can_be_suspended_and_resumed(key: str, page: str) -> None:
    with Shell(cwd=ROOT) as shell:
        shell.start(f"{sys.executable} -c '{REVIEW}'")
        shell.wait_for(is_ready)
        shell.keys("A")
        shell.wait_for("selected 7 of")
        shell.send(key)
        shell.wait_for(page)
        shell.keys("ctrl+z")
        shell.wait_prompt()
        shell.send("fg\n")
        shell.wait_for(page)
        if key:
            shell.keys("escape")
            shell.wait_for(lambda text: page not in text)
        shell.wait_for(lambda text: READY in text and "selected 7 of" in text)
        shell.keys("q")
        shell.wait_for("Quit without applying?")
        shell.keys("y")
        shell.wait_prompt()


def test_without_colours_signs_are_shown() -> None:
    with opened(NO_COLOR="1") as terminal:
        terminal.keys("space")
        assert "▌[x]   ~! .github/workflows/release.yml" in terminal.wait_for("[x]")


class Stream(io.StringIO):
    """A stream with a configurable `isatty`."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._is_terminal


@pytest.mark.parametrize(
    ("term", "keys", "screen", "expected"),
    [
        ("xterm-256color", True, True, True),
        ("linux", True, True, True),
        ("dumb", True, True, False),
        ("", True, True, False),
        (None, True, True, False),
        ("xterm", False, True, False),
        ("xterm", True, False, False),
        ("xterm", None, True, False),
        ("xterm", True, None, False),
    ],
)
def test_the_screen_needs_a_terminal_for_input_and_output(
    term: str | None, *, keys: bool | None, screen: bool | None, expected: bool
) -> None:
    environ = {} if term is None else {"TERM": term}
    streams = [None if one is None else Stream(is_terminal=one) for one in (keys, screen)]
    assert can_show_screen(environ, *streams) is expected


def test_a_closed_stdin_is_not_a_terminal() -> None:
    closed = Stream(is_terminal=True)
    closed.close()
    with open(os.devnull, encoding="utf-8") as null:
        assert not can_show_screen({"TERM": "xterm"}, null, Stream(is_terminal=True))
