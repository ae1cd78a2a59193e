"""Whatever ends or stops a review: the terminal is given back, nothing is merged, and the session is there."""

import os
import signal
import sys
from pathlib import Path

from tests.expect.reviews import EDIT, review, work
from tests.harness.program import PROGRAM, AgentDev, tree, wait_until
from tests.harness.terminal import Shell, Terminal


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_killed_screen_gives_the_terminal_back_and_the_session_is_there(shop: AgentDev, repo: Path) -> None:
    before = tree(repo)
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.keys("A")
        terminal.wait_for("chosen 2 of 3")
        (screen,) = children(terminal.pid)
        os.kill(screen, signal.SIGKILL)
        terminal.wait_for("ended by SIGKILL")
        assert terminal.wait_exit() == 128 + signal.SIGKILL
        assert not terminal.screen.is_alternate()
        assert terminal.raw.rfind(b"\x1b[?1003l") > terminal.raw.rfind(b"\x1b[?1003h") >= 0
    assert tree(repo) == before
    assert shop.changes() == {"code.py": "edited", "new.py": "added", "old.py": "deleted"}


def test_a_terminal_that_goes_away_merges_nothing_and_leaves_nobody_behind(shop: AgentDev, repo: Path) -> None:
    before = tree(repo)
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.keys("A")
        terminal.wait_for("chosen 2 of 3")
        (screen,) = children(terminal.pid)
        terminal.hang_up()
        terminal.wait_exit()
    wait_until(lambda: not Path(f"/proc/{screen}").exists(), "the end of the screen")
    assert tree(repo) == before
    assert shop.changes() == {"code.py": "edited", "new.py": "added", "old.py": "deleted"}


def test_it_stops_and_goes_on_as_a_job_of_the_shell(shop: AgentDev) -> None:
    work(shop, EDIT)
    with Shell(cwd=shop.repo, env=shop.terminal_environment()) as shell:
        shell.start(f"{PROGRAM} merge")
        shell.wait_for("c apply")
        shell.wait_quiet()
        shell.keys("A")
        shell.wait_for("chosen 2 of 3")
        shell.keys("ctrl+z")
        shell.wait_prompt()
        shell.send("fg\n")
        shell.wait_for("chosen 2 of 3")
        shell.wait_quiet()
        shell.keys("X", "q")
        shell.wait_prompt()


# The program, which writes a line for each time that it throws away what was typed.
FLUSHES = """
import sys, termios
from agent_dev import cli
file, sys.argv[:2] = sys.argv[1], []
sys.argv.insert(0, "agent-dev")
flush = termios.tcflush
def noted(*words):
    open(file, "a").write("flushed\\n")
    flush(*words)
termios.tcflush = noted
cli.main()
"""


def test_what_is_typed_when_it_is_told_to_go_on_a_second_time_is_not_lost(shop: AgentDev, tmp_path: Path) -> None:
    work(shop, EDIT)
    log = tmp_path / "flushes"
    words = [sys.executable, "-c", FLUSHES, str(log), "merge"]
    with Terminal(words, rows=24, cols=120, env=shop.terminal_environment(), cwd=shop.repo) as terminal:
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        (screen,) = children(terminal.pid)
        flushed, drawn = log.read_text(), len(terminal.raw)
        os.kill(screen, signal.SIGCONT)  # as the shell and then the process above it do after `fg`
        terminal.wait_raw(b"\x1b[?1049h", start=drawn)
        terminal.wait_quiet()
        assert log.read_text() == flushed
        terminal.keys("A")
        terminal.wait_for("chosen 2 of 3")
        terminal.keys("X", "q")
        assert terminal.wait_exit() == 0
