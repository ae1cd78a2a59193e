"""Whatever ends or stops a review: the terminal is given back, nothing is merged, and the session is there."""

import os
import signal
from pathlib import Path

from tests.expect.reviews import EDIT, review, work
from tests.harness.program import PROGRAM, AgentDev, tree, wait_until
from tests.harness.terminal import Shell


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
