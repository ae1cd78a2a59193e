"""`agent-dev home --import` on a terminal: a numbered list of 80x24, and a question before anything is copied."""

import pytest

from tests.harness.agents import real_home
from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal


def asked(agent_dev: AgentDev, *words: str) -> Terminal:
    """Start `agent-dev home --import` on a terminal."""
    real_home.lay_out(agent_dev.home)
    argv = [str(PROGRAM), "home", "--import", *words]
    return Terminal(argv, env=agent_dev.terminal_environment(), cwd=agent_dev.repo)


def test_safe_items_are_selected_and_numbers_change_that(agent_dev: AgentDev) -> None:
    with asked(agent_dev) as terminal:
        screen = terminal.wait_for("enter copies 4, q quits:")
        assert "  1 [x]  memory    .claude/CLAUDE.md" in screen
        assert " [ ]  login     .claude/.credentials.json" in screen
        assert all(len(line.rstrip()) <= 80 for line in screen.splitlines())
        number = next(line.split()[0] for line in screen.splitlines() if ".codex/auth.json" in line)
        terminal.send(f"1 {number} 99\r")
        terminal.wait_for("99 is not a number from 1 to 11")
        terminal.wait_for("[ ]  memory")
        terminal.wait_quiet()
        terminal.send("\r")
        screen = terminal.wait_for("copy 4 items, 1 with secrets, to")
        assert "can log out the one in your home" in screen
        terminal.wait_for("? [y/N]")
        terminal.send("y\r")
        assert terminal.wait_exit() == 0
        assert "copied 4 of 4 items" in terminal.text()
    assert (agent_dev.agent_home / ".codex/auth.json").read_text() == "canary-codex\n"
    assert not (agent_dev.agent_home / ".claude/CLAUDE.md").exists()


@pytest.mark.parametrize(("typed", "code"), [("q\r", 0), ("\x04", 0), ("\r\r", 1), ("\rn\r", 1)])
def test_nothing_is_copied_without_a_yes(agent_dev: AgentDev, typed: str, code: int) -> None:
    with asked(agent_dev) as terminal:
        terminal.wait_for("q quits:")
        first, rest = typed[0], typed[1:]
        if first == "\r":
            terminal.send(first)
            terminal.wait_for("? [y/N]")
            terminal.send(rest)
        else:
            terminal.send(typed)
        assert terminal.wait_exit() == code
        assert "nothing was copied" in terminal.text()
    assert not agent_dev.agent_home.exists()


def test_differences_are_shown_before_anything_is_replaced(agent_dev: AgentDev) -> None:
    memory = agent_dev.agent_home / ".claude/CLAUDE.md"
    memory.parent.mkdir(parents=True)
    memory.write_text("be \x1b[2Jrude\n")
    with asked(agent_dev, "claude") as terminal:
        screen = terminal.wait_for("d compares, enter copies 2, q quits:")
        assert "  1 [ ]  memory    .claude/CLAUDE.md" in screen
        terminal.send("d\r")
        terminal.wait_for("-be \u241b[2Jrude")
        terminal.wait_for("+be kind")
        terminal.wait_for(lambda screen: screen.count("q quits:") == 2)  # what is typed before a question is discarded
        terminal.send("1\r")
        terminal.wait_for("enter copies 3")
        terminal.send("\r")
        terminal.wait_for("replaces in the agent home: .claude/CLAUDE.md")
        terminal.wait_for("? [y/N]")
        assert memory.read_text() == "be \x1b[2Jrude\n"
        terminal.send("y\r")
        assert terminal.wait_exit() == 0
    assert memory.read_text() == "be kind\n"


def test_a_file_that_changes_during_the_question_is_not_copied(agent_dev: AgentDev) -> None:
    home, agent_home = agent_dev.home, agent_dev.agent_home
    words = ("--select", "memory", "skills", ".codex/config.toml", ".codex/auth.json", ".claude/.credentials.json")
    with asked(agent_dev, *words) as terminal:
        terminal.wait_for("? [y/N]")
        (home / ".claude/CLAUDE.md").write_text("evil\n")
        (home / ".codex/auth.json").unlink()
        (home / ".codex/auth.json").symlink_to(home / ".ssh/id_ed25519")
        (home / ".claude/.credentials.json").unlink()
        (agent_home / ".claude/skills/a").mkdir(parents=True)
        (agent_home / ".claude/skills/a/SKILL.md").write_text("the agent's\n")
        (agent_home / ".codex").mkdir()
        (agent_home / ".codex/config.toml").write_text('model = "own"\n')
        terminal.send("y\r")
        assert terminal.wait_exit() == 1
        screen = " ".join(terminal.text().split())
    assert "not copied: .claude/CLAUDE.md: it changed since it was listed" in screen
    assert "not copied: .codex/auth.json: it changed since it was listed" in screen
    assert "not copied: .claude/.credentials.json: it changed since it was listed" in screen
    assert "not copied: .claude/skills/a/SKILL.md: the file in the agent home changed since it was listed" in screen
    assert "not copied: .codex/config.toml: the file in the agent home changed since it was listed" in screen
    assert "copied 0 of 5 items" in screen
    found = {str(path.relative_to(agent_home)) for path in agent_home.rglob("*") if path.is_file()}
    assert found == {".claude/skills/a/SKILL.md", ".claude/skills/a/run.sh", ".codex/config.toml"}
    assert (agent_home / ".claude/skills/a/SKILL.md").read_text() == "the agent's\n"
