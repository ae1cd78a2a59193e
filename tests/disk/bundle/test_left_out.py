"""What a bundle does not carry of a repository is named: a stash, LFS objects, commits in submodules; all else is silent."""

import shutil
from pathlib import Path

import pytest

from agent_dev.bundle.export import SessionExport
from agent_dev.session import store
from tests.disk.commits.import_world import graces_repository
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON, commit, git, repository


def left_out(session: GitSession) -> tuple[str, ...]:
    """Return what an export of a session names."""
    export = SessionExport(session.session, store.read_record(session.session), ENVIRON)
    try:
        return export.collect().left_out
    finally:
        export.close()


def end(session: GitSession) -> None:
    """End a session in which the link to the submodule's git directory is unchanged; the harness leaves out all of this name."""
    shutil.copy(session.root / "lib/.git", session.agent / "lib/.git")
    session.end()


@pytest.fixture
def with_submodule(tmp_path: Path) -> Path:
    """Create a repository with a submodule that is checked out, and a linked work tree with its own."""
    root, inner = graces_repository(tmp_path / "root"), repository(tmp_path / "inner")
    git(root, "submodule", "add", "-q", str(inner), "lib")
    commit(root, "submodule")
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"))
    git(tmp_path / "linked", "submodule", "update", "-q", "--init")
    return root


@pytest.mark.parametrize("place", ["root", "linked"])
def test_commits_in_a_submodule_are_named_and_its_files_are_carried(tmp_path: Path, with_submodule: Path, place: str) -> None:
    with GitSession(tmp_path, with_submodule.parent / place) as session:
        session.write("lib/a.txt", "edited\n")
        end(session)
        assert left_out(session) == ()
        (session.git_dir / "modules/lib/objects/aa").mkdir()
        assert left_out(session) == ("commits in submodules",)


@pytest.mark.parametrize("place", ["root", "linked"])
def test_a_stash_and_lfs_objects_of_the_agent_are_named(tmp_path: Path, with_submodule: Path, place: str) -> None:
    with GitSession(tmp_path, with_submodule.parent / place) as session:
        session.write("a.txt", "stashed\n")
        session.run_agent_git("stash", "-q")
        (session.common / "lfs/objects/aa/bb").mkdir(parents=True)
        end(session)
        assert left_out(session) == ("the agent's stash", "LFS objects that the agent added")


def test_the_users_stash_and_lfs_objects_are_not_named(tmp_path: Path, with_submodule: Path) -> None:
    (with_submodule / "a.txt").write_text("mine\n")
    git(with_submodule, "stash", "-q")
    (with_submodule / ".git/lfs/objects/aa/bb").mkdir(parents=True)
    with GitSession(tmp_path, with_submodule) as session:
        session.commit("one", new__txt="new\n")
        end(session)
        assert left_out(session) == ()
