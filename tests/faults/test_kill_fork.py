"""Kill or fail `fork` at any change: no half-made session is listed, its source is whole, the next command removes the rest."""

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_dev.merge import session_access
from agent_dev.run.ended import fork
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults
from tests.harness.program import tree
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

FOLDER = Node(DIRECTORY, b"", 0o750)
BEFORE: Tree = {b"d": FOLDER, b"d/x": Node(FILE, b"x"), b"gone": Node(FILE, b"z")}
AFTER: Tree = {b"d": FOLDER, b"d/x": Node(FILE, b"y"), b"e": FOLDER, b"e/new": Node(FILE, b"new")}


def make_session(folder: str) -> EndedSession:
    session = EndedSession(Path(folder), BEFORE, trees.upper_of(BEFORE, AFTER))
    os.close(session.session.lock)
    return session


def forked(session: EndedSession) -> None:
    context = CommandContext(session.store, str(session.real), str(session.real), ENVIRON)
    one = session_access.lock_ended(
        ListedSession(session.session.replace(lock=-1), store.read_record(session.session), store.WAITING)
    )
    try:
        fork.fork_session(context, one, "")
    finally:
        store.unlock_session(one.session)


def listed(session: EndedSession) -> list[str]:
    """Return the listed sessions, as a command sees them; what a killed one left is removed."""
    found = sessions.list_sessions(session.store)
    assert all(one.state == store.WAITING for one in found)
    assert len(os.listdir(session.store.sessions)) == len(found)
    return [one.session.id for one in found]


def test_a_fork_killed_anywhere_leaves_no_half_session() -> None:
    number, more = 1, True
    while more:
        with TemporaryDirectory(dir=faults.memory_directory()) as folder:
            session = make_session(folder)
            before = tree(Path(session.session.folder))
            more = faults.killed_at(number, lambda session=session: forked(session))  # type: ignore[misc]  # mypy cannot infer it
            assert len(listed(session)) == (1 if more else 2), number
            assert tree(Path(session.session.folder)) == before
        number += 1
    assert number > 10


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_fork_that_fails_anywhere_leaves_nothing(error: int) -> None:
    number, more = 1, True
    while more:
        with TemporaryDirectory(dir=faults.memory_directory()) as folder:
            session = make_session(folder)

            def act(session: EndedSession = session) -> None:
                try:
                    forked(session)
                except OSError as raised:
                    assert raised.errno == error  # noqa: PT017  (it may not fail)

            more = faults.failing_at(number, error, act, is_lasting=False)
            assert len(os.listdir(session.store.sessions)) == (1 if more else 2), number
        number += 1
