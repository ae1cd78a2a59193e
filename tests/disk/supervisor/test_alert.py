"""Alerts outside the sandbox: a bell in the launcher's terminal, a desktop notification with harmless text."""

import os
import pty
from pathlib import Path

import pytest

from agent_dev.supervisor import alert
from tests.harness.program import wait_until

ENVIRON = {"DISPLAY": ":0", "PATH": "/usr/bin:/bin"}


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file to which a fake notify-send writes its arguments."""
    program, sent = tmp_path / "notify-send", tmp_path / "sent"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{sent}.new; mv {sent}.new {sent}\n')
    program.chmod(0o755)
    monkeypatch.setattr(alert, "_PROGRAMS", (str(program),))
    return sent


@pytest.mark.parametrize("how", ["both", "bell", "desktop", "off"])
def test_each_way_does_only_what_it_says(how: str, sent: Path) -> None:
    rings, shows = how in ("both", "bell"), how in ("both", "desktop")
    pid, fd = pty.fork()
    if not pid:
        os.execv("/bin/sleep", ["sleep", "60"])
    try:
        wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "the program on the terminal")
        alert.alert(how, pid, "Title", "a <b>\x1b[31m & c" + "x" * 500, ENVIRON)
        if shows:
            wait_until(sent.exists, "the notification")
            words = sent.read_text().splitlines()
            assert words[-2] == "Title"
            assert words[-1].startswith("a &lt;b&gt;")
            assert "\x1b" not in words[-1]
            assert len(words[-1]) < 300
        os.set_blocking(fd, False)
        assert _read(fd) == (b"\a" if rings else b"")
        assert sent.exists() == shows
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(fd)


def test_without_a_terminal_a_desktop_or_a_program_nothing_happens(sent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alert.alert("both", 2**22 - 1, "Title", "text", {"PATH": "/bin"})
    monkeypatch.setattr(alert, "_PROGRAMS", ("/nonexistent/notify-send",))
    alert.alert("both", 2**22 - 1, "Title", "text", ENVIRON)
    assert not sent.exists()


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 100)
    except BlockingIOError:
        return b""
