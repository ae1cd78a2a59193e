"""A redo that fails on the disk leaves the session as the undo left it, including paths that change their type."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_dev.errors import AgentDevError
from agent_dev.merge import recover, undo
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults
from tests.harness.scale import stride
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

STRIDE = max(1, stride(29) // 4)
FOLDER = Node(DIRECTORY, b"", 0o755)
BEFORE: Tree = {
    b"file": Node(FILE, b"f"),
    b"link": Node(SYMLINK, b"file", 0o777),
    b"folder": FOLDER,
    b"folder/x": Node(FILE, b"x"),
    b"edited": Node(FILE, b"1"),
}
AFTER: Tree = {
    b"file": FOLDER,
    b"file/in": Node(FILE, b"in"),
    b"link": FOLDER,
    b"link/deep": FOLDER,
    b"link/deep/w": Node(FILE, b"w"),
    b"folder": Node(SYMLINK, b"edited", 0o777),
    b"edited": Node(FILE, b"2"),
}


def undone(folder: Path) -> EndedSession:
    """Create a session whose merge was undone, and release its lock."""
    session = EndedSession(folder, BEFORE, trees.upper_of(BEFORE, AFTER))
    session.merge_all()
    session.undo()
    assert session.conflicts() == {}
    os.close(session.session.lock)
    return session


def redone(session: EndedSession) -> None:
    try:
        undo.redo(session.here(), "", lambda _: None)
    except AgentDevError:
        return


def failing(number: int) -> Callable[[Callable[[], None]], bool]:
    return lambda act: faults.failing_at(number, errno.ENOSPC, act, is_lasting=False)


def broken(number: int) -> Callable[[Callable[[], None]], bool]:
    return lambda act: faults.failing_at(number, errno.ENOSPC, act, is_lasting=True)


@pytest.mark.parametrize("way", [failing, broken])
def test_a_failed_redo_leaves_no_conflict(way: Callable[[int], Callable[[Callable[[], None]], bool]]) -> None:
    number, more, sides = 1, True, set()
    while more:
        with TemporaryDirectory(dir=faults.memory_directory()) as folder:
            session = undone(Path(folder))
            changes = session.kinds()
            more = way(number)(lambda session=session: redone(session))  # type: ignore[misc]  # mypy cannot infer it
            recover.recover_root(session.store, str(session.real), ENVIRON, lambda _: None)
            side = trees.read(session.real)
            assert side in (BEFORE, AFTER), number
            assert session.conflicts() == {}, number
            assert session.kinds() == (changes if side == BEFORE else {}), number
            sides.add(side == BEFORE)
        number += STRIDE
    assert sides == {True, False}
