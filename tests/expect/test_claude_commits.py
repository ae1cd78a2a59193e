"""Import commits of the real Claude Code onto a branch to which the user has committed since the session started."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.agents import claude
from tests.harness.agents.model_server import ModelServer, ToolCall, Turn
from tests.harness.program import AgentDev

COMMIT = "git add -A && git commit -qm"
APART = "git checkout -qb topic HEAD~1 && echo t >topic.txt && git add -A && git commit -qm Topic && git checkout -q -"
MERGE = f"{APART} && git merge -qm 'Take topic' topic"


def clone(agent_dev: AgentDev, _: Path) -> Path:
    return agent_dev.repo


def linked(agent_dev: AgentDev, folder: Path) -> Path:
    agent_dev.git("worktree", "add", "-q", "-b", "side", folder / "linked")
    return folder / "linked"


PLACES: dict[str, Callable[[AgentDev, Path], Path]] = {"a clone": clone, "a linked work tree": linked}


def turns(place: Path, then: str, concurrently: Callable[[], object]) -> list[Turn]:
    """Return a script: two commits, the second after a commit by the user, and then another command."""
    return [
        Turn("", (ToolCall("Write", {"file_path": f"{place}/first.txt", "content": "first\n"}),)),
        Turn("", (_shell(f"{COMMIT} First"),)),
        Turn("", (ToolCall("Write", {"file_path": f"{place}/second.txt", "content": "second\n"}),), while_waiting=concurrently),
        Turn("", (_shell(f"{COMMIT} Second{then and ' && '}{then}"),)),
        Turn("Committed."),
    ]


def _shell(command: str) -> ToolCall:
    return ToolCall("Bash", {"command": command, "description": "git"})


def work(agent_dev: AgentDev, place: Path, then: str = "") -> None:
    """Let Claude Code make commits in a work tree, and the user make one between them."""

    def yours() -> None:
        (place / "mine.txt").write_text("mine\n")
        agent_dev.git("add", "mine.txt", cwd=place)
        agent_dev.git("commit", "-q", "-m", "Mine", "--", "mine.txt", cwd=place)

    claude.install(agent_dev.agent_home / ".local/agent")
    with ModelServer(turns(place, then, yours)) as server:
        done = agent_dev(*claude.options(server.url), "claude", "-p", "commit", cwd=place)
        assert done.returncode == 0, done.stderr
        assert server.is_finished(), server.tool_results


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.slow
def test_commits_of_both_sides_are_combined(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    place = PLACES[kind](agent_dev, tmp_path)
    others = agent_dev.git("for-each-ref", "refs/heads/main") if place != agent_dev.repo else ""
    work(agent_dev, place)
    before = agent_dev.git("rev-parse", "HEAD", cwd=place)
    refused = agent_dev("merge", "--commits", cwd=place)
    assert refused.returncode == 1
    assert "--onto-current" in refused.stdout
    done = agent_dev("merge", "--commits", "--onto-current", cwd=place)

    assert done.returncode == 0, done.stdout + done.stderr
    assert agent_dev.git("log", "-3", "--format=%s", cwd=place) == "Second\nFirst\nMine\n"
    _expect_whole(agent_dev, place, {"first.txt": "first\n", "second.txt": "second\n", "mine.txt": "mine\n"})
    assert not others or agent_dev.git("for-each-ref", "refs/heads/main") == others
    assert agent_dev("undo", cwd=place).returncode == 0
    assert agent_dev.git("rev-parse", "HEAD", cwd=place) == before
    _expect_whole(agent_dev, place, {"mine.txt": "mine\n"})


@pytest.mark.parametrize("kind", PLACES)
def test_merge_commits_of_the_agent_are_merged(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    place = PLACES[kind](agent_dev, tmp_path)
    work(agent_dev, place, MERGE)
    yours = agent_dev.git("rev-parse", "HEAD", cwd=place)
    done = agent_dev("merge", "--commits", "--onto-current", cwd=place)

    assert done.returncode == 0, done.stdout + done.stderr
    assert agent_dev.git("rev-parse", "HEAD^1", cwd=place) == yours
    merged, *others = agent_dev.git("log", "--topo-order", "--format=%s", "HEAD^1..", cwd=place).splitlines()
    assert merged.startswith("Merge the agent's commits of ")
    assert set(others) == {"First", "Second", "Topic", "Take topic"}
    _expect_whole(agent_dev, place, {"first.txt": "first\n", "second.txt": "second\n", "mine.txt": "mine\n", "topic.txt": "t\n"})


def _expect_whole(agent_dev: AgentDev, place: Path, files: dict[str, str]) -> None:
    """Assert that the work tree has exactly these text files, that all changes are committed, and that git finds no error."""
    assert {path.name: path.read_text() for path in place.glob("*.txt")} == files
    assert agent_dev.git("status", "--porcelain", cwd=place) == ""
    assert agent_dev.git("fsck", "--strict", "--no-progress", "--no-dangling", cwd=place) == ""
