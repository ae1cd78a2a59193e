"""Whatever a tree can hold comes home, and whatever the session began on: links, line ends, filters, work trees."""

import hashlib
import os
from pathlib import Path

import pytest

from agent_dev.errors import CannotBring
from tests.disk.bring_world import head, status
from tests.harness.git_session import GitSession
from tests.harness.repository import commit, git


def test_links_modes_and_files_that_became_directories_come(session: GitSession) -> None:
    (session.agent / "link").symlink_to("a.txt")
    (session.agent / "a.txt").unlink()
    (session.agent / "sub/b.txt").chmod(0o755)
    session.commit("one", a__txt___inside="x\n")
    session.end()
    session.bring()

    assert os.readlink(session.root / "link") == "a.txt"
    assert (session.root / "a.txt/inside").read_text() == "x\n"
    assert (session.root / "sub/b.txt").stat().st_mode & 0o777 == 0o755
    assert status(session.root) == ""
    session.undo()
    assert (session.root / "a.txt").read_text() == "more\n"
    assert status(session.root) == ""


def test_a_directory_that_became_a_file_comes(session: GitSession) -> None:
    (session.agent / "sub/b.txt").unlink()
    (session.agent / "sub").rmdir()
    session.commit("one", sub="a file now\n")
    session.end()
    session.bring()

    assert (session.root / "sub").read_text() == "a file now\n"
    assert status(session.root) == ""
    session.undo()
    assert (session.root / "sub/b.txt").read_text() == "two\n"
    assert status(session.root) == ""


@pytest.mark.parametrize("attributes", ["*.txt eol=crlf\n", "* text=auto eol=crlf\n"])
def test_line_ends_are_as_git_would_check_them_out(tmp_path: Path, root: Path, attributes: str) -> None:
    (root / ".gitattributes").write_text(attributes)
    git(root, "add", "--renormalize", ".")
    commit(root, "attributes")
    with GitSession(tmp_path, root) as session:
        session.commit("one", a__txt="one\r\ntwo\r\n")
        session.end()
        session.bring()
        mine = (root / "a.txt").read_bytes()
        git(root, "rm", "-q", "--cached", "a.txt")
        (root / "a.txt").unlink()
        git(root, "checkout", "HEAD", "--", "a.txt")

        assert mine == (root / "a.txt").read_bytes() == b"one\r\ntwo\r\n"


def test_what_the_agent_left_uncommitted_stays_in_the_session(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n", new="n\n")
    session.write("a.txt", "agent\nmore of the agent's\n")
    session.write("loose", "l\n")
    session.end()
    session.bring()
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


def test_in_a_linked_work_tree_its_own_branch_and_index_go_forward(tmp_path: Path, root: Path) -> None:
    linked = tmp_path / "linked"
    git(root, "worktree", "add", "-q", str(linked), "-b", "side")
    git(linked, "config", "user.name", "Grace")
    main = (head(root), (root / ".git/index").read_bytes())
    with GitSession(tmp_path, linked) as session:
        made = session.commit("one", a__txt="agent\n")
        session.end()
        session.bring()

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
    done = session.bring(is_dry=True)

    assert [one.subject for one in done.commits] == ["one"]
    assert state() == before


def test_a_session_that_began_on_no_branch_keeps_its_commits_as_a_ref(tmp_path: Path, root: Path) -> None:
    git(root, "checkout", "-q", "--detach")
    with GitSession(tmp_path, root) as session:
        made = session.commit("one", a__txt="agent\n")
        session.end()
        done = session.bring()

        assert (done.ref, done.after) == (f"refs/agent-dev/{session.session.id}/HEAD", made)
        assert "no branch" in done.why


def test_a_branch_comes_without_an_identity(session: GitSession) -> None:
    git(session.root, "config", "user.useConfigOnly", "true")
    git(session.root, "config", "--unset", "user.email")
    session.let_agent("checkout", "-q", "-b", "feature")
    session.commit("one", a__txt="agent\n")
    session.end()

    assert session.bring("feature", name="theirs").merge
    with pytest.raises(CannotBring, match="who you are"):
        session.bring("feature", name="squashed", squash=True)


def with_filter(root: Path) -> None:
    for word in ("clean", "smudge"):
        git(root, "config", f"filter.rot13.{word}", "tr a-z n-za-m")
    (root / ".gitattributes").write_text("*.r filter=rot13\n")
    (root / "x.r").write_text("hello\n")
    commit(root, "filtered")


def test_what_a_filter_makes_comes_as_the_agent_had_it(tmp_path: Path, root: Path) -> None:
    with_filter(root)
    with GitSession(tmp_path, root) as session:
        session.commit("one", x__r="goodbye\n", y__r="new\n")
        session.end()
        session.bring()

        assert (root / "x.r").read_text() == "goodbye\n"
        assert (root / "y.r").read_text() == "new\n"
        assert git(root, "show", "HEAD:x.r") == "tbbqolr\n"
        assert status(root) == ""
        session.undo()
        assert (root / "x.r").read_text() == "hello\n"
        assert status(root) == ""


def test_an_edit_of_what_a_filter_makes_is_in_the_way(tmp_path: Path, root: Path) -> None:
    with_filter(root)
    with GitSession(tmp_path, root) as session:
        session.commit("one", x__r="goodbye\n")
        session.end()
        (root / "x.r").write_text("mine\n")

        assert [one.key.path for one in session.bring().conflicts] == [b"x.r"]
        assert (root / "x.r").read_text() == "mine\n"
