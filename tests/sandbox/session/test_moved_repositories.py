"""A repository that is moved while a session of it waits or runs: commands say so, and work again once it is back."""

from pathlib import Path

import pytest

from tests.harness.program import AgentDev, wait_until


def move_away(agent_dev: AgentDev) -> Path:
    return agent_dev.repo.rename(agent_dev.repo.with_name("moved"))


@pytest.mark.parametrize(
    "words",
    [
        ("diff", "one"),
        ("status", "one"),
        ("merge", "one", "--all", "--export", "out"),
        ("bundle", "one", "out"),
        ("exec", "one", "--", "true"),
        ("resume", "one"),
    ],
    ids=lambda words: words[0],
)
def test_a_waiting_session_names_its_moved_repository_with_a_hint(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    agent_dev.ended_session("echo x >x", "--name", "one")
    moved = move_away(agent_dev)
    done = agent_dev(*words, cwd=moved)
    assert done.returncode == (125 if words[0] == "resume" else 1)
    message, hint = done.stderr.splitlines()[-2:]
    assert (str(agent_dev.repo) in message, "does not exist" in message) == (True, True), done.stderr
    assert hint.startswith("agent-dev: hint: move it back")
    assert not (moved / "out").exists()
    moved.rename(agent_dev.repo)
    agent_dev.do(*words)


def test_a_link_to_a_moved_repository_lets_its_session_be_merged(agent_dev: AgentDev) -> None:
    agent_dev.ended_session("echo x >x", "--name", "one")
    moved = move_away(agent_dev)
    agent_dev.repo.symlink_to(moved)
    assert agent_dev("merge", "one", "--all", cwd=moved).returncode == 0
    assert (moved / "x").read_text() == "x\n"


def test_a_running_session_names_its_moved_repository(agent_dev: AgentDev) -> None:
    with agent_dev.start("--no-merge", "--name", "one", "--", "sh", "-c", "echo x >x; echo ready; read line") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until(lambda: [*agent_dev.state.glob("sessions/*/base/manifest")], "the lower snapshot is taken")
        moved = move_away(agent_dev)
        done = agent_dev("status", "one", cwd=moved)
        moved.rename(agent_dev.repo)
    assert (done.returncode, "does not exist" in done.stderr, "keeps changing" in done.stderr) == (1, True, False), done.stderr
