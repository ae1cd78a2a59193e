"""A user at a terminal: a program on a pty, its screen as text, keys, resizes and signals.

`Terminal` runs one program. `Shell` runs the interactive bash from which a user would start it.
"""

import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Self

import pexpect
import pyte
from pexpect.fdpexpect import fdspawn

from tests.harness.screen import Screen, SequenceFilter

Predicate = Callable[[str], bool]

PATIENCE = 30.0  # seconds for something that should happen immediately, on a busy machine
_LOOK = 0.1  # seconds without output until a condition is checked again: not every change shows on the screen

# Requests that inject input, lock or hang up a terminal, and paths to one (CONTAINMENT A).
REQUESTS = {
    "TIOCSTI": 0x5412,
    "TIOCLINUX": 0x541C,
    "TIOCSETD": 0x5423,
    "TIOCEXCL": 0x540C,
    "KDSETMODE": 0x4B3A,
    "KDSKBENT": 0x4B47,
    "PIO_FONTX": 0x4B6C,
    "VT_OPENQRY": 0x5600,
    "VT_ACTIVATE": 0x5606,
    "VT_LOCKSWITCH": 0x560B,
}
TERMINAL_PATHS = ["stdin", "/dev/tty", "/proc/self/fd/0", "/proc/self/fd/2"]

KEYS = {
    "enter": b"\r",
    "newline": b"\n",
    "tab": b"\t",
    "shift+tab": b"\x1b[Z",
    "space": b" ",
    "escape": b"\x1b",
    "backspace": b"\x7f",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "shift+up": b"\x1b[1;2A",
    "shift+down": b"\x1b[1;2B",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "insert": b"\x1b[2~",
    "delete": b"\x1b[3~",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "f1": b"\x1bOP",
    "f2": b"\x1bOQ",
    "f3": b"\x1bOR",
    "f4": b"\x1bOS",
    "f5": b"\x1b[15~",
    "ctrl+\\": b"\x1c",
} | {f"ctrl+{letter}": bytes([ord(letter) & 0x1F]) for letter in "abcdefghijklmnopqrstuvwxyz"}

ENVIRONMENT: Mapping[str, str | None] = {
    "TERM": "xterm-256color",
    "COLORTERM": "truecolor",
    "TEXTUAL_ANIMATIONS": "none",
    "TEXTUAL_DISABLE_KITTY_KEY": "1",
    "COLUMNS": None,
    "LINES": None,
}

_OPEN_SLAVE = 0x5441  # TIOCGPTPEER, which Python's termios lacks

_PLAIN = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\].*?(?:\x1b\\|\x07)|\x1b[PX^_].*?\x1b\\|\x1b[ -/]*[0-~]|\r",
    re.DOTALL,
)


class Terminal:
    """A program on a terminal, with methods that read its screen and type.

    `env` is added to this process's environment; None removes a variable.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        rows: int = 24,
        cols: int = 80,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> None:
        merged = {**os.environ, **ENVIRONMENT, **(env or {})}
        self._fd, self._process = _spawn(
            [str(argument) for argument in argv],
            (rows, cols),
            {name: value for name, value in merged.items() if value is not None},
            cwd,
        )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self._pty: fdspawn[bytes] = fdspawn(self._fd, encoding=None)
        self._raw = bytearray()
        self._filter = SequenceFilter()
        self.screen = Screen(rows, cols, self.send)
        self._stream = pyte.ByteStream(self.screen)
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The screen

    @property
    def raw(self) -> bytes:
        """Return all bytes that were written to the terminal so far."""
        self._read_all()
        return bytes(self._raw)

    def text(self) -> str:
        """Return the current text of the screen."""
        self._read_all()
        return self.screen.text()

    def wait_for(self, wanted: str | Predicate, timeout: float = PATIENCE) -> str:
        """Wait until the screen shows a text, or a predicate holds for its text; return that screen."""
        return self._wait(_predicate(wanted), timeout, f"{wanted!r} did not appear")

    def wait_gone(self, unwanted: str | Predicate, timeout: float = PATIENCE) -> str:
        """Wait until the screen no longer shows a text; return that screen."""
        shows = _predicate(unwanted)
        return self._wait(lambda text: not shows(text), timeout, f"{unwanted!r} did not disappear")

    def wait_quiet(self, seconds: float = 0.5, timeout: float = PATIENCE) -> str:
        """Wait until nothing was written to the terminal for some seconds; return the screen."""
        deadline = time.monotonic() + timeout
        while self._read_once(seconds):
            assert time.monotonic() < deadline, self._complaint(f"output went on for {timeout} s")
        return self.screen.text()

    def wait_read(self, timeout: float = PATIENCE) -> None:
        """Wait until the program, which has the terminal in raw mode, has read everything typed so far."""
        deadline = time.monotonic() + timeout
        slave = fcntl.ioctl(self._fd, _OPEN_SLAVE, os.O_RDONLY | os.O_NOCTTY)
        try:
            while _unread_bytes(slave):
                assert time.monotonic() < deadline, self._complaint(f"the program did not read its input within {timeout} s")
                self._read_once(0.02)
        finally:
            os.close(slave)

    def wait_raw(self, wanted: bytes, timeout: float = PATIENCE, start: int = 0) -> int:
        """Wait until these bytes were written at the offset `start` or later; return the offset after them."""
        self._wait(
            lambda _: self._raw.find(wanted, start) >= 0,
            timeout,
            f"{wanted!r} was not written",
        )
        return self._raw.find(wanted, start) + len(wanted)

    # Input

    def send(self, data: str | bytes) -> None:
        """Type or paste data unchanged."""
        rest = data.encode() if isinstance(data, str) else data
        deadline = time.monotonic() + PATIENCE
        while rest:
            assert time.monotonic() < deadline, self._complaint(f"the program does not read its input: {rest!r}")
            _, writable, _ = select.select([self._fd], [self._fd], [], PATIENCE)
            if writable:
                rest = rest[_write(self._fd, rest) :]
            else:
                self._read_once(0)

    def keys(self, *names: str) -> None:
        """Press keys by name, as in KEYS; a single character is itself."""
        for name in names:
            self.send(KEYS.get(name, name))

    def resize(self, rows: int, cols: int) -> None:
        """Resize the window; the kernel sends SIGWINCH to the foreground group."""
        self._read_all()
        self.screen.resize(rows, cols)
        termios.tcsetwinsize(self._fd, (rows, cols))

    def hang_up(self) -> None:
        """Close the window: the kernel sends SIGHUP, and reading and writing the terminal fail for the program."""
        if self._is_open:
            self._read_all()
            self._is_open = False
            self._pty.close()

    # The kernel's view

    def foreground(self) -> int:
        """Return the foreground process group."""
        return os.tcgetpgrp(self._fd)

    def slave_path(self) -> str:
        """Return the path of the terminal that the program has."""
        slave = fcntl.ioctl(self._fd, _OPEN_SLAVE, os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.ttyname(slave)
        finally:
            os.close(slave)

    def unread_bytes(self) -> int:
        """Return the number of bytes written to the terminal and not yet read."""
        return _unread_bytes(self._fd)

    def stty(self) -> str:
        """Return the terminal's size and modes, as printed by `stty -a`."""
        return subprocess.run(["stty", "-a"], stdin=self._fd, capture_output=True, check=True, text=True).stdout

    # Exit

    def is_alive(self) -> bool:
        """Return whether the program has not exited; it may be stopped."""
        return self._process.poll() is None

    def wait_exit(self, timeout: float = PATIENCE) -> int:
        """Wait until the program has exited; return its exit code, or 128 + n for signal n."""
        deadline = time.monotonic() + timeout
        while self.is_alive():
            left = deadline - time.monotonic()
            assert left > 0, self._complaint(f"the program did not exit within {timeout} s")
            watched = [self._pidfd, self._fd] if self._can_read() else [self._pidfd]
            if self._fd in select.select(watched, [], [], left)[0]:
                self._read_once(0)
        self._read_all()
        code = self._process.returncode
        return 128 - code if code < 0 else code

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the program."""
        self._process.send_signal(number)

    def close(self) -> None:
        """End the program, by a hangup and then by SIGKILL, and close the terminal."""
        self.hang_up()
        if not select.select([self._pidfd], [], [], 2)[0]:
            self.kill()
        self._process.wait()
        os.close(self._pidfd)

    # Reading

    def _can_read(self) -> bool:
        return self._is_open and not self._pty.flag_eof

    def _read_once(self, timeout: float) -> bool:
        """Read once, for at most `timeout` seconds, and update the screen; return whether there was output."""
        if not self._can_read():
            return False
        try:
            chunk = self._pty.read_nonblocking(65536, timeout)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        self._raw += chunk
        try:
            self._stream.feed(self._filter.feed(chunk))
        except ValueError:  # pyte takes a superscript digit for a digit; random bytes may have one after CSI
            self._stream = pyte.ByteStream(self.screen)
        return True

    def _read_all(self) -> None:
        while self._read_once(0):
            pass

    def _wait(self, holds: Predicate, timeout: float, complaint: str) -> str:
        deadline = time.monotonic() + timeout
        while not holds(self.text()):
            left = deadline - time.monotonic()
            assert left > 0, self._complaint(f"{complaint} within {timeout} s")
            came = self._read_once(min(left, _LOOK))
            assert came or self._can_read(), self._complaint(f"{complaint}, and the program has left the terminal")
        return self.screen.text()

    def _complaint(self, problem: str) -> str:
        return f"{problem}; the screen:\n{self.screen.text()}\nprocesses:\n{_processes_below(self.pid)}"


def _processes_below(pid: int) -> str:
    """Return a line for each process below this one: where each is stopped or waits may tell why a test timed out."""
    words = ["ps", "-e", "-o", "pid=,ppid=,pgid=,tpgid=,stat=,wchan:20=,args="]
    rows = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
    below, found = {str(pid)}, []
    for row in sorted(rows, key=lambda row: int(row.split()[0])):
        own, parent = row.split()[:2]
        if own in below or parent in below:
            below.add(own)
            found.append(row[:200])
    return "\n".join(found)


class Shell(Terminal):
    """The user's interactive bash, with job control and the prompt `OUT$ `."""

    PROMPT = "OUT$ "

    def __init__(
        self,
        *,
        rows: int = 24,
        cols: int = 80,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> None:
        # Written before each prompt, except when readline redraws it. An OSC, so that it is invisible.
        self._mark = f"\x1b]7777;{token_hex(4)};"
        command = f"printf '{self._mark}%s\\a' $?"
        own = {"PS1": self.PROMPT, "PROMPT_COMMAND": command, "HISTFILE": ""}  # no history is written
        super().__init__(
            ["bash", "--norc", "-i"],
            rows=rows,
            cols=cols,
            env={**(env or {}), **own},
            cwd=cwd,
        )
        self._sent = 0
        self.status = 0  # the exit code of the last command, `$?` at the last prompt
        try:
            self.wait_prompt()
            self.run("export -n PS1 PROMPT_COMMAND; clear")  # not for nested shells
        except BaseException:
            self.close()
            raise

    def send(self, data: str | bytes) -> None:
        """Type or paste data unchanged."""
        self._sent = len(self._raw)
        super().send(data)

    def wait_prompt(self, timeout: float = PATIENCE) -> str:
        """Wait for a prompt after the last input; return the output until then, without sequences."""
        start, mark = self._sent, self._mark.encode()
        found = self.wait_raw(mark, timeout, start)
        after = self.wait_raw(b"\a", timeout, found)
        self.wait_raw(self.PROMPT.encode(), timeout, after)
        self.status = int(self._raw[found : after - 1])
        return _PLAIN.sub(b"", bytes(self._raw[start : found - len(mark)])).decode(errors="replace")

    def run(self, command: str, timeout: float = PATIENCE) -> str:
        """Type a command, wait for the next prompt, and return the command's output."""
        self.send(f"{command}\n")
        _echo, _, output = self.wait_prompt(timeout).partition("\n")
        return output

    def start(self, command: str, timeout: float = PATIENCE) -> int:
        """Type a command and wait until it is in the foreground; return its process group."""
        self.send(f"{command}\n")
        # Until the shell's child has executed the program, it ignores the keyboard's signals, as an interactive bash does.
        self._wait(
            lambda _: self.foreground() != self.pid and _name_of(self.foreground()) != "bash",
            timeout,
            f"{command!r} did not get the terminal",
        )
        return self.foreground()


def _spawn(
    argv: list[str], size: tuple[int, int], env: Mapping[str, str], cwd: Path | None
) -> tuple[int, subprocess.Popen[bytes]]:
    """Start a program as the leader of a session on a new terminal; return the pty's master side, and the process."""
    # Not pexpect.spawn, which runs Python in a fork of a process that may have threads: the model server's.
    setsid = shutil.which("setsid")
    assert setsid, "setsid (util-linux) is not installed"
    ours, its = os.openpty()
    try:
        termios.tcsetwinsize(its, size)
        os.set_blocking(ours, False)
        process = subprocess.Popen(
            [setsid, "--ctty", *argv],
            stdin=its,
            stdout=its,
            stderr=its,
            env=env,
            cwd=cwd,
        )
    finally:
        os.close(its)
    return ours, process


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _write(fd: int, data: bytes) -> int:
    """Write as many bytes as fit; return their number."""
    try:
        return os.write(fd, data)
    except BlockingIOError:
        return 0


def _unread_bytes(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


def _predicate(wanted: str | Predicate) -> Predicate:
    return (lambda text: wanted in text) if isinstance(wanted, str) else wanted
