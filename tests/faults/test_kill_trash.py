"""Kill `trash --restore DIR` at any change: the next command finds nothing half restored, and the restore can be repeated."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_dev.checkpoint import deleted_files
from agent_dev.merge import session_access
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

FOLDER = Node(DIRECTORY, b"", 0o750)
BEFORE: Tree = {b"d": FOLDER, b"d/x": Node(FILE, b"x"), b"d/y": FOLDER, b"d/y/z": Node(FILE, b"z"), b"d/w": Node(FILE, b"w")}


def held(session: EndedSession) -> ListedSession:
    """Lock the session as a later command does, and return it."""
    return session_access.lock_ended(
        ListedSession(session.session.replace(lock=-1), store.read_record(session.session), store.WAITING)
    )


def imported(session: EndedSession) -> None:
    one = held(session)
    deleted_files.restore_deleted(one, "d/y")
    store.unlock_session(one.session)


def test_restoring_a_directory_killed_anywhere_can_be_repeated() -> None:
    number, more = 1, True
    while more:
        with TemporaryDirectory(dir=faults.memory_directory()) as folder:
            session = EndedSession(Path(folder), BEFORE, trees.upper_of(BEFORE, {}))
            os.close(session.session.lock)
            more = faults.killed_at(number, lambda session=session: imported(session))  # type: ignore[misc]
            one = held(session)
            store.unlock_session(one.session)
            if {change for change in session.kinds() if change.startswith(b"d/y")}:
                imported(session)
            assert set(session.kinds()) == {b"d/x", b"d/w"}, number
        number += 1
