"""Completion in the interactive shells that are installed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal

STARTS = {
    "bash": (["bash", "--norc", "-i"], "PS1='% '; bind 'set bell-style none'; source <(agent-dev completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "PS1='%% '; autoload -Uz compinit; compinit -u -D; source <(agent-dev completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "function fish_prompt; echo '% '; end; agent-dev completion fish | source"),
}
INSTALLED = [shell for shell in STARTS if shutil.which(shell)]
HOSTILE = "x$(touch ran)`touch ran`;touch ran"


@contextmanager
def shell(kind: str, agent_dev: AgentDev) -> Iterator[Terminal]:
    """Start a shell in the repository and load the completion script."""
    argv, setup = STARTS[kind]
    folder = agent_dev.home / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "agent-dev").unlink(missing_ok=True)
    (folder / "agent-dev").symlink_to(PROGRAM)
    env = agent_dev.terminal_environment({"PATH": f"{folder}:{agent_dev.env['PATH']}", "HISTFILE": None})
    with Terminal(argv, env=env, cwd=agent_dev.repo, rows=40, cols=100) as terminal:
        terminal.wait_quiet()
        terminal.send(f"{setup}; echo loaded-$((1 + 1))\n" if kind != "fish" else f"{setup}; echo loaded-(math 1 + 1)\n")
        terminal.wait_for("loaded-2")
        yield terminal


def completed(terminal: Terminal, line: str, wanted: str) -> None:
    """On a clear screen, type a line, press the tab key twice, wait for a text, and clear line and screen."""
    terminal.send(f"{line}\t\t")
    terminal.wait_for(wanted)
    terminal.send("\x15\x0c")
    terminal.wait_gone(wanted)


COMPLETED = [
    ("agent-dev undis", "agent-dev undiscard"),
    ("agent-dev cla", "agent-dev claude"),
    ("agent-dev merge --every", "agent-dev merge --every-session"),
    ("agent-dev --net=no", "agent-dev --net=none"),
    ("agent-dev --limit mem", "agent-dev --limit memory="),
    ("agent-dev merge --json --", "--every-session"),
    ("agent-dev merge fix", "agent-dev merge fix-login"),
    ("agent-dev merge --take inner/do", "agent-dev merge --take inner/document"),
    ("agent-dev merge --take=inner/do", "agent-dev merge --take=inner/document"),
    ("agent-dev -C inn", "agent-dev -C inner/"),
    ("agent-dev -- setpr", "agent-dev -- setpriv"),
    ("agent-dev tx cla", "agent-dev tx claude"),
    ("agent-dev claude inner/do", "agent-dev claude inner/document"),
    ("agent-dev diff fix", "agent-dev diff fix-login"),
    ("agent-dev diff inner/do", "agent-dev diff inner/document"),
]


@pytest.mark.parametrize("kind", INSTALLED)
def test_the_tab_key_completes_a_line(kind: str, ended: AgentDev) -> None:
    with shell(kind, ended) as terminal:
        terminal.send("\x0c")
        terminal.wait_gone("loaded-2")
        for line, wanted in COMPLETED:
            completed(terminal, line, wanted)


@pytest.fixture
def ended(agent_dev: AgentDev) -> AgentDev:
    """Return the program in a repository with a directory and an ended session."""
    (agent_dev.repo / "inner").mkdir()
    (agent_dev.repo / "inner/document").write_text("text\n")
    agent_dev.ended_session("echo new >new", "--name", "fix-login")
    return agent_dev


@pytest.mark.parametrize("kind", INSTALLED)
def test_a_name_or_a_path_runs_nothing(kind: str, ended: AgentDev) -> None:
    profiles = Path(ended.env["XDG_CONFIG_HOME"]) / "agent-dev/profiles"
    profiles.mkdir(parents=True)
    (profiles / f"{HOSTILE}.yaml").write_text("command: true\n")
    (ended.repo / "inner/document").rename(ended.repo / "inner" / HOSTILE)
    with shell(kind, ended) as terminal:
        for line in ("agent-dev x", "agent-dev config x", "agent-dev diff inner/x", "agent-dev merge --take inner/x"):
            terminal.send(f"{line}\t\t")
            terminal.wait_quiet(1)
            terminal.send("\n")
            terminal.wait_quiet(1)
    assert not (ended.repo / "ran").exists()


@pytest.mark.parametrize("kind", INSTALLED)
def test_the_value_of_a_limit_follows_its_name(kind: str, agent_dev: AgentDev) -> None:
    with shell(kind, agent_dev) as terminal:
        terminal.send("agent-dev --limit mem\t")
        terminal.wait_for("memory=")
        terminal.send("4G")
        terminal.wait_for("memory=4G")
