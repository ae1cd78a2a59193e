"""A session without changes is kept while a checkpoint that was taken for a reason, not automatically, contains changes."""

import re

import pytest

from tests.harness.program import AgentDev, wait_until
from tests.sandbox.checkpoint.test_checkpoints import numbers
from tests.sandbox.sandbox.scripted_agent import checkpoint, obedient_agent, reported


def kept(agent_dev: AgentDev) -> bool:
    return bool(agent_dev.sessions())


def test_a_file_created_and_deleted_by_the_agent_is_restored_from_the_trash(agent_dev: AgentDev) -> None:
    done = agent_dev("--no-merge", "bash", "-c", "mkdir own; echo work >own/file; rm -r own")
    assert re.search("no changes are left, but checkpoint [12] contains some", done.stderr)
    assert agent_dev("deleted", "--restore", "own").returncode == 0
    assert agent_dev.changes() == {"own/file": "added"}
    assert agent_dev("merge", "--all").returncode == 0
    assert (agent_dev.repo / "own/file").read_text() == "work\n"


def test_a_discarded_edit_is_restored(agent_dev: AgentDev) -> None:
    done = agent_dev("--no-merge", "bash", "-c", "echo edit >>README.md; git checkout -- README.md")
    number = re.findall(r"checkpoint (\d+) contains some", done.stderr)[0]
    assert agent_dev("rollback", number).returncode == 0
    assert agent_dev.changes() == {"README.md": "edited"}


def test_a_rollback_to_the_start_can_be_rolled_back_after_the_session_ends(agent_dev: AgentDev) -> None:
    with obedient_agent(agent_dev) as process:
        first = int(checkpoint(agent_dev))
        reported(process, "echo work >file")
        before = int(agent_dev("rollback", str(first)).stdout.split()[-1])
    assert agent_dev.changes() == {}
    assert before in numbers(agent_dev)
    assert agent_dev("rollback", str(before)).returncode == 0
    assert agent_dev.changes() == {"file": "added"}


def test_resuming_a_session_keeps_its_earlier_content(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--", "sh", "-c", "echo work >file; sleep 0.3")
    number = checkpoint(agent_dev)
    agent_dev("resume", "--", "rm", "file")
    assert agent_dev("rollback", number).returncode == 0
    assert agent_dev.changes() == {"file": "added"}


@pytest.mark.parametrize(
    "script",
    [
        "mkdir out; echo x >out/built; rm -r out",  # ignored by git
        "touch README.md; rm -r sub; git checkout -- sub",  # committed in the repository
        "rm -rf no-such",
    ],
)
def test_a_session_without_lost_content_leaves_nothing(agent_dev: AgentDev, script: str) -> None:
    (agent_dev.repo / ".gitignore").write_text("out/\n")
    done = agent_dev("--no-merge", "bash", "-c", f"{script}; sleep 0.3")
    assert (done.returncode, done.stderr) == (0, "")
    assert not kept(agent_dev)
    wait_until(lambda: not agent_dev.session_directories(), "the session is gone")
