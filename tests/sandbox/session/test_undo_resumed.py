"""An undo of a merge, whose session was resumed since, returns its changes to the session, with their base versions."""

import pytest

from tests.harness.program import AgentDev


def commit(agent_dev: AgentDev, **files: str) -> None:
    for name, text in files.items():
        (agent_dev.repo / name).write_text(text)
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "files")


@pytest.mark.slow
def test_after_resume_and_undo_a_change_to_a_file_recreated_by_the_user_shows(agent_dev: AgentDev) -> None:
    commit(agent_dev, k="k\n", z="z\n")
    session = agent_dev.ended_session("echo agent >k; rm z")
    (agent_dev.repo / "k").unlink()
    (agent_dev.repo / "k").write_text("k\n")
    agent_dev.do("merge", session, "--take", "k")
    agent_dev.do("--no-merge", "resume", session, "--", "true")
    agent_dev.do("undo")
    assert (agent_dev.repo / "k").read_text() == "k\n"
    assert agent_dev.changes(session) == {"k": "edited", "z": "deleted"}
    agent_dev.do("merge", session, "--all")
    assert (agent_dev.repo / "k").read_text() == "agent\n"


def test_after_resume_and_undo_the_changes_of_both_are_distinguished(agent_dev: AgentDev) -> None:
    lines = [f"{number}\n" for number in range(9)]
    commit(agent_dev, k="".join(lines), z="z\n")
    session = agent_dev.ended_session("sed -i 's/^8$/agent/' k; rm z")
    agent_dev.do("merge", session, "--take", "k")
    agent_dev.do("--no-merge", "resume", session, "--", "true")
    agent_dev.do("undo")
    assert (agent_dev.repo / "k").read_text() == "".join(lines)
    (agent_dev.repo / "k").write_text("mine\n" + "".join(lines[1:]))
    agent_dev.do("merge", session, "--take", "k")
    assert (agent_dev.repo / "k").read_text() == "mine\n" + "".join(lines[1:8]) + "agent\n"


def test_earlier_changes_of_the_user_survive_resume_undo_and_merge(agent_dev: AgentDev) -> None:
    lines = [f"{number}\n" for number in range(9)]
    commit(agent_dev, k="".join(lines), z="z\n")
    session = agent_dev.ended_session("sed -i 's/^8$/agent/' k; rm z")
    yours = "mine\n" + "".join(lines[1:])
    (agent_dev.repo / "k").write_text(yours)
    agent_dev.do("merge", session, "--take", "k")
    agent_dev.do("--no-merge", "resume", session, "--", "true")
    agent_dev.do("undo")
    assert (agent_dev.repo / "k").read_text() == yours
    agent_dev.do("merge", session, "--take", "k")
    assert (agent_dev.repo / "k").read_text() == "mine\n" + "".join(lines[1:8]) + "agent\n"


def test_a_merged_session_resumed_without_changes_can_be_undone(agent_dev: AgentDev) -> None:
    commit(agent_dev, k="k\n")
    session = agent_dev.ended_session("echo agent >k; echo new >n")
    agent_dev.do("merge", session, "--all")
    agent_dev.do("--no-merge", "resume", session, "--", "true")
    agent_dev.do("undo")
    assert (agent_dev.repo / "k").read_text() == "k\n"
    assert agent_dev.changes(session) == {"k": "edited", "n": "added"}
