"""A newcomer's first ten minutes: the commands of the README, the real Claude Code, a scripted model server.

`.ci/wheel` also runs this with the installed wheel: AGENT_DEV_TEST_PROGRAM.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.agents import claude
from tests.harness.agents.model_server import ModelServer, ToolCall, Turn
from tests.harness.program import PROGRAM, AgentDev, tree
from tests.harness.terminal import Shell, Terminal

README = Path(__file__).parents[2] / "README.md"
COMMANDS = ("agent-dev install claude", "agent-dev claude", "agent-dev undo")


def test_the_readme_shows_the_three_commands() -> None:
    text = README.read_text(encoding="utf-8")
    assert all(command in text and len(command) <= 40 for command in COMMANDS)


@pytest.mark.slow
def test_a_newcomer_installs_runs_applies_undoes_and_leaves_nothing(agent_dev: AgentDev, home: Path, repo: Path) -> None:
    before = tree(home)
    with ModelServer(
        [Turn("", (ToolCall("Write", {"file_path": f"{repo}/new.txt", "content": "new\n"}),)), Turn("Done.")]
    ) as server:
        login = {**claude.environment(server.url), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
        write_config(agent_dev, list(claude.environment(server.url)))
        with Shell(rows=24, cols=80, env=agent_dev.terminal_environment(login), cwd=repo) as shell:
            assert "profiles aider, claude, " in shell.run("agent-dev doctor")
            assert "installed" in shell.run(COMMANDS[0], timeout=300)
            apply_the_change_of_claude(shell)
            assert (repo / "new.txt").read_text() == "new\n"
            assert "undone" in shell.run(COMMANDS[2])
            assert not (repo / "new.txt").exists()
            remove_everything(shell)
    assert tree(home) == before
    assert not any((Path(agent_dev.env[name]) / "agent-dev").exists() for name in agent_dev.env if name.startswith("XDG_"))


def write_config(agent_dev: AgentDev, variables: list[str]) -> None:
    """Write a user's configuration that passes these variables to the agent."""
    config = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"env: [{', '.join(variables)}]\n")


def apply_the_change_of_claude(shell: Shell) -> None:
    """Run Claude Code, let it write its file, exit it, and apply the change on the screen."""
    shell.send(f"{COMMANDS[1]}\n")
    claude.onboard(shell)
    claude.send_prompt(shell, "write a file")
    shell.wait_for("Done.")
    claude.send_prompt(shell, "/exit")
    shell.wait_for("c apply")
    shell.wait_quiet()
    shell.keys("A")
    shell.wait_for("selected 1 of 1")
    shell.keys("c")
    shell.wait_for("No, go back")
    shell.keys("y")
    shell.wait_for("1 change merged")
    shell.keys("enter")
    shell.wait_prompt()
    assert shell.status == 0


def asks(count: int) -> Callable[[str], bool]:
    """Return a predicate of a screen's text: whether `clean --everything` has asked this many questions."""
    return lambda text: text.count("remove it for good?") == count


def remove_everything(shell: Shell) -> None:
    """Answer yes to each question of `clean --everything`."""
    shell.send("agent-dev clean --everything\n")
    for number in range(4):  # caches, sessions, settings, the agent home
        shell.wait_for(asks(number + 1))
        shell.send("y\n")
    shell.wait_prompt()
    assert shell.status == 0


@pytest.mark.slow
def test_a_note_is_the_prompt_of_the_resumed_conversation(agent_dev: AgentDev, repo: Path) -> None:
    claude.install(agent_dev.agent_home / ".local/agent")
    write = ToolCall("Write", {"file_path": f"{repo}/new.txt", "content": "first\n"})
    again = ToolCall("Write", {"file_path": f"{repo}/more.txt", "content": "second\n"})
    with ModelServer([Turn("", (write,)), Turn("Done.")]) as server:
        words = [str(PROGRAM), *claude.options(server.url), "-p", "write a file", "claude"]
        with Terminal(words, rows=30, cols=100, env=agent_dev.terminal_environment(), cwd=repo) as terminal:
            claude.onboard(terminal)
            terminal.wait_for("Done.", 60)
            claude.send_prompt(terminal, "/exit")
            terminal.wait_for("c apply")
            terminal.wait_quiet()
            server.add(Turn("", (again,)), Turn("Both are there."))
            terminal.keys("m")
            terminal.wait_for("note to the agent:")
            terminal.send("a second file, please\r")
            terminal.wait_for("1 note (M")
            terminal.keys("M")
            terminal.wait_for("Send 1 note back")
            terminal.keys("y")
            terminal.wait_for("Both are there.", 60)
            claude.send_prompt(terminal, "/exit")
            terminal.wait_for(lambda shown: "more.txt" in shown and "c apply" in shown)
            terminal.wait_quiet()
            terminal.keys("q")
            assert terminal.wait_exit() == 0
        prompts = [str(request.body.get("messages")) for request in server.main_requests]
    assert "write a file" in prompts[-1]  # the same conversation
    assert "a second file, please" in prompts[-1]
    assert agent_dev.changes() == {"new.txt": "added", "more.txt": "added"}
