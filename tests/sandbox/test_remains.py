"""A session of which nothing is left is kept as long as a checkpoint that was taken for a reason has what there was."""

import re

import pytest

from tests.harness.program import AgentDev, wait_until
from tests.sandbox.obedient import checkpoint, obedient_agent, told
from tests.sandbox.test_checkpoints import numbers


def kept(agent_dev: AgentDev) -> bool:
    return bool(agent_dev.sessions())


def test_what_an_agent_made_and_removed_comes_back_out_of_the_trash(agent_dev: AgentDev) -> None:
    done = agent_dev("--no-merge", "bash", "-c", "mkdir own; echo work >own/file; rm -r own")
    assert re.search("nothing is left of what changed; checkpoint [12] has what there was", done.stderr)
    assert agent_dev("trash", "--bring", "own").returncode == 0
    assert agent_dev.changes() == {"own/file": "added"}
    assert agent_dev("merge", "--all").returncode == 0
    assert (agent_dev.repo / "own/file").read_text() == "work\n"


def test_an_edit_that_was_thrown_away_comes_back(agent_dev: AgentDev) -> None:
    done = agent_dev("--no-merge", "bash", "-c", "echo edit >>README.md; git checkout -- README.md")
    number = re.findall(r"checkpoint (\d+) has what there was", done.stderr)[0]
    assert agent_dev("rollback", number).returncode == 0
    assert agent_dev.changes() == {"README.md": "edited"}


def test_a_rollback_of_a_running_session_to_its_beginning_can_be_rolled_back_when_it_has_ended(agent_dev: AgentDev) -> None:
    with obedient_agent(agent_dev) as process:
        first = int(checkpoint(agent_dev))
        told(process, "echo work >file")
        before = int(agent_dev("rollback", str(first)).stdout.split()[-1])
    assert agent_dev.changes() == {}
    assert before in numbers(agent_dev)
    assert agent_dev("rollback", str(before)).returncode == 0
    assert agent_dev.changes() == {"file": "added"}


def test_what_a_session_held_before_it_was_resumed_is_not_gone_with_it(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--", "sh", "-c", "echo work >file; sleep 0.3")
    number = checkpoint(agent_dev)
    agent_dev("resume", "--", "rm", "file")
    assert agent_dev("rollback", number).returncode == 0
    assert agent_dev.changes() == {"file": "added"}


@pytest.mark.parametrize(
    "script",
    [
        "mkdir out; echo x >out/built; rm -r out",  # git ignores it
        "touch README.md; rm -r sub; git checkout -- sub",  # the repository has it
        "rm -rf no-such",
    ],
)
def test_a_session_of_which_nothing_is_missed_leaves_nothing(agent_dev: AgentDev, script: str) -> None:
    (agent_dev.repo / ".gitignore").write_text("out/\n")
    done = agent_dev("--no-merge", "bash", "-c", f"{script}; sleep 0.3")
    assert (done.returncode, done.stderr) == (0, "")
    assert not kept(agent_dev)
    wait_until(lambda: not agent_dev.leavings(), "the session is gone")
