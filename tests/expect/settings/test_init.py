"""`agent-dev init` on a terminal and in a script: it writes config.yaml, and never over an existing one unasked."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Predicate, Terminal

OWN = "# mine\ntheme: agent-dev-light\nnet: none # for now\n"

PLAIN_ANSWERS = (
    ("mistral-vibe", "2"),
    ("Agent home.", "3"),
    *((title, "") for title in ("Network.", "Memory.", "Time.", "Command policy.", "Pass through.")),
    ("write nothing", "1"),
)


def prompt_after(title: str) -> Predicate:
    return lambda text: title in text and text.rstrip().endswith(">")


def config_of(agent_dev: AgentDev) -> Path:
    return Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"


@pytest.fixture
def config(agent_dev: AgentDev) -> Path:
    """Return the path of config.yaml, which does not exist, in an existing directory."""
    path = config_of(agent_dev)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def start(agent_dev: AgentDev, *words: str, rows: int = 24, cols: int = 80, term: str = "xterm-256color") -> Terminal:
    env = agent_dev.terminal_environment({"TERM": term, "ANTHROPIC_API_KEY": "k-secret"})
    return Terminal([PROGRAM, "init", *words], env=env, cwd=agent_dev.repo, rows=rows, cols=cols)


def turn_pages(terminal: Terminal, *titles: str) -> None:
    """Press enter on each page once it is shown."""
    for title in titles:
        terminal.wait_for(title)
        terminal.keys("enter")


def test_the_screen_writes_what_was_selected_and_shows_the_sandbox(agent_dev: AgentDev, config: Path) -> None:
    config.parent.rmdir()
    with start(agent_dev, rows=40) as terminal:
        before = terminal.stty()
        terminal.wait_for("▸ [ ] aider")
        terminal.keys("down", "space")
        terminal.wait_for("▸ [x] claude")
        turn_pages(terminal, "1/8", "2/8")
        terminal.wait_for("3/8")
        terminal.keys("down")
        turn_pages(terminal, "▸ ( ) no network", "4/8", "5/8", "6/8")
        terminal.wait_for("variable ANTHROPIC_API_KEY")
        terminal.keys("space")
        turn_pages(terminal, "[x] variable ANTHROPIC_API_KEY", "8/8")
        assert terminal.wait_exit() == 0
        shown = terminal.text()
        assert "next  agent-dev install claude" in shown
        assert re.search(r"^net +none ", shown, re.MULTILINE)
        assert "k-secret" not in config.read_text()
        assert terminal.stty() == before
        assert b"\x1b[?1049l" in terminal.raw
    text = config.read_text()
    assert "\nnet: none\n" in text
    assert "\nenv:\n  - ANTHROPIC_API_KEY\n" in text
    assert "net: none" not in agent_dev("show", "bash").stdout
    assert re.search(r"^net +none ", agent_dev("show", "bash").stdout, re.MULTILINE)


@pytest.mark.parametrize(("key", "code"), [("q", 1), ("ctrl+c", 1)])
def test_quitting_writes_nothing(agent_dev: AgentDev, config: Path, key: str, code: int) -> None:
    with start(agent_dev) as terminal:
        terminal.wait_for("1/8")
        terminal.keys(key)
        assert terminal.wait_exit() == code
        assert "nothing was written" in terminal.text()
    assert not config.exists()


def test_a_signal_restores_the_terminal_and_writes_nothing(agent_dev: AgentDev, config: Path) -> None:
    with start(agent_dev) as terminal:
        before = terminal.stty()
        terminal.wait_for("1/8")
        terminal.resize(10, 40)
        terminal.wait_for("1/8")
        terminal.kill(signal.SIGTERM)
        assert terminal.wait_exit() == 128 + signal.SIGTERM
        assert terminal.stty().replace("rows 10; columns 40", "rows 24; columns 80") == before
    assert not config.exists()


def test_a_hangup_ends_the_screen(agent_dev: AgentDev, config: Path) -> None:
    with start(agent_dev) as terminal:
        terminal.wait_for("1/8")
        terminal.hang_up()
        assert terminal.wait_exit() == 128 + signal.SIGHUP
    assert not config.exists()


def test_a_terminal_without_a_size_is_asked_line_by_line(agent_dev: AgentDev) -> None:
    with start(agent_dev, rows=0, cols=0) as terminal:
        terminal.wait_raw(b"Agents. Which")
        terminal.send("q\r")
        assert terminal.wait_exit() == 1


@pytest.mark.parametrize("how", ["--plain", "dumb"])
def test_line_by_line_without_a_screen(agent_dev: AgentDev, config: Path, how: str) -> None:
    words = ("--plain",) if how == "--plain" else ()
    with start(agent_dev, *words, term="dumb" if how == "dumb" else "xterm-256color") as terminal:
        for title, answer in PLAIN_ANSWERS:
            terminal.wait_for(prompt_after(title))
            terminal.send(f"{answer}\r")
        assert terminal.wait_exit() == 0
        assert "next  agent-dev install claude" in terminal.text()
        assert b"\x1b" not in terminal.raw
    assert "\nhome: ~/aihomes/{project}\n" in config.read_text()


def test_on_a_terminal_an_existing_file_is_changed_only_by_a_yes(agent_dev: AgentDev, config: Path) -> None:
    config.write_text(OWN)
    with start(agent_dev, "--policy", "strict") as terminal:
        turn_pages(terminal, *(f"{page}/8" for page in range(1, 8)))
        terminal.wait_for("▸ (•) change")
        terminal.keys("down", "down", "enter")
        assert terminal.wait_exit() == 1
    assert config.read_text() == OWN
    with start(agent_dev, "--policy", "strict") as terminal:
        turn_pages(terminal, *(f"{page}/8" for page in range(1, 9)))
        assert terminal.wait_exit() == 0
    assert config.read_text().startswith(OWN)
    assert "\npolicy: strict\n" in config.read_text()
    assert config.with_name("config.yaml.old").read_text() == OWN


def test_a_script_writes_a_new_file_next_to_an_existing_one(agent_dev: AgentDev, config: Path) -> None:
    config.write_text(OWN)
    new_file = config.with_name("config.yaml.new")
    done = agent_dev("init", "--non-interactive", "--home", "agent")
    assert (done.returncode, config.read_text()) == (0, OWN)
    assert "has no effect" in done.stderr
    assert "agent-dev init --update" in done.stderr
    assert re.search(r"^home +.*/aihome ", done.stdout, re.MULTILINE)
    assert "\nhome: ~/aihomes/{profile}\n" in new_file.read_text()
    kept = new_file.read_text()
    again = agent_dev("init", "--non-interactive", "--net", "host")
    assert (again.returncode, again.stderr.count("\n"), new_file.read_text()) == (1, 2, kept)


def test_a_script_can_change_an_existing_file(agent_dev: AgentDev, config: Path) -> None:
    config.write_text(OWN)
    assert agent_dev("init", "--non-interactive", "--update", "--limit", "memory=2G").returncode == 0
    assert config.read_text().startswith(OWN)
    assert "\nlimits:\n  memory: 2G\n" in config.read_text()
    again = agent_dev("init", "--non-interactive", "--update")
    assert (again.returncode, "already has these settings" in again.stderr) == (0, True)
    assert sorted(path.name for path in config.parent.iterdir()) == ["config.yaml", "config.yaml.old"]


def test_a_file_that_cannot_be_changed_is_a_failure(agent_dev: AgentDev, config: Path) -> None:
    config.write_text("{net: none, theme: nord}\n")
    done = agent_dev("-q", "init", "--non-interactive", "--update", "--net", "allow")
    assert (done.returncode, done.stdout, config.read_text()) == (1, "", "{net: none, theme: nord}\n")
    assert "cannot be changed without losing something" in done.stderr
    assert "config.yaml.new; it has no effect" in done.stderr
    assert "\nnet: allow\n" in config.with_name("config.yaml.new").read_text()


def test_a_linked_file_stays_a_link(agent_dev: AgentDev, config: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.yaml"
    target.write_text(OWN)
    config.symlink_to(target)
    assert agent_dev("init", "--non-interactive", "--update", "--policy", "strict").returncode == 0
    assert config.is_symlink()
    assert "policy: strict" in target.read_text()


def test_a_dry_run_prints_the_file(agent_dev: AgentDev, config: Path) -> None:
    done = agent_dev("init", "--dry-run", "--share", "ssh-agent")
    assert "\nshare:\n  - ssh-agent\n" in done.stdout
    assert not config.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "is not a terminal"),
        (("--agent", "clade"), "did you mean claude?"),
        (("--home", "a\nb"), "control character"),
        (("--net", "web"), "--net"),
        (("--limit", "memory=1"), "too small"),
        (("--limit", "memry=1G"), "did you mean memory?"),
        (("--policy", "none"), "unknown set none"),
        (("--env", "A=1"), "from your environment"),
        (("--env", "1A"), "not a variable name"),
        (("--share", "x"), "--share"),
        (("--ro", "missing"), "does not exist"),
        (("--home", "~/{x}"), "brace"),
        (("--home", "projekt"), "--home projekt: the repository "),
        (("--home", "/"), "contains your home directory"),
        (("--home", os.path.dirname(os.__file__)), "which agent-dev trusts"),
    ],
)
def test_bad_options_change_nothing(agent_dev: AgentDev, config: Path, words: tuple[str, ...], message: str) -> None:
    done = agent_dev("init", *(("--non-interactive",) if words else ()), *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert [*config.parent.iterdir()] == []


def test_without_a_selected_agent_the_next_command_starts_an_installed_one(agent_dev: AgentDev) -> None:
    program = agent_dev.agent_home / ".local/agent/bin/claude"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert "\nnext  agent-dev claude\n" in agent_dev("init", "--non-interactive").stdout
