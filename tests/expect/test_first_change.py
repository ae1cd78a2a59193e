"""From nothing to the first applied change: the commands of the README, the real Claude Code, a scripted model server."""

from pathlib import Path

import pytest

from tests.harness.agents import claude
from tests.harness.agents.model_server import ModelServer, ToolCall, Turn
from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal

README = Path(__file__).parents[2] / "README.md"
COMMANDS = ("agent-dev install claude", "agent-dev claude", "agent-dev undo")


def test_the_readme_shows_the_three_commands() -> None:
    text = README.read_text(encoding="utf-8")
    assert all(command in text and len(command) <= 40 for command in COMMANDS)


@pytest.mark.slow
def test_three_commands_lead_to_the_first_change(agent_dev: AgentDev, repo: Path) -> None:
    installed = agent_dev(*COMMANDS[0].split()[1:], timeout=300)
    assert installed.returncode == 0, installed.stderr
    with ModelServer(
        [Turn("", (ToolCall("Write", {"file_path": f"{repo}/new.txt", "content": "new\n"}),)), Turn("Done.")]
    ) as server:
        environment = agent_dev.terminal_environment(claude.environment(server.url))
        config = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f"env: [{', '.join(claude.environment(server.url))}]\n")
        with Terminal([PROGRAM, *COMMANDS[1].split()[1:]], rows=24, cols=80, env=environment, cwd=repo) as terminal:
            claude.onboard(terminal)
            claude.send_prompt(terminal, "write a file")
            terminal.wait_for("Done.")
            claude.send_prompt(terminal, "/exit")
            terminal.wait_for("c apply")
            terminal.wait_quiet()
            terminal.keys("A")
            terminal.wait_for("selected 1 of 1")
            terminal.keys("c")
            terminal.wait_for("No, go back")
            terminal.keys("y")
            terminal.wait_for("1 change merged")
            terminal.keys("enter")
            assert terminal.wait_exit() == 0
    assert (repo / "new.txt").read_text() == "new\n"
    assert agent_dev(*COMMANDS[2].split()[1:]).returncode == 0
    assert not (repo / "new.txt").exists()


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
