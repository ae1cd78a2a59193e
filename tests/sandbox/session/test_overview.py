"""`agent-dev` without arguments shows the state of the repository and the next command."""

from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.sandbox.policy.refusals import nothing_was_made
from tests.sandbox.policy.watched import asking
from tests.sandbox.waiting import waiting_agent


def shown(agent_dev: AgentDev, *words: str | Path, cwd: Path | None = None) -> list[str]:
    done = agent_dev(*words, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_fresh_repository_shows_the_installed_agents(agent_dev: AgentDev) -> None:
    assert shown(agent_dev) == [
        "~/src/shop",
        "  sessions   none running or waiting",
        "  agents     bash, demo; not installed: aider, claude and 14 more",
        "",
        "  next  agent-dev install claude    install an agent (or try: agent-dev demo)",
        "  help  agent-dev --help",
    ]
    assert nothing_was_made(agent_dev)


def test_an_agent_in_the_agent_home_is_installed(agent_dev: AgentDev) -> None:
    program = agent_dev.agent_home / ".local/agent/bin/codex"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    assert "  agents     bash, demo; not installed: aider, claude and 14 more" in shown(agent_dev)  # not executable
    program.chmod(0o755)
    rows = shown(agent_dev, cwd=agent_dev.repo / "sub")
    assert "  agents     bash, codex, demo; not installed: aider, claude and 13 more" in rows
    assert "  next  agent-dev codex    start the agent" in rows


def test_a_faulty_profile_is_left_out(agent_dev: AgentDev) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/profiles"
    folder.mkdir(parents=True)
    (folder / "faulty.yaml").write_text("nonsense: 1\n")
    (folder / "mine.yaml").write_text("command: sh\n")
    assert "  agents     bash, demo, mine; not installed: aider, claude and 14 more" in shown(agent_dev)


def test_waiting_and_running_sessions_are_shown(agent_dev: AgentDev) -> None:
    agent_dev.do("--no-merge", "--name", "one", "--", "touch", "new")
    rows = shown(agent_dev)
    assert rows[1].startswith("  waiting    one  ")
    assert "  next  agent-dev merge    select and apply its changes" in rows
    with waiting_agent(agent_dev, "true", "--name", "two"):
        rows = shown(agent_dev)
        assert [row.split()[:2] for row in rows[1:3]] == [["running", "two"], ["waiting", "one"]]
        assert "  next  agent-dev merge one    select and apply its changes" in rows


def test_a_command_that_waits_for_an_approval_is_shown(guarded: AgentDev) -> None:
    with asking(guarded, "touch asked") as process:
        rows = shown(guarded)
        assert rows[2] == f"  approvals  1 command waits in {guarded.sessions()[0]['session']}"
        assert "  next  agent-dev approve    approve or deny what waits" in rows
        assert guarded("approve", "1").returncode == 0
        process.communicate(timeout=60)


def test_without_a_repository_the_program_is_described(agent_dev: AgentDev, tmp_path: Path) -> None:
    rows = shown(agent_dev, "-C", tmp_path)
    assert rows[0].startswith("agent-dev runs a coding agent ")
    assert any("&& agent-dev claude" in row for row in rows)
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("words", [("--",), ("--net", "none"), ("--no-merge",), ("--name", "x", "--")], ids=" ".join)
def test_options_without_an_agent_are_a_usage_error(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    done = agent_dev(*words)
    what = "a command" if "--" in words else "an agent"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"agent-dev: {what} is missing\nagent-dev: hint: agent-dev --help\n"
    assert nothing_was_made(agent_dev)


def test_help_is_still_the_short_one(agent_dev: AgentDev) -> None:
    for word in ("-h", "--help"):
        assert shown(agent_dev, word)[0].startswith("agent-dev: run a coding agent")
