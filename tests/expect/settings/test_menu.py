"""`agent-dev` without arguments on a terminal: a menu that runs commands, and leaves the terminal as it was."""

import os
import signal

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Shell, Terminal

CLOSED = b"\x1b[?1049l"


def start(agent_dev: AgentDev, *words: str, rows: int = 24, cols: int = 80, term: str = "xterm-256color") -> Terminal:
    env = agent_dev.terminal_environment({"TERM": term})
    return Terminal([PROGRAM, *words], env=env, cwd=agent_dev.repo, rows=rows, cols=cols)


@pytest.fixture
def waiting(agent_dev: AgentDev) -> AgentDev:
    """Return the program in a repository with a session `first` that waits."""
    assert agent_dev("--no-merge", "--name", "first", "--", "sh", "-c", "echo new > new.txt").returncode == 0
    return agent_dev


def test_enter_runs_the_first_command_and_prints_it(waiting: AgentDev) -> None:
    with start(waiting) as terminal:
        before = terminal.stty()
        shown = terminal.wait_for("> r  review session first")
        assert "first" in shown.splitlines()[1]
        assert "agent-dev merge first" in shown
        terminal.keys("enter")
        terminal.wait_for("c apply")  # the review screen
        terminal.wait_quiet()
        terminal.keys("q")
        assert terminal.wait_exit() == 0
        assert b"$ agent-dev merge first" in terminal.raw
        assert terminal.stty() == before


def test_a_row_as_wide_as_the_terminal_is_not_erased_at_its_end(waiting: AgentDev) -> None:
    with start(waiting, cols=40) as terminal:
        terminal.wait_for("> r  review session first")
        terminal.keys("q")
        assert terminal.wait_exit() == 0
    row = next(row for row in terminal.raw.split(b"\r\n") if b"waiting" in row)
    assert "…" in row.decode()
    assert b"\x1b[K" not in row.partition(b"waiting")[2]


def test_arrows_and_hot_keys_select_with_the_options_of_the_menu(agent_dev: AgentDev) -> None:
    other = agent_dev.home / "other"
    other.mkdir()
    with start(agent_dev, "-C", str(agent_dev.repo)) as terminal:
        terminal.wait_for("> b  start a shell")
        terminal.keys("down")
        terminal.wait_for("> d  try")
        terminal.keys("h")
        assert terminal.wait_exit() == 0
        assert "$ agent-dev --help" in terminal.text() or b"$ agent-dev --help" in terminal.raw
        assert "run a coding agent" in terminal.text()


def test_a_shell_from_the_menu_has_the_terminal(agent_dev: AgentDev) -> None:
    with start(agent_dev, "--plain") as terminal:
        assert terminal.wait_exit() == 0
        assert b"\x1b" not in terminal.raw
    with start(agent_dev) as terminal:
        terminal.wait_for("> b  start a shell")
        terminal.keys("b")
        terminal.wait_for("$ agent-dev bash")
        terminal.send("echo $((6*7)); exit 3\r")
        assert terminal.wait_exit() == 3
        assert "42" in terminal.text()


@pytest.mark.parametrize("key", ["q", "escape", "ctrl+d"])
def test_leaving_prints_the_state(waiting: AgentDev, key: str) -> None:
    with start(waiting) as terminal:
        before = terminal.stty()
        terminal.wait_for("> r")
        terminal.keys(key)
        assert terminal.wait_exit() == 0
        assert "next  agent-dev merge" in terminal.text()
        assert CLOSED in terminal.raw
        assert terminal.stty() == before


@pytest.mark.parametrize("how", ["ctrl+c", signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(waiting: AgentDev, how: str | signal.Signals) -> None:
    with start(waiting) as terminal:
        before = terminal.stty()
        terminal.wait_for("> r")
        if isinstance(how, str):
            terminal.keys(how)
        else:
            terminal.kill(how)
        assert terminal.wait_exit() == 128 + (signal.SIGINT if isinstance(how, str) else how)
        assert CLOSED in terminal.raw
        assert terminal.stty() == before


def test_a_resize_is_followed_and_the_cursor_stays_visible(waiting: AgentDev) -> None:
    with start(waiting) as terminal:
        terminal.wait_for("> r")
        terminal.resize(10, 40)
        shown = terminal.wait_for(lambda text: "> r" in text and "agent-dev merge" not in text)
        assert "h  help" in shown
        terminal.resize(4, 30)
        terminal.keys(*["down"] * 9)
        terminal.wait_for("> h  help")
        terminal.resize(24, 80)
        terminal.wait_for("agent-dev merge first")
        terminal.keys("q")
        assert terminal.wait_exit() == 0


def test_keys_typed_before_the_menu_are_dropped(waiting: AgentDev) -> None:
    with Shell(env=waiting.terminal_environment(), cwd=waiting.repo) as shell:
        shell.send(f"{PROGRAM}\nuq\n\n")
        shell.wait_for("> r  review session first")
        shell.keys("q")
        shell.wait_prompt()
        assert "next  agent-dev merge" in shell.text()
        assert b"$ agent-dev " not in shell.raw
    assert (waiting.repo / "new.txt").exists() is False


def test_the_menu_can_be_suspended(waiting: AgentDev) -> None:
    with Shell(env=waiting.terminal_environment(), cwd=waiting.repo) as shell:
        shell.start(str(PROGRAM))
        shell.wait_for("> r")
        shell.keys("ctrl+z")
        shell.wait_prompt()
        shell.start("fg")
        shell.wait_for("> r")
        shell.keys("q")
        shell.wait_prompt()
        assert shell.status == 0


def test_undo_is_offered_after_a_merge_here_only(waiting: AgentDev) -> None:
    with start(waiting) as terminal:
        assert "undo" not in terminal.wait_for("> r")
    assert waiting("merge", "--all").returncode == 0
    with start(waiting) as terminal:
        terminal.wait_for("u  undo the last merge")
        terminal.keys("u")
        assert terminal.wait_exit() == 0
    assert not (waiting.repo / "new.txt").exists()


def test_without_a_repository_newcomers_get_a_menu(agent_dev: AgentDev) -> None:
    with Terminal([PROGRAM], env=agent_dev.terminal_environment(), cwd=agent_dev.home) as terminal:
        shown = terminal.wait_for("> d  try a scripted agent")
        assert "i  install claude" in shown
        terminal.keys("escape")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize("where", ["pipe", "dumb", "plain"])
def test_elsewhere_the_text_alone_is_printed(waiting: AgentDev, where: str) -> None:
    if where == "pipe":
        done = waiting()
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "  help  agent-dev --help")
        assert "\x1b" not in done.stdout
        return
    words = ("--plain",) if where == "plain" else ()
    with start(waiting, *words, term="dumb" if where == "dumb" else "xterm-256color") as terminal:
        assert terminal.wait_exit() == 0
        assert "next  agent-dev merge" in terminal.text()
        assert b"\x1b" not in terminal.raw


def test_plain_takes_no_argument(agent_dev: AgentDev) -> None:
    done = agent_dev("--plain", "bash")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == "agent-dev: --plain takes no argument: bash"


def test_a_hangup_ends_the_menu(waiting: AgentDev) -> None:
    with start(waiting) as terminal:
        terminal.wait_for("> r")
        pid = terminal.pid
        terminal.hang_up()
        terminal.wait_exit()
        assert not os.path.exists(f"/proc/{pid}/fd")
