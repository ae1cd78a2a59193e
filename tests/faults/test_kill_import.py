"""Kill or fail the import of a bundle at any change: no half session is listed, and the next command removes the rest."""

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_dev.bundle.export import SessionExport
from agent_dev.errors import AgentDevError
from agent_dev.fs.state_files import list_names
from agent_dev.session import removal, sessions, store
from tests.disk.bundle import bundles
from tests.disk.commits.import_world import graces_repository
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON
from tests.harness.scale import seeded_random, stride
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

STRIDE = stride(11)
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


def test_an_import_with_commits_killed_at_any_call_leaves_nothing(tmp_path: Path) -> None:
    with TemporaryDirectory(dir=faults.memory_directory()) as folder:
        root = graces_repository(Path(folder) / "root")
        data = with_commits(root, tmp_path)
        before = trees.read(root)
        number = 1 + seeded_random().randrange(STRIDE)
        # Another file system than that of the objects, so that the hard links are next to these.
        context = bundles.context_at(root, tmp_path / "other-state")
        while faults.killed_at_event(number, lambda: bundles.imported(data, context)):
            if found := sessions.list_sessions(context.store):
                assert os.listdir(f"{found[0].session.folder}/{removal.IMPORT}") == []  # only its mark was not removed
                break
            folders = (context.store.sessions, context.store.trash, context.store.removals_folder)
            assert [name for one in folders for name in list_names(one)] == [], number
            assert trees.read(root).keys() == before.keys(), number
            number += STRIDE
        assert number > 100
        assert len(sessions.list_sessions(context.store)) == 1


def with_commits(root: Path, folder: Path) -> bytes:
    """Return the bundle of a session with commits, an edited, a deleted and an untracked file."""
    (root / "untracked").write_text("mine\n")
    with GitSession(folder, root) as session:
        session.commit("one", a__txt="one\n", new__txt="new\n")
        session.write("untracked", "the agent's\n")
        (session.agent / "sub/b.txt").unlink()
        session.end()
        export = SessionExport(session.session, store.read_record(session.session), ENVIRON)
        try:
            return bundles.bundle_of(export).getvalue()
        finally:
            export.close()


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
