"""Commits that came home are undone and redone: refs, files and index together, and what was edited since stays."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.errors import CannotUndo
from tests.disk.bring_world import fsck, head, status
from tests.harness.git_session import GitSession
from tests.harness.repository import commit, git, repository


def test_an_undo_takes_ref_index_and_files_back(session: GitSession) -> None:
    before, index = session.files(), (session.root / ".git/index").read_bytes()
    start = head(session.root)
    session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.bring()
    undone = session.undo()

    assert undone.left == ()
    assert head(session.root) == start
    assert session.files() == before
    assert (session.root / ".git/index").read_bytes() == index
    assert status(session.root) == ""
    assert not (session.root / ".git/index.lock").exists()


def test_a_redo_does_it_again(session: GitSession) -> None:
    made = session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.bring()
    after = session.files()
    session.undo()
    session.redo()

    assert (head(session.root), session.files(), status(session.root)) == (made, after, "")


def test_an_undo_after_git_wrote_the_index_takes_the_entries_back(session: GitSession) -> None:
    start = head(session.root)
    session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.bring()
    (session.root / "mine").write_text("m\n")
    git(session.root, "add", "mine")
    undone = session.undo()

    assert undone.left == ()
    assert head(session.root) == start
    assert status(session.root) == "A  mine\n"
    session.redo()
    assert status(session.root) == "A  mine\n"


def test_an_undo_leaves_what_was_edited_or_staged_since(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.bring()
    (session.root / "a.txt").write_text("mine since\n")
    git(session.root, "add", "a.txt")
    undone = session.undo()

    assert {one.key.path for one in undone.left} == {b"a.txt"}
    assert (session.root / "a.txt").read_text() == "mine since\n"
    assert not (session.root / "new").exists()
    assert status(session.root) == "M  a.txt\n"


TEXT = "".join(f"line {number}\n" for number in range(9))


@pytest.mark.parametrize("is_second", [False, True], ids=["at once", "after a plain undo and a redo"])
def test_an_undo_takes_back_what_a_commit_did_to_a_file_that_the_user_edited_since(tmp_path: Path, *, is_second: bool) -> None:
    root = repository(tmp_path / "root")
    (root / "text").write_text(TEXT)
    git(root, "add", "text")
    git(root, "commit", "-q", "-m", "text")
    with GitSession(tmp_path, root) as session:
        session.commit("one", text=TEXT.replace("line 2", "agent 2"), new="n\n")
        session.end()
        session.bring()
        mine = TEXT.replace("line 2", "agent 2").replace("line 7", "mine 7")
        (root / "text").write_text(mine)
        if is_second:
            assert {key.path for key in session.undo().offered} == {b"text"}
            session.redo()
        undone = session.undo(is_three_way=True)

        assert (undone.left, {key.path for key in undone.kept}) == ((), {b"text"})
        assert (root / "text").read_text() == TEXT.replace("line 7", "mine 7")
        assert status(root) == " M text\n"
        session.redo()
        assert (root / "text").read_text() == mine
        assert status(root) == " M text\n"


@pytest.fixture
def half_undone(tmp_path: Path) -> Iterator[GitSession]:
    """Have a merge undone but for a file that the user had edited since."""
    root = repository(tmp_path / "root")
    (root / "text").write_text(TEXT)
    git(root, "add", "text")
    git(root, "commit", "-q", "-m", "text")
    with GitSession(tmp_path, root) as session:
        session.commit("one", text=TEXT.replace("line 2", "agent 2"), new="n\n")
        session.end()
        session.bring()
        (root / "text").write_text(EDITED)
        undone = session.undo()
        assert ({one.key.path for one in undone.left}, len(undone.refs)) == ({b"text"}, 1)
        yield session


EDITED = TEXT.replace("line 2", "agent 2").replace("line 7", "mine 7")


def test_a_second_undo_takes_back_what_the_first_had_to_leave(half_undone: GitSession) -> None:
    root, start = half_undone.root, head(half_undone.root)
    again = half_undone.undo()
    assert ({one.key.path for one in again.left}, again.paths, again.refs) == ({b"text"}, (), ())

    undone = half_undone.undo(is_three_way=True)
    assert (undone.left, undone.refs, [key.path for key in undone.paths]) == ((), (), [b"text"])
    assert (head(root), (root / "text").read_text()) == (start, TEXT.replace("line 7", "mine 7"))
    assert status(root) == " M text\n"
    half_undone.redo()
    assert (head(root) != start, (root / "text").read_text(), status(root)) == (True, EDITED, " M text\n")


def test_a_second_undo_leaves_the_branch_where_the_user_has_it_since(half_undone: GitSession) -> None:
    root = half_undone.root
    (root / "mine").write_text("m\n")
    git(root, "add", "mine")
    git(root, "commit", "-q", "-m", "mine", "--", "mine")
    mine = head(root)
    half_undone.undo(is_three_way=True)

    assert (head(root), (root / "text").read_text()) == (mine, TEXT.replace("line 7", "mine 7"))
    with pytest.raises(CannotUndo, match="moved since"):
        half_undone.redo()
    assert fsck(root) == ""


def test_a_redo_after_an_undo_that_left_something_does_the_rest_again(half_undone: GitSession) -> None:
    start = head(half_undone.root)
    half_undone.redo()

    assert head(half_undone.root, "HEAD~1") == start
    assert (half_undone.root / "text").read_text() == EDITED
    assert status(half_undone.root) == " M text\n"
    assert half_undone.undo(is_three_way=True).left == ()
    assert head(half_undone.root) == start


def test_a_second_redo_brings_what_the_first_had_to_leave(session: GitSession) -> None:
    made = session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.bring()
    session.undo()
    (session.root / "new").write_text("mine\n")
    assert {one.key.path for one in session.redo().left} == {b"new"}
    (session.root / "new").unlink()
    again = session.redo()

    assert ([key.path for key in again.paths], again.left, again.refs) == ([b"new"], (), ())
    assert (head(session.root), status(session.root)) == (made, "")


def test_an_undo_is_refused_when_the_branch_went_on(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    session.bring()
    mine = commit(session.root, "mine on top")

    with pytest.raises(CannotUndo, match="moved since"):
        session.undo()
    assert head(session.root) == mine
    assert status(session.root) == ""
    assert not (session.root / ".git/index.lock").exists()


def test_an_undo_is_refused_on_another_branch(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    session.bring()
    git(session.root, "switch", "-q", "-c", "other")

    with pytest.raises(CannotUndo, match="checked out"):
        session.undo()
