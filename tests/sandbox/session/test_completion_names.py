"""Completion of the names of sessions, merges and profiles, by the hidden verb that the scripts ask."""

import json
import os
import shutil
from pathlib import Path

import pytest

from agent_dev.fs import checksummed_json
from tests.harness.program import AgentDev, tree


def completed(agent_dev: AgentDev, *typed: str, cwd: Path | None = None, **env: str) -> list[str]:
    """Return the words that are offered for the last argument, without descriptions and what the shell adds."""
    done = agent_dev("__complete", *typed, cwd=cwd, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition("\t")[0] for line in done.stdout.splitlines()[1:]]


@pytest.fixture
def waiting(agent_dev: AgentDev) -> AgentDev:
    """Return the program in a repository with a waiting session."""
    agent_dev.ended_session("echo new >new", "--name", "fix-login")
    return agent_dev


def test_open_sessions_are_offered_by_name_and_id(waiting: AgentDev) -> None:
    number = str(waiting.sessions()[0]["session"])
    assert completed(waiting, "merge", "") == ["fix-login", number]
    assert completed(waiting, "merge", "--all", "fi") == ["fix-login"]
    assert completed(waiting, "rollback", "1", "--session", number[:3]) == [number]
    assert completed(waiting, "rollback", "1", "--session=fi") == ["--session=fix-login"]
    assert completed(waiting, "stop", "") == []
    assert completed(waiting, "undiscard", "") == []


def test_a_running_session_can_be_stopped(agent_dev: AgentDev) -> None:
    with agent_dev.start("--name", "long", "--", "sh", "-c", "echo ready; read line") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert "long" in completed(agent_dev, "stop", "")
        assert "long" in completed(agent_dev, "approve", "--in", "")


def test_discarded_and_merged_sessions_are_offered_where_they_count(waiting: AgentDev) -> None:
    number = str(waiting.sessions()[0]["session"])
    waiting.do("discard")
    assert completed(waiting, "merge", "") == []
    assert completed(waiting, "undiscard", "") == ["fix-login", number]
    waiting.do("undiscard")
    assert completed(waiting, "undo", "") == []
    waiting.do("merge", "--all")
    assert completed(waiting, "merge", "") == []
    (merge,) = completed(waiting, "undo", "")
    assert merge.startswith(number)
    waiting.do("undo", merge)
    assert completed(waiting, "redo", "") == [merge]


def test_sessions_of_another_repository_are_offered_with_its_directory(waiting: AgentDev, tmp_path: Path) -> None:
    waiting.do("merge", "--all", "--dry-run")
    other = tmp_path / "other"
    other.mkdir()
    assert completed(waiting, "merge", "", cwd=other) == []
    assert "fix-login" in completed(waiting, "-C", str(waiting.repo), "merge", "", cwd=other)


def test_own_and_shipped_profiles_are_offered(agent_dev: AgentDev) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/profiles"
    folder.mkdir(parents=True)
    for name in ("cook", "policy", "a b", "$(reboot)"):
        (folder / f"{name}.yaml").write_text("command: true\n")
    assert [name for name in completed(agent_dev, "config", "") if name[:2] in ("co", "po", "a ", "$(")] == [
        "codex",
        "continue",
        "cook",
        "copilot",
    ]
    assert "cook" in completed(agent_dev, "co")


def test_only_profiles_that_a_subcommand_takes_are_offered(agent_dev: AgentDev) -> None:
    assert {"default", "bash", "pi"} <= {*completed(agent_dev, "profiles", "")}
    for words in ((), ("run",), ("show",)):
        offered = completed(agent_dev, *words, "")
        assert {"default", "bash", "pi"} & {*offered} == {"bash", "pi"}
    listed = agent_dev.do("install", "--list").splitlines()[1:]
    assert completed(agent_dev, "install", "") == [line.split()[0] for line in listed]


def test_completion_changes_nothing(waiting: AgentDev) -> None:
    shutil.rmtree(waiting.env["XDG_CACHE_HOME"])
    os.mkdir(f"{waiting.state}/sessions/unfinished")  # which other subcommands move to the trash
    before = tree(waiting.home.parent)
    for typed in (["merge", ""], ["undo", ""], ["undiscard", ""], ["config", ""], ["install", ""], ["--net", ""]):
        completed(waiting, *typed)
    assert tree(waiting.home.parent) == before


def test_damaged_sessions_settings_and_repositories_print_no_error(waiting: AgentDev) -> None:
    session = waiting.state / "sessions" / str(waiting.sessions()[0]["session"])
    (session / "session.json").write_text("{")
    (waiting.state / "merges/unreadable").mkdir()
    (waiting.state / "merges/unreadable/journal").write_text("{\n")
    assert completed(waiting, "merge", "") == []
    assert completed(waiting, "undo", "") == []
    assert completed(waiting, "merge", "", HOME="/nowhere", XDG_STATE_HOME="") == []
    config = Path(waiting.env["XDG_CONFIG_HOME"]) / "agent-dev"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("][")
    assert completed(waiting, "merge", "") == []
    assert "merges" in completed(waiting, "merg")


@pytest.mark.parametrize("name", ["$(touch ran)", "a\x1b[2Jb", "a\nmerge", "-rf", "a b"])
def test_a_name_that_a_shell_would_interpret_is_left_out(waiting: AgentDev, name: str) -> None:
    number = str(waiting.sessions()[0]["session"])
    path = waiting.state / "sessions" / number / "session.json"
    record = checksummed_json.loads(path.read_bytes())
    path.write_bytes(checksummed_json.dumps({**record, "name": name}))
    assert completed(waiting, "merge", "") == [number]
    assert json.loads(waiting.do("sessions", "--json"))["sessions"][0]["name"] == name
