"""Every kind of tree entry is imported into every kind of checkout: links, line endings, filters, linked worktrees."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.errors import CannotImport
from tests.disk.commits.import_world import head, status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, git


def test_symlinks_modes_and_files_replaced_by_directories_are_imported(session: GitSession) -> None:
    (session.agent / "link").symlink_to("a.txt")
    (session.agent / "a.txt").unlink()
    (session.agent / "sub/b.txt").chmod(0o755)
    session.commit("one", a__txt___inside="x\n")
    session.end()
    session.import_commits()

    assert os.readlink(session.root / "link") == "a.txt"
    assert (session.root / "a.txt/inside").read_text() == "x\n"
    assert (session.root / "sub/b.txt").stat().st_mode & 0o777 == 0o755
    assert status(session.root) == ""
    session.undo()
    assert (session.root / "a.txt").read_text() == "more\n"
    assert status(session.root) == ""


def test_a_directory_replaced_by_a_file_is_imported(session: GitSession) -> None:
    (session.agent / "sub/b.txt").unlink()
    (session.agent / "sub").rmdir()
    session.commit("one", sub="a file now\n")
    session.end()
    session.import_commits()

    assert (session.root / "sub").read_text() == "a file now\n"
    assert status(session.root) == ""
    session.undo()
    assert (session.root / "sub/b.txt").read_text() == "two\n"
    assert status(session.root) == ""


@pytest.mark.parametrize("attributes", ["*.txt eol=crlf\n", "* text=auto eol=crlf\n"])
def test_line_endings_match_those_of_git_checkout(tmp_path: Path, root: Path, attributes: str) -> None:
    (root / ".gitattributes").write_text(attributes)
    git(root, "add", "--renormalize", ".")
    commit(root, "attributes")
    with GitSession(tmp_path, root) as session:
        session.commit("one", a__txt="one\r\ntwo\r\n")
        session.end()
        session.import_commits()
        yours = (root / "a.txt").read_bytes()
        git(root, "rm", "-q", "--cached", "a.txt")
        (root / "a.txt").unlink()
        git(root, "checkout", "HEAD", "--", "a.txt")

        assert yours == (root / "a.txt").read_bytes() == b"one\r\ntwo\r\n"


def test_uncommitted_changes_of_the_agent_stay_in_the_session(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n", new="n\n")
    session.write("a.txt", "agent\nmore of the agent's\n")
    session.write("loose", "l\n")
    session.end()
    session.import_commits()
    review = session.review()
    left = {change.key.path: change.conflict for change in review.changes.changes}
    review.close()

    assert left == {b"a.txt": None, b"loose": None}
    assert (session.root / "a.txt").read_text() == "agent\n"
    session.undo()
    review = session.review()
    again = {change.key.path: change.conflict for change in review.changes.changes}
    review.close()
    assert again == {b"a.txt": None, b"new": None, b"loose": None}


def test_a_linked_worktrees_own_branch_and_index_are_fast_forwarded(tmp_path: Path, root: Path) -> None:
    linked = tmp_path / "linked"
    git(root, "worktree", "add", "-q", str(linked), "-b", "side")
    git(linked, "config", "user.name", "Grace")
    main = (head(root), (root / ".git/index").read_bytes())
    with GitSession(tmp_path, linked) as session:
        made = session.commit("one", a__txt="agent\n")
        session.end()
        session.import_commits()

        assert head(linked) == made
        assert status(linked) == ""
        assert (head(root), (root / ".git/index").read_bytes()) == main
        session.undo()
        assert status(linked) == ""


def test_a_dry_run_changes_nothing(session: GitSession) -> None:
    def state() -> str:
        digest = hashlib.sha256()
        for path in sorted(session.root.rglob("*")):
            digest.update(f"{path} {path.lstat().st_mtime_ns}".encode())
        return digest.hexdigest()

    session.commit("one", a__txt="agent\n")
    session.end()
    before = state()
    done = session.import_commits(is_dry_run=True)

    assert [one.subject for one in done.commits] == ["one"]
    assert state() == before


def test_commits_of_a_session_started_on_no_branch_are_imported_as_a_ref(tmp_path: Path, root: Path) -> None:
    git(root, "checkout", "-q", "--detach")
    with GitSession(tmp_path, root) as session:
        made = session.commit("one", a__txt="agent\n")
        session.end()
        done = session.import_commits()

        assert (done.ref, done.after) == (f"refs/agent-dev/{session.session.id}/HEAD", made)
        assert "detached HEAD" in done.reason


def test_a_branch_is_imported_without_an_identity(session: GitSession) -> None:
    git(session.root, "config", "user.useConfigOnly", "true")
    git(session.root, "config", "--unset", "user.email")
    session.run_agent_git("checkout", "-q", "-b", "feature")
    session.commit("one", a__txt="agent\n")
    session.end()

    assert session.import_commits("feature", name="theirs").merge
    with pytest.raises(CannotImport, match="no identity"):
        session.import_commits("feature", name="squashed", squash=True)


@pytest.fixture
def filtered(tmp_path: Path, root: Path) -> Iterator[GitSession]:
    """Yield a session in a repository that configures a filter."""
    for word in ("clean", "smudge"):
        git(root, "config", f"filter.rot13.{word}", "tr a-z n-za-m")
    (root / ".gitattributes").write_text("*.r filter=rot13\n")
    (root / "x.r").write_text("hello\n")
    commit(root, "filtered")
    with GitSession(tmp_path, root) as session:
        yield session


def test_output_of_an_unknown_filter_is_left_and_reported(filtered: GitSession, root: Path) -> None:
    filtered.commit("one", x__r="goodbye\n", y__r="new\n", plain="p\n")
    filtered.write("x.r", "EVIL\n")
    filtered.end()
    done = filtered.import_commits()

    assert [one.key.path for one in done.not_updated] == [b"x.r", b"y.r"]
    assert (root / "x.r").read_text() == "hello\n"
    assert not (root / "y.r").exists()
    assert (root / "plain").read_text() == "p\n"
    assert git(root, "show", "HEAD:x.r") == "tbbqolr\n"
    git(root, "checkout", "--", "x.r", "y.r")
    assert ((root / "x.r").read_text(), (root / "y.r").read_text()) == ("goodbye\n", "new\n")
    assert status(root) == ""


def test_an_undo_restores_the_output_of_an_unknown_filter(filtered: GitSession, root: Path) -> None:
    filtered.commit("one", x__r="goodbye\n")
    filtered.end()
    filtered.import_commits()
    filtered.undo()
    assert (root / "x.r").read_text() == "hello\n"
    assert status(root) == ""


def test_an_edit_of_filter_output_blocks_the_import(filtered: GitSession, root: Path) -> None:
    filtered.commit("one", x__r="goodbye\n")
    filtered.end()
    (root / "x.r").write_text("mine\n")

    assert [one.key.path for one in filtered.import_commits().conflicts] == [b"x.r"]
    assert (root / "x.r").read_text() == "mine\n"
