"""State and files that a newer agent-dev has written."""

import json
from pathlib import Path

import pytest

from agent_dev.fs import checksummed_json
from agent_dev.session import store
from tests.harness.agents import real_home
from tests.harness.program import AgentDev, tree

COMMANDS = ("status", "merge --all", "undo", "sessions", "clean --all", "discard", "resume", "checkpoints", "log", "doctor")


@pytest.fixture
def newer(agent_dev: AgentDev) -> AgentDev:
    agent_dev("--no-merge", "--", "touch", "new")
    assert (agent_dev.state / "format").read_bytes() == store.format_line(1)
    (agent_dev.state / "format").write_bytes(store.format_line(2))
    return agent_dev


def test_every_command_refuses_newer_state_in_one_line(newer: AgentDev) -> None:
    before = tree(newer.state)
    for command in COMMANDS:
        done = newer(*command.split())
        assert done.returncode == 1, command
        message, hint = done.stderr.splitlines()
        assert "was written by a newer agent-dev: it has format 2, this version reads up to 1" in message
        assert hint.startswith("agent-dev: hint: upgrade agent-dev")
    assert tree(newer.state) == before


def test_no_agent_starts_on_newer_state(newer: AgentDev) -> None:
    before = tree(newer.state)
    done = newer("--", "touch", "other")
    assert done.returncode == 125
    assert "newer agent-dev" in done.stderr
    assert (tree(newer.state), "other" in tree(newer.repo)) == (before, False)


@pytest.mark.parametrize("text", ["", "x", "1", "2", "2 00000000\n", "0" * 100])
def test_a_damaged_format_is_ignored(newer: AgentDev, text: str) -> None:
    (newer.state / "format").write_text(text)
    assert newer.changes() == {"new": "added"}


def make_newer(path: Path) -> None:
    """Raise the version of a JSON file, and change everything else in it."""
    path.write_text(json.dumps({"version": json.loads(path.read_text())["version"] + 1, "items": 5, "root": str(path)}))


def expect_refusal(agent_dev: AgentDev, path: Path, *words: str | Path) -> None:
    """Assert that a command is refused in one line and a hint, and changes nothing."""
    before = tree(agent_dev.home.parent)
    done = agent_dev(*words)
    assert done.returncode == 1, done
    message, hint = done.stderr.splitlines()
    assert message.endswith(f"{path} was written by a newer agent-dev: it has version 2, this version reads up to 1")
    assert hint.startswith("agent-dev: hint: upgrade agent-dev, or ")
    assert tree(agent_dev.home.parent) == before


def test_backups_of_a_newer_version_are_neither_continued_nor_pruned(agent_dev: AgentDev, tmp_path: Path) -> None:
    words = ("backup", "once", ".", "--to", tmp_path / "backups", "--keep", "1")
    agent_dev.do(*words)
    [path] = (tmp_path / "backups" / ".agent-dev-backups").glob("*.json")
    make_newer(path)
    (agent_dev.repo / "README.md").write_text("changed\n")
    expect_refusal(agent_dev, tmp_path / "backups" / path.stem, *words)


def test_a_direct_runs_newer_backup_and_snapshot_are_not_restored(agent_dev: AgentDev) -> None:
    agent_dev.do("run", "--direct", "--", "sh", "-c", "echo direct >new")
    [path] = agent_dev.state.glob("snapshots/*/rounds/.agent-dev-backups/*.json")
    [snapshot] = agent_dev.state.glob("snapshots/*")
    make_newer(path)
    expect_refusal(agent_dev, snapshot / "rounds" / path.stem, "restore", f"{snapshot.name}/{path.stem}")
    about = snapshot / "about.json"
    about.write_bytes(checksummed_json.dumps(checksummed_json.loads(about.read_bytes()) | {"version": 2}))
    expect_refusal(agent_dev, about, "restore", "--list")
    expect_refusal(agent_dev, about, "restore")
    assert agent_dev("run", "--direct", "--", "true").returncode == 0


def test_a_record_of_imports_of_a_newer_version_is_not_replaced(agent_dev: AgentDev) -> None:
    real_home.lay_out(agent_dev.home)
    agent_dev.do("home", "--import", "--all-safe", "--yes")
    [path] = agent_dev.state.glob("homes/*.import")
    make_newer(path)
    expect_refusal(agent_dev, path, "home", "--import", "--all-safe", "--yes")
