"""Drive the whole program as a user does: an agent, the screen, and the bytes in the tree."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev, tree, wait_until
from tests.harness.terminal import Terminal


def session(agent_dev: AgentDev, *words: str, rows: int = 24, cols: int = 80) -> Terminal:
    """Start agent-dev on a terminal."""
    environment = agent_dev.terminal_environment()
    return Terminal([str(PROGRAM), *words], rows=rows, cols=cols, env=environment, cwd=agent_dev.repo)


def test_a_shell_session_applies_one_file_exactly_on_the_screen(agent_dev: AgentDev, repo: Path) -> None:
    before = tree(repo)
    with session(agent_dev, "bash", "--norc") as terminal:
        terminal.wait_for("bash-")
        terminal.send("echo taken >taken.txt; echo left >left.txt; rm README.md; git status --short | wc -l\r")
        terminal.wait_for("3")
        terminal.send("exit 7\r")
        terminal.wait_for("c apply")
        terminal.wait_quiet()  # keys typed before the first paint are dropped
        assert tree(repo) == before
        screen = terminal.text()
        assert "Changes 3" in screen
        assert "[x]" not in screen
        row = next(number for number, line in enumerate(screen.splitlines()) if "taken.txt" in line)
        cursor = next(number for number, line in enumerate(screen.splitlines()) if line.startswith("▌"))
        terminal.keys(*["down" if row > cursor else "up"] * abs(row - cursor))
        terminal.wait_for(lambda text: any(line.startswith("▌") and "taken.txt" in line for line in text.splitlines()))
        terminal.send(" ")
        terminal.wait_for("selected 1 of 3")
        terminal.send("c")
        terminal.wait_for("No, go back")
        terminal.send("y")
        terminal.wait_for("agent-dev undo reverts it")
        terminal.keys("enter")
        assert terminal.wait_exit() == 7
        assert "1 change merged, 2 left in the session" in terminal.text()
    assert (repo / "taken.txt").read_text() == "taken\n"
    assert not (repo / "left.txt").exists()
    assert (repo / "README.md").exists()
    assert agent_dev.changes() == {"README.md": "deleted", "left.txt": "added"}


def test_quitting_merges_nothing_and_prints_the_commands(agent_dev: AgentDev, repo: Path) -> None:
    before = tree(repo)
    with session(agent_dev, "--", "sh", "-c", "echo new >new") as terminal:
        terminal.wait_for("q quit")
        terminal.wait_quiet()
        terminal.send("q")
        assert terminal.wait_exit() == 0
        assert "agent-dev merge" in terminal.text()
    assert tree(repo) == before
    assert agent_dev.changes() == {"new": "added"}


# An agent that exits after three keys were typed, without reading them.
WAITS_FOR_KEYS = """
import array, fcntl, termios, time, tty
open("new", "w").write("new")
modes, typed = termios.tcgetattr(0), array.array("i", [0])
tty.setcbreak(0, termios.TCSANOW)
print("agent-2", flush=True)
while typed[0] < 3:
    time.sleep(0.01)
    fcntl.ioctl(0, termios.FIONREAD, typed)
termios.tcsetattr(0, termios.TCSANOW, modes)
"""


def test_keys_typed_before_the_screen_opens_select_nothing(agent_dev: AgentDev, repo: Path) -> None:
    before = tree(repo)
    with session(agent_dev, "--", "/usr/bin/python3", "-c", WAITS_FOR_KEYS) as terminal:
        terminal.wait_for("agent-2")
        terminal.send("Acy")
        terminal.wait_for("q quit")
        terminal.wait_quiet()
        assert "selected 0 of 1" in terminal.text()
        terminal.send("q")
        assert terminal.wait_exit() == 0
    assert tree(repo) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_screen_merges_nothing_and_restores_the_terminal(
    agent_dev: AgentDev, repo: Path, number: signal.Signals
) -> None:
    before = tree(repo)
    with session(agent_dev, "--", "sh", "-c", "echo new >new") as terminal:
        terminal.wait_for("q quit")
        terminal.wait_quiet()
        terminal.send(" ")
        terminal.kill(number)
        terminal.wait_exit()
        assert b"\x1b[?1049l" in terminal.raw
        assert not terminal.screen.is_alternate()
    assert tree(repo) == before
    assert agent_dev.changes() == {"new": "added"}


def test_merge_opens_the_screen_again(agent_dev: AgentDev, repo: Path) -> None:
    assert agent_dev("--no-merge", "--", "sh", "-c", "echo new >new").returncode == 0
    with session(agent_dev, "merge") as terminal:
        terminal.wait_for("q quit")
        terminal.wait_quiet()
        terminal.send("A")
        terminal.wait_for("selected 1 of 1")
        terminal.send("c")
        terminal.wait_for("No, go back")
        terminal.keys("enter")
        terminal.wait_gone("No, go back")
        assert not (repo / "new").exists()
        terminal.send("c")
        terminal.wait_for("No, go back")
        terminal.send("y")
        terminal.wait_for("agent-dev undo reverts it")
        terminal.keys("q")
        assert terminal.wait_exit() == 0
    assert (repo / "new").read_text() == "new\n"


def is_drawn_to(rows: int) -> Callable[[str], bool]:
    """Return a predicate of a screen's text: whether the footer is in row `rows`."""
    return lambda text: len(text.rstrip().splitlines()) == rows and "q quit" in text.rstrip().splitlines()[-1]


def test_the_screen_follows_a_resize(agent_dev: AgentDev) -> None:
    with session(agent_dev, "--", "sh", "-c", "echo new >new", rows=24, cols=80) as terminal:
        terminal.wait_for("q quit")
        terminal.wait_quiet()
        for rows, cols in ((15, 60), (50, 200), (24, 80)):
            terminal.resize(rows, cols)
            terminal.wait_for(is_drawn_to(rows))
            terminal.wait_quiet()  # two resizes in quick succession may be drawn once
        terminal.send("q")
        assert terminal.wait_exit() == 0


def test_hostile_names_are_escaped_on_the_terminal(agent_dev: AgentDev, repo: Path) -> None:
    name = b"evil\x1b]0;owned\x07\x1b[31m\n\xff[bold]x"
    script = (
        "import os; open(b'" + "".join(f"\\x{byte:02x}" for byte in name) + "', 'w').write('\\x1b]52;c;aGk=\\x07\\r\\x9b31m')"
    )
    with session(agent_dev, "--", "/usr/bin/python3", "-c", script) as terminal:
        terminal.wait_for("q quit")
        terminal.wait_quiet()
        terminal.wait_for("evil")
        terminal.send(" ")
        terminal.wait_for("selected 1 of 1")
        terminal.send("c")
        terminal.wait_for("Apply this risky change?")
        terminal.send("y")
        terminal.wait_for("Apply 1 change?")
        terminal.send("y")
        terminal.wait_for("agent-dev undo reverts it")
        terminal.keys("q")
        assert terminal.wait_exit() == 0
        for raw in (b"owned\x07", b"\x1b]52", b"\x9b31m", b"\x1b[31m\n"):
            assert raw not in terminal.raw
    wait_until((Path(repo) / name.decode("utf-8", "surrogateescape")).exists, "the file in the tree")
