"""`agent-dev doctor`: git, the agent home, and what waits for the user's answer."""

import os
from pathlib import Path

import pytest

from agent_dev.run import doctor
from agent_dev.session import approvals, store
from agent_dev.session.sessions import CommandContext
from agent_dev.session.store import Store


@pytest.mark.parametrize("state", [store.RUNNING, store.WAITING])
def test_running_sessions_that_wait_for_an_answer_are_named(tmp_path: Path, state: str) -> None:
    place = Store(str(tmp_path / "state"))
    session = store.create_session(place)
    store.write_record(session, {**store.BLANK, "state": state, "launcher": os.getpid(), "name": "one"})
    context = CommandContext(place, str(tmp_path), str(tmp_path), {})
    assert doctor.waiting_questions(context) == []
    approvals.add_question(session.folder, {"kind": approvals.CONNECTION, "name": "api.example.org", "port": 443})
    first = [one.result for one in doctor.waiting_questions(context)]
    assert first == (["1 connection waits for your answer in session one"] if state == store.RUNNING else [])
    approvals.add_question(session.folder, {"argv": ["rm"]})
    approvals.add_question(session.folder, {"argv": ["rm"]})
    found = [(one.result, one.remedy, one.has_failed) for one in doctor.waiting_questions(context)]
    text = "2 commands and 1 connection wait for your answer in session one"
    assert found == ([(text, "agent-dev approve --in one", False)] if state == store.RUNNING else [])


def test_missing_git_is_reported_with_a_remedy(tmp_path: Path) -> None:
    context = CommandContext(Store(str(tmp_path)), str(tmp_path), str(tmp_path), {"PATH": str(tmp_path)})
    found = doctor._git(context, ())
    assert (found.result, found.has_failed) == ("not installed", True)
    assert "install" in found.remedy
    (tmp_path / "git").touch(0o755)
    found = doctor._git(context, ())
    assert (found.result, found.has_failed) == (f"{tmp_path}/git", False)


def test_an_agent_home_that_is_not_a_directory_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "aihome"
    found = [doctor._agent_home(str(path))]
    path.touch()
    found.append(doctor._agent_home(str(path)))
    path.unlink()
    path.mkdir()
    found.append(doctor._agent_home(str(path)))
    assert [(one.result.removeprefix(str(path)), one.has_failed) for one in found] == [
        (" will be created on first use", False),
        (" is not a directory", True),
        ("", False),
    ]
