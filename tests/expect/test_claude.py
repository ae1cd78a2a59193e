"""The real Claude Code in the real sandbox, against a scripted model server on this machine."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.agents import claude
from tests.harness.agents.model_server import ModelServer, ToolCall, Turn
from tests.harness.program import PROGRAM, AgentDev, tree
from tests.harness.terminal import Terminal

WORK = (
    Turn("I look first.", (ToolCall("Read", {"file_path": "{repo}/README.md"}),)),
    Turn(
        "Now the changes.",
        (
            ToolCall("Edit", {"file_path": "{repo}/README.md", "old_string": "# Shop", "new_string": "# The shop"}),
            ToolCall("Write", {"file_path": "{repo}/docs/new.md", "content": "made by the agent\n"}),
        ),
    ),
    Turn(
        "And the rest.",
        (
            ToolCall(
                "Bash",
                {
                    "command": "rm sub/deep/note.txt && git add -A && git commit -qm 'Work of the agent'",
                    "description": "delete and commit",
                },
            ),
        ),
    ),
    Turn("All done."),
)


def script(repo: Path) -> list[Turn]:
    """Return the turns with the repository's path filled in."""
    return [Turn(turn.text, tuple(ToolCall(call.name, placed(call.input, repo)) for call in turn.calls)) for turn in WORK]


def placed(words: Mapping[str, object], repo: Path) -> dict[str, object]:
    """Return a tool's input with the repository's path filled in."""
    return {name: str(text).replace("{repo}", str(repo)) for name, text in words.items()}


@pytest.fixture
def with_claude(home: Path, agent_dev: AgentDev) -> AgentDev:
    """Return the program, with Claude Code installed into the agent home."""
    claude.install(home / "aihome/.local/agent")
    return agent_dev


def test_claude_works_inside_and_only_selected_changes_are_applied(with_claude: AgentDev, repo: Path) -> None:
    before = tree(repo)
    with ModelServer(script(repo)) as server:
        done = with_claude(*claude.options(server.url), "claude", "-p", "do it")
    assert done.returncode == 0, done.stderr
    assert server.is_finished()
    assert tree(repo) == before
    status = with_claude.status()
    assert [commit["subject"] for commit in status["commits"]] == ["Work of the agent"]
    assert with_claude.changes() == {"README.md": "edited", "docs/new.md": "added", "sub/deep/note.txt": "deleted"}

    assert with_claude("merge", "--take", "README.md").returncode == 0
    assert (repo / "README.md").read_text() == "# The shop\n"
    assert not (repo / "docs").exists()
    assert (repo / "sub/deep/note.txt").exists()
    assert with_claude("merge", "--all", "--include-risky").returncode == 0
    assert (repo / "docs/new.md").read_text() == "made by the agent\n"
    assert not (repo / "sub/deep/note.txt").exists()
    assert with_claude.git("log", "--format=%s").splitlines() == ["Count to two", "Start the shop"]


@pytest.mark.slow
def test_the_second_run_needs_no_onboarding_and_the_screen_follows(with_claude: AgentDev, repo: Path) -> None:
    with ModelServer() as server:
        words = [str(PROGRAM), *claude.options(server.url), "claude"]
        environment = with_claude.terminal_environment()
        with Terminal(words, rows=30, cols=100, env=environment, cwd=repo) as terminal:
            assert claude.onboard(terminal)
            server.add(Turn("", (ToolCall("Write", {"file_path": f"{repo}/typed.txt", "content": "typed\n"}),)), Turn("Written."))
            claude.send_prompt(terminal, "write a file")
            terminal.wait_for("Written.")
            terminal.resize(24, 80)
            terminal.wait_for(claude.is_ready)
            server.add(Turn("Thinking", held=True))
            claude.send_prompt(terminal, "think for ever")
            terminal.wait_for(lambda _: len(server.main_requests) == 3)
            terminal.send("\x03")
            terminal.wait_quiet(1.0, 30)  # the screen is never quiet while the agent is thinking
            terminal.send("\x15")  # delete the prompt: an interrupted one is put back
            terminal.wait_quiet(0.5, 30)
            assert claude.is_ready(terminal.text())
            claude.send_prompt(terminal, "/exit")
            terminal.wait_for("typed.txt")
            terminal.wait_for("q quit")
            terminal.wait_quiet()  # keys typed before the first paint are dropped
            assert not (repo / "typed.txt").exists()
            terminal.send("q")
            assert terminal.wait_exit() == 0
        with Terminal(words, rows=24, cols=80, env=environment, cwd=repo) as terminal:
            assert claude.onboard(terminal) == []
            claude.send_prompt(terminal, "/exit")
            assert terminal.wait_exit() == 0
    assert with_claude.changes() == {"typed.txt": "added"}
