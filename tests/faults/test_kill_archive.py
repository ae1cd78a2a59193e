"""Kill the archiving of a merged session with commits, or its restore, anywhere: the session is complete for the next command."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_dev.merge import pack, session_access
from agent_dev.session import removal, store
from agent_dev.session.sessions import ListedSession
from tests.disk.checkpoint.test_session_archive import shape
from tests.harness.faults import faults
from tests.harness.git.git_session import GitSession
from tests.harness.repository import git, repository
from tests.harness.scale import stride


def linked_work_tree(folder: Path) -> tuple[Path, ...]:
    main = repository(folder / "main")
    git(main, "worktree", "add", "-q", "-b", "other", str(folder / "root"))
    return (folder / "root",)


ROOTS = {
    "one repository": lambda folder: (repository(folder / "root"),),
    "two repositories": lambda folder: (repository(folder / "root"), repository(folder / "second")),
    "a linked work tree": linked_work_tree,
}


@pytest.fixture(params=ROOTS)
def merged(request: pytest.FixtureRequest) -> Iterator[GitSession]:
    """Yield a merged session, unlocked, whose agent committed."""
    with TemporaryDirectory(dir=faults.memory_directory()) as folder:
        session = GitSession(Path(folder), *ROOTS[request.param](Path(folder)))
        session.commit("one", a__txt="agent\n", new="n\n")
        session.end()
        session.import_commits()
        assert store.is_merged(session.session)
        store.unlock_session(session.session)
        yield session


def listed(session: GitSession) -> ListedSession:
    return ListedSession(session.session.replace(lock=-1), store.read_record(session.session), store.MERGED)


def opened(session: GitSession) -> None:
    store.unlock_session(session_access.lock_ended(listed(session)).session)


def archived(session: GitSession) -> None:
    pack.pack_all(session.here, is_all=True, is_dry=False)


def is_archived(session: GitSession) -> bool:
    return Path(session.session.folder, store.ARCHIVE).exists()


def contents(session: GitSession) -> dict[str, tuple[object, ...]]:
    """Return what is in the session; not the numbers of hard links, since what a killed process moved out still has some."""
    found = shape(Path(session.session.folder))
    found.pop("archive.new", None)  # the next archiving replaces it
    return {path: (one[0], *one[2:]) for path, one in found.items()}


def test_an_archiving_or_restore_killed_anywhere_loses_nothing(merged: GitSession) -> None:
    archived(merged)
    assert is_archived(merged)
    opened(merged)
    whole = contents(merged)
    for is_restore in (False, True):
        number, more = 1, True
        while more:
            if is_restore:
                archived(merged)
                assert is_archived(merged), number
            more = faults.killed_at_event(number, lambda: (opened if is_restore else archived)(merged))  # noqa: B023
            opened(merged)
            removal.sweep_leftovers(merged.store)  # else the next archiving has one more name to try
            assert contents(merged) == whole, number
            number += stride(5) if is_restore else min(3, stride(1))
        assert number > 10
    assert not [name for name in os.listdir(merged.session.folder) if name.startswith("archive")]


def test_an_undo_killed_while_it_restores_is_repeated(merged: GitSession) -> None:
    after, tip = merged.files(), git(merged.root, "rev-parse", "HEAD")
    archived(merged)
    for number in (5, 50):
        faults.killed_at_event(number, lambda: opened(merged))
        assert is_archived(merged)
        merged.session = store.lock_session(merged.session.replace(lock=-1))
        merged.undo()
        assert git(merged.root, "rev-parse", "HEAD") != tip
        assert merged.import_commits().merge
        assert (merged.files(), git(merged.root, "rev-parse", "HEAD")) == (after, tip)
        store.unlock_session(merged.session)
        archived(merged)
        assert is_archived(merged)
