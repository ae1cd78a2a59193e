"""An import creates and removes the directories of submodules like `git checkout` does."""

from pathlib import Path

import pytest

from tests.disk.commits.import_world import status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, git, repository


@pytest.fixture
def with_submodule(tmp_path: Path, root: Path) -> Path:
    """Create a submodule that is not checked out."""
    inner = repository(tmp_path / "inner")
    git(root, "submodule", "add", "-q", str(inner), "deep/sm")
    commit(root, "submodule")
    git(root, "submodule", "deinit", "-q", "-f", "--all")
    return root


def test_the_empty_directory_of_a_removed_submodule_is_removed(tmp_path: Path, with_submodule: Path) -> None:
    with GitSession(tmp_path, with_submodule) as session:
        session.run_agent_git("rm", "-q", "-f", "deep/sm")
        session.run_agent_git("commit", "-q", "-m", "gone")
        session.end()
        session.import_commits()

        assert not (with_submodule / "deep").exists()
        assert status(with_submodule) == ""
        session.undo()
        assert list((with_submodule / "deep/sm").iterdir()) == []
        assert status(with_submodule) == ""
        session.redo()
        assert not (with_submodule / "deep").exists()


def test_the_checkout_of_a_removed_submodule_stays(tmp_path: Path, with_submodule: Path) -> None:
    git(with_submodule, "submodule", "update", "-q", "--init")
    with GitSession(tmp_path, with_submodule) as session:
        session.run_agent_git("rm", "-q", "--cached", "deep/sm")
        session.run_agent_git("commit", "-q", "-m", "gone")
        session.end()
        session.import_commits()

        assert (with_submodule / "deep/sm/a.txt").exists()


def test_a_file_replacing_a_submodule_is_checked_out(tmp_path: Path, with_submodule: Path) -> None:
    with GitSession(tmp_path, with_submodule) as session:
        session.run_agent_git("rm", "-q", "-f", "deep/sm")
        session.commit("file", deep___sm="a file now\n")
        session.end()
        session.import_commits()

        assert (with_submodule / "deep/sm").read_text() == "a file now\n"
        assert status(with_submodule) == ""
        session.undo()
        assert (with_submodule / "deep/sm").is_dir()
        assert status(with_submodule) == ""


def test_a_file_replacing_a_checked_out_submodule_is_blocked(tmp_path: Path, with_submodule: Path) -> None:
    with GitSession(tmp_path, with_submodule) as session:
        session.run_agent_git("rm", "-q", "-f", "deep/sm")
        session.commit("file", deep___sm="a file now\n")
        session.end()
        git(with_submodule, "submodule", "update", "-q", "--init")
        done = session.import_commits()

        assert [one.key.path for one in done.conflicts] == [b"deep/sm"]
        assert (with_submodule / "deep/sm/a.txt").exists()


@pytest.mark.parametrize("path", ["new/sm", "sub/b.txt"])
def test_the_directory_of_a_new_submodule_is_created(tmp_path: Path, root: Path, path: str) -> None:
    with GitSession(tmp_path, root) as session:
        tip = session.run_agent_git("rev-parse", "HEAD").strip()
        session.write(".gitmodules", f'[submodule "x"]\n\tpath = {path}\n\turl = https://example.invalid/x\n')
        session.run_agent_git("add", ".gitmodules")
        (session.agent / path).unlink(missing_ok=True)
        (session.agent / path).mkdir(parents=True)
        session.run_agent_git("rm", "-q", "--cached", "--ignore-unmatch", path)
        session.run_agent_git("update-index", "--add", "--cacheinfo", f"160000,{tip},{path}")
        session.run_agent_git("commit", "-q", "-m", "new")
        session.end()
        assert session.import_commits().merge

        assert list((root / path).iterdir()) == []
        assert status(root) == ""
        session.undo()
        assert (root / path).is_file() == (path == "sub/b.txt")
        assert status(root) == ""


def test_the_removal_of_the_last_submodule_is_not_risky(tmp_path: Path, with_submodule: Path) -> None:
    with GitSession(tmp_path, with_submodule) as session:
        session.run_agent_git("rm", "-q", "-f", "deep/sm")
        session.run_agent_git("commit", "-q", "-m", "gone")
        session.end()

        assert session.import_commits(include_risky=False).risky == ()
        assert status(with_submodule) == ""
