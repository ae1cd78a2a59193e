"""After its launcher was killed, the relay restores the terminal's modes, unless a shell owns the terminal."""

import contextlib
import os
import pty
import signal
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.sandbox.terminal import relay
from agent_dev.sandbox.terminal.modes import as_raw
from agent_dev.sandbox.terminal.relay import RelayDescriptors, RelayProcesses, TerminalRelay
from tests.harness.program import wait_until


def modes_after_kill(monkeypatch: pytest.MonkeyPatch, *, is_in_foreground: bool) -> tuple[bool, bool]:
    """Let a relay restore a terminal; return whether it has the user's modes then, and whether it has those of the prompt.

    If the relay is in the background, its own look at the foreground is out of date.
    """
    monkeypatch.setattr(relay, "is_in_foreground", lambda _: True)
    master, terminal = pty.openpty()
    user = termios.tcgetattr(terminal)
    prompt = [*user[:3], user[3] & ~(termios.ICANON | termios.ECHO), *user[4:]]
    in_session(terminal, lambda: end_relay(terminal, user, None if is_in_foreground else prompt))
    found = termios.tcgetattr(terminal)
    os.close(master)
    os.close(terminal)
    return found[:4] == user[:4], found[:4] == prompt[:4]  # the rest is read in another form in these modes


def in_session(terminal: int, work: Callable[[], None]) -> None:
    """Call something in a child that leads a session on a terminal."""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.close(os.open(os.ttyname(terminal), os.O_RDWR))
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def new_relay(terminal: int, user: "termios._AttrReturn") -> TerminalRelay:
    """Return a relay whose terminal is raw, and had the user's modes before."""
    unused = os.open("/dev/null", os.O_RDWR)
    one = TerminalRelay(
        RelayDescriptors(terminal, unused, unused, unused), RelayProcesses(0, 0, 0, in_foreground=True), unused, os.pipe()[0]
    )
    one._user_modes = user
    return one


def end_relay(terminal: int, user: "termios._AttrReturn", prompt: "termios._AttrReturn | None") -> None:
    other = os.fork()
    if other == 0:
        signal.pause()
    os.setpgid(other, other)
    one = new_relay(terminal, user)
    termios.tcsetattr(terminal, termios.TCSANOW, as_raw(user))
    if prompt is not None:
        termios.tcsetattr(terminal, termios.TCSANOW, prompt)
        os.tcsetpgrp(terminal, other)
    one._restore_after_launcher()
    os.kill(other, signal.SIGKILL)


def test_in_the_foreground_the_users_modes_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    assert modes_after_kill(monkeypatch, is_in_foreground=True) == (True, False)


def test_the_modes_of_a_shell_that_took_the_terminal_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert modes_after_kill(monkeypatch, is_in_foreground=False) == (False, True)


def test_a_terminal_that_takes_no_output_is_reset_when_it_does() -> None:
    """It is full here. The kernel also refuses a write without waiting while another process, such as the shell, writes."""
    master, terminal = pty.openpty()
    child = os.fork()
    if child == 0:
        try:
            fill_and_restore(terminal)
        finally:
            os._exit(0)
    os.close(terminal)

    def is_waiting_or_over() -> bool:
        status = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        return status == "Z" or "poll" in Path(f"/proc/{child}/wchan").read_text()

    wait_until(is_waiting_or_over, "the relay to wait for the terminal")
    written = read_to_hangup(master)
    os.waitpid(child, 0)
    os.close(master)
    assert written.startswith(FILL)
    assert written.endswith(b"\x1b[23;0t")


FILL = b"full " * 1000


def fill_and_restore(terminal: int) -> None:
    os.setsid()
    own = os.open(os.ttyname(terminal), os.O_RDWR | os.O_NONBLOCK)
    os.close(terminal)
    one = new_relay(own, termios.tcgetattr(own))
    one._output.scan(bytearray(b"\x1b[4h"), 4)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(own, FILL)
    one._restore_after_launcher()


def read_to_hangup(master: int) -> bytes:
    """Return all output until no process has the terminal open."""
    output = bytearray()
    with contextlib.suppress(OSError):  # EIO
        while True:
            output += os.read(master, 1 << 16)
    return bytes(output)
