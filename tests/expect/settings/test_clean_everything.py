"""`agent-dev clean --everything` on a terminal."""

from pathlib import Path

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal


def asked(agent_dev: AgentDev) -> Terminal:
    return Terminal([str(PROGRAM), "clean", "--everything"], env=agent_dev.terminal_environment(), cwd=agent_dev.repo)


def answer(terminal: Terminal, place: str, key: str) -> None:
    terminal.wait_for(place)
    terminal.wait_for("remove it for good? [y/N]")
    terminal.wait_quiet()
    terminal.send(f"{key}\r")


def test_each_directory_is_removed_only_after_a_yes(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--", "touch", "new")
    assert agent_dev.state.is_dir()
    with asked(agent_dev) as terminal:
        answer(terminal, "caches", "y")
        answer(terminal, "1 with changes that are not merged", "y")
        answer(terminal, "an agent home with its logins", "n")
        assert terminal.wait_exit() == 0
    assert not agent_dev.state.exists()
    assert agent_dev.agent_home.is_dir()
    assert "an agent home" in agent_dev("clean", "--everything", "--dry-run").stdout


def test_nothing_is_removed_without_a_terminal_or_while_a_session_runs(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--", "touch", "new")
    refused = agent_dev("clean", "--everything")
    assert (refused.returncode, agent_dev.state.is_dir()) == (2, True)
    assert "--dry-run" in refused.stderr
    with agent_dev.start("--no-merge", "--", "sh", "-c", "echo started; read end") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        refused = agent_dev("clean", "--everything", "--dry-run")
        assert refused.returncode == 1
        assert "is running" in refused.stderr


def test_files_of_the_user_in_a_configured_state_directory_stay(agent_dev: AgentDev) -> None:
    place = agent_dev.home / "data"
    config = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"state: {place}\nhome: {agent_dev.home.parent}\n")
    place.mkdir()
    (place / "own.txt").write_text("mine")
    agent_dev("--no-merge", "--home", str(agent_dev.agent_home), "--", "touch", "new")
    assert (place / "sessions").is_dir()
    with asked(agent_dev) as terminal:
        answer(terminal, "caches", "n")
        answer(terminal, "1 with changes that are not merged", "y")
        answer(terminal, "your settings and profiles", "n")
        assert terminal.wait_exit() == 0
    assert (place / "own.txt").read_text() == "mine"
    assert not (place / "sessions").exists()
