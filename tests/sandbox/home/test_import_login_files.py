"""Login files of the real home are opened only by `home --import` and after a yes: seen by strace."""

import re
from pathlib import Path

import pytest

from tests.harness.agents import real_home
from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal

_OPENED = re.compile(r"^\d+ +open\w*\(.*= \d+<([^>]*)>$", re.MULTILINE)


def strace(trace: Path) -> tuple[str, ...]:
    """Return the command that records each file that is opened, of all processes."""
    return ("strace", "-f", "-y", "-s", "4096", "-e", "trace=open,openat,openat2,open_by_handle_at", "-o", str(trace))


def opened(trace: Path, home: Path) -> set[str]:
    """Return the login files of the real home that were opened, relative to it."""
    paths = _OPENED.findall(trace.read_text(errors="replace"))
    assert len(paths) > 50
    return {name for name in real_home.LOGINS if f"{home}/{name}" in paths}


@pytest.fixture
def ada(agent_dev: AgentDev) -> AgentDev:
    """Return the program of a user with logins of agents in the real home."""
    real_home.lay_out(agent_dev.home)
    return agent_dev


WITHOUT_A_YES = (
    ("home",),
    ("home", "--json"),
    ("home", "--import"),
    ("home", "--import", "--json"),
    ("home", "--import", "--select", "login"),
    ("home", "--import", "--select", "memory", "skills", "settings", "--yes"),
    ("home", "--import", "--update"),
    ("home", "--reset", "--keep-login"),
    ("install", "--list"),
    ("show", "claude"),
    ("--no-merge", "--", "sh", "-c", "cat ~/.claude/.credentials.json ~/.claude.json ~/.codex/auth.json"),
)


@pytest.mark.parametrize("words", WITHOUT_A_YES, ids=" ".join)
def test_no_login_is_opened_without_a_yes(ada: AgentDev, tmp_path: Path, words: tuple[str, ...]) -> None:
    if words[-1] == "--update":
        ada.do("home", "--import", "--select", "login", "memory", "--yes")
    ada(*words, before=strace(tmp_path / "trace"), timeout=120)
    assert opened(tmp_path / "trace", ada.home) == set()


def test_only_the_selected_login_is_opened_after_a_yes(ada: AgentDev, tmp_path: Path) -> None:
    words = ("home", "--import", "--select", ".codex/auth.json", "memory", "--yes")
    assert ada(*words, before=strace(tmp_path / "trace"), timeout=120).returncode == 0
    assert opened(tmp_path / "trace", ada.home) == {".codex/auth.json"}


@pytest.mark.parametrize(("answer", "expected"), [("n", set[str]()), ("", set[str]()), ("y", {".claude/.credentials.json"})])
def test_the_answer_decides_whether_a_login_is_opened(ada: AgentDev, tmp_path: Path, answer: str, expected: set[str]) -> None:
    words = (str(PROGRAM), "home", "--import", "--select", ".claude/.credentials.json")
    with Terminal([*strace(tmp_path / "trace"), *words], env=ada.terminal_environment(), cwd=ada.repo) as terminal:
        terminal.wait_for("[y/N]")
        assert opened(tmp_path / "trace", ada.home) == set()
        terminal.send(f"{answer}\r")
        assert terminal.wait_exit() == (0 if expected else 1)
    assert opened(tmp_path / "trace", ada.home) == expected
