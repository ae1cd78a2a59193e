"""Kill or fail the import of a bundle at any change: no half session is listed, and the next command removes the rest."""

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_dev.errors import AgentDevError
from agent_dev.session import sessions
from tests.disk.bundle import bundles
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

FOLDER = Node(DIRECTORY, b"", 0o750)
BEFORE: Tree = {b"d": FOLDER, b"d/x": Node(FILE, b"x"), b"gone": Node(FILE, b"z")}
AFTER: Tree = {b"d": FOLDER, b"d/x": Node(FILE, b"y"), b"e": FOLDER, b"e/new": Node(FILE, b"new")}


@pytest.fixture(scope="module")
def data() -> bytes:
    """Return a bundle."""
    with (
        TemporaryDirectory(dir=faults.memory_directory()) as folder,
        EndedSession(Path(folder), BEFORE, trees.upper_of(BEFORE, AFTER)) as session,
    ):
        return bundles.exported(session)


def test_an_import_killed_anywhere_leaves_no_half_session(data: bytes) -> None:
    number, more = 1, True
    while more:
        with TemporaryDirectory(dir=faults.memory_directory()) as folder:
            context = bundles.context_at(Path(folder), Path(folder) / "state")
            more = faults.killed_at(number, lambda context=context: bundles.imported(data, context))  # type: ignore[misc]
            found = sessions.list_sessions(context.store)
            assert len(found) == len(os.listdir(context.store.sessions)) == (0 if more else 1), number
        number += 1
    assert number > 10


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_an_import_that_fails_anywhere_leaves_nothing(data: bytes, error: int) -> None:
    number, more = 1, True
    while more:
        with TemporaryDirectory(dir=faults.memory_directory()) as folder:
            context = bundles.context_at(Path(folder), Path(folder) / "state")

            def act(context: object = context) -> None:
                try:
                    bundles.imported(data, context)  # type: ignore[arg-type]
                except AgentDevError as raised:
                    assert os.strerror(error) in raised.message  # noqa: PT017  (it may not fail)

            more = faults.failing_at(number, error, act, is_lasting=False)
            assert len(os.listdir(context.store.sessions)) == (0 if more else 1), number
        number += 1
