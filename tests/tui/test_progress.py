"""The progress line: shown on a terminal after a while, overwritten by the end, and never in a pipe."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.terminal import Terminal

PROGRAM = """
import signal, sys, time
from agent_dev.progress import show_progress
signals = []
signal.signal(signal.SIGUSR1, lambda *_: signals.append(1))
with show_progress("comparing " + "x" * 200 if "long" in sys.argv else "merging") as tell:
    with show_progress("inner"):
        if "counts" in sys.argv:
            tell(1200, 30000)
        if "pipe" not in sys.argv:
            while not signals:
                time.sleep(0.05)
print("done")
"""


def argv(*words: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *words]


@pytest.mark.parametrize(("word", "shown"), [("counts", "merging … 1,200 of 30,000 ("), ("none", "merging … 1 s")])
def test_the_line_shows_counts_or_seconds_and_disappears(word: str, shown: str) -> None:
    with Terminal(argv(word), env={**os.environ, "TERM": "xterm"}, cwd=Path.cwd()) as terminal:
        terminal.wait_for(shown)
        os.kill(terminal.pid, signal.SIGUSR1)
        terminal.wait_for("done")
        assert terminal.wait_exit() == 0
        assert "merging" not in terminal.text()
        assert "inner" not in terminal.text()


def test_a_long_line_is_cut() -> None:
    with Terminal(argv("long"), env={**os.environ, "TERM": "xterm"}, cwd=Path.cwd()) as terminal:
        terminal.wait_for("comparing xxx")
        assert len(terminal.text().strip().splitlines()) == 1


def test_nothing_is_written_in_a_pipe() -> None:
    done = subprocess.run(argv("counts", "pipe"), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"done\n", b"")
