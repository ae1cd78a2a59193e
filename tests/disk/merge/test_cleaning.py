"""`agent-dev clean` and the automatic cleaning: what is removed, what stays, and a kill at any moment."""

import os
from pathlib import Path

import pytest

from agent_dev.config.profile import Profile
from agent_dev.merge import session_access
from agent_dev.merge.retention import clean
from agent_dev.session import discarded, removal, store
from agent_dev.session.sessions import CommandContext, list_sessions
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.trees import FILE, Node, UpperEntry


def context(one: EndedSession, **settings: int) -> CommandContext:
    return CommandContext(one.store, str(one.real), str(one.real), ENVIRON, Profile(name="default", **settings))  # type: ignore[arg-type]


@pytest.fixture
def ended(tmp_path: Path) -> EndedSession:
    """Return an ended session that adds `a` and `b`, unlocked."""
    one = EndedSession(tmp_path, {}, [UpperEntry(name, Node(FILE, name)) for name in (b"a", b"b")])
    store.unlock_session(one.session)
    return one


def discard(one: EndedSession) -> None:
    (listed,) = list_sessions(one.store)
    session_access.discard(context(one), listed)


def test_a_killed_cleaning_of_the_trash_leaves_no_part_of_a_session(ended: EndedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    discard(ended)

    def kill(folder: str) -> None:
        os.unlink(f"{folder}/roots/0/upper/a")
        raise KeyboardInterrupt

    monkeypatch.setattr(clean, "remove_session", kill)
    with pytest.raises(KeyboardInterrupt):
        clean.clean_trash(context(ended), 0, 0, is_dry=False)
    assert discarded.list_discarded(ended.store) == ()
    removal.sweep_leftovers(ended.store)
    assert os.listdir(ended.store.removals_folder) == []


def test_a_session_that_is_being_restored_stays_in_the_trash(ended: EndedSession) -> None:
    discard(ended)
    (one,) = discarded.list_discarded(ended.store)
    held = store.lock_session(one.session)
    assert clean.clean_trash(context(ended), 0, 0, is_dry=False).removed == ()
    store.unlock_session(held)
    assert len(clean.clean_trash(context(ended), 0, 0, is_dry=False).removed) == 1
