"""End or stop a review in any way: the terminal is restored, nothing is merged, and the session is kept."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.expect.reviews import EDIT, review, work
from tests.harness.program import PROGRAM, AgentDev, children, tree, wait_until
from tests.harness.terminal import Shell, Terminal


@contextmanager
def ended_review(shop: AgentDev, repo: Path) -> Iterator[tuple[Terminal, int]]:
    """Yield a terminal with some changes selected, and the screen's pid; assert afterwards that nothing was merged or lost."""
    before = tree(repo)
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.keys("A")
        terminal.wait_for("selected 2 of 3")
        (screen,) = children(terminal.pid)
        yield terminal, screen
    assert tree(repo) == before
    assert shop.changes() == {"code.py": "edited", "new.py": "added", "old.py": "deleted"}


def test_a_killed_screen_restores_the_terminal_and_keeps_the_session(shop: AgentDev, repo: Path) -> None:
    with ended_review(shop, repo) as (terminal, screen):
        os.kill(screen, signal.SIGKILL)
        terminal.wait_for("killed by SIGKILL")
        assert terminal.wait_exit() == 128 + signal.SIGKILL
        assert not terminal.screen.is_alternate()
        assert terminal.raw.rfind(b"\x1b[?1003l") > terminal.raw.rfind(b"\x1b[?1003h") >= 0


def test_a_lost_terminal_merges_nothing_and_leaves_no_process(shop: AgentDev, repo: Path) -> None:
    with ended_review(shop, repo) as (terminal, screen):
        terminal.hang_up()
        terminal.wait_exit()
        wait_until(lambda: not Path(f"/proc/{screen}").exists(), "the end of the screen")


def test_the_screen_stops_and_continues_as_a_shell_job(shop: AgentDev) -> None:
    work(shop, EDIT)
    with Shell(cwd=shop.repo, env=shop.terminal_environment()) as shell:
        shell.start(f"{PROGRAM} merge")
        shell.wait_for("c apply")
        shell.wait_quiet()
        shell.keys("A")
        shell.wait_for("selected 2 of 3")
        shell.keys("ctrl+z")
        shell.wait_prompt()
        shell.send("fg\n")
        shell.wait_for("selected 2 of 3")
        shell.wait_quiet()
        shell.keys("X", "q")
        shell.wait_prompt()


# The program with a log that gets a line for each discard of typed input.
FLUSHES = """
import sys, termios
from agent_dev.cli import main as cli
file, sys.argv[:2] = sys.argv[1], []
sys.argv.insert(0, "agent-dev")
flush = termios.tcflush
def noted(*words):
    open(file, "a").write("flushed\\n")
    flush(*words)
termios.tcflush = noted
cli.main()
"""


def test_keys_typed_at_a_second_sigcont_are_not_lost(shop: AgentDev, tmp_path: Path) -> None:
    work(shop, EDIT)
    log = tmp_path / "flushes"
    words = [sys.executable, "-c", FLUSHES, str(log), "merge"]
    with Terminal(words, rows=24, cols=120, env=shop.terminal_environment(), cwd=shop.repo) as terminal:
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        (screen,) = children(terminal.pid)
        flushed, drawn = log.read_text(), len(terminal.raw)
        os.kill(screen, signal.SIGCONT)  # after `fg` two are sent: by the shell and by the parent process
        terminal.wait_raw(b"\x1b[?1049h", start=drawn)
        terminal.wait_quiet()
        assert log.read_text() == flushed
        terminal.keys("A")
        terminal.wait_for("selected 2 of 3")
        terminal.keys("X", "q")
        assert terminal.wait_exit() == 0


def test_a_file_that_another_session_changed_is_noted(shop: AgentDev) -> None:
    for _ in range(2):
        work(shop, EDIT)
    with review(shop) as terminal:
        terminal.wait_for("new.py is also changed by 2")
        terminal.keys("q")
