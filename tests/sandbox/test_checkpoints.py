"""Checkpoints as a user takes them, of sessions that run and that have ended."""

import json
import signal

from tests.harness.program import AgentDev
from tests.sandbox.test_sessions import end, waiting_agent


def numbers(agent_dev: AgentDev) -> list[int]:
    return [row["checkpoint"] for row in json.loads(agent_dev("checkpoints", "--json").stdout)["checkpoints"]]


def test_an_ended_session_goes_back_and_forth_between_its_checkpoints(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo one >README.md; echo new >new; rm sub/*; ln -s /etc link")
    before = agent_dev("diff").stdout
    first = int(agent_dev("checkpoint", "-m", "one").stdout.split()[1])
    agent_dev("resume", "--", "sh", "-c", "echo two >README.md; rm new link; rm -r sub; mkdir sub; touch sub/other")
    after = agent_dev("diff").stdout
    assert after != before

    done = agent_dev("rollback", str(first))
    assert done.returncode == 0, done.stderr
    assert agent_dev("diff").stdout == before
    again = int(done.stdout.split()[-1])
    assert agent_dev("rollback", str(again)).returncode == 0
    assert agent_dev("diff").stdout == after
    assert (agent_dev.repo / "README.md").read_text() == "# Shop\n"


def test_one_version_of_a_file_comes_back_alone(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo one >new; echo one >other")
    first = int(agent_dev("checkpoint").stdout.split()[1])
    agent_dev("resume", "--", "sh", "-c", "echo two >new; echo two >other")
    assert agent_dev("checkpoints", "--of", "new", "--bring", str(first)).returncode == 0
    shown = agent_dev("resume", "--", "cat", "new", "other").stdout
    assert shown == "one\ntwo\n"


def test_a_checkpoint_of_a_running_session_holds_what_it_held(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "echo one >new") as process:
        done = agent_dev("checkpoint", "-m", "in flight")
        assert done.returncode == 0, done.stderr
        end(process)
    agent_dev("resume", "--", "sh", "-c", "echo two >new")
    assert agent_dev("rollback", done.stdout.split()[1]).returncode == 0
    assert agent_dev("resume", "--", "cat", "new").stdout == "one\n"


def test_a_path_outside_and_a_word_that_is_no_number_are_refused(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    assert agent_dev("rollback", "1", "/etc/passwd").returncode == 2
    assert agent_dev("rollback", "latest").returncode == 2
    assert agent_dev("rollback", "99").returncode == 2


def test_a_killed_session_can_be_rolled_back(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "echo one >new") as process:
        first = agent_dev("checkpoint").stdout.split()[1]
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    done = agent_dev("rollback", first)
    assert done.returncode == 0, done.stderr
    assert agent_dev.changes() == {"new": "added"}
