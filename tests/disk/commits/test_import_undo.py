"""Undo and redo of imported commits change refs, files and index together, and keep later edits of the user."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.errors import CannotUndo
from tests.disk.commits.import_world import fsck, head, status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, git, repository


def test_an_undo_reverts_ref_index_and_files(session: GitSession) -> None:
    before, index = session.files(), (session.root / ".git/index").read_bytes()
    start = head(session.root)
    session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.import_commits()
    undone = session.undo()

    assert undone.skipped == ()
    assert head(session.root) == start
    assert session.files() == before
    assert (session.root / ".git/index").read_bytes() == index
    assert status(session.root) == ""
    assert not (session.root / ".git/index.lock").exists()


def test_a_redo_repeats_the_import(session: GitSession) -> None:
    made = session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.import_commits()
    after = session.files()
    session.undo()
    session.redo()

    assert (head(session.root), session.files(), status(session.root)) == (made, after, "")


def test_a_redo_of_commits_that_git_has_removed_names_the_import(session: GitSession) -> None:
    made = session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.import_commits()
    session.undo()
    before = head(session.root), session.files()
    git(session.root, "reflog", "expire", "--expire=now", "--all")
    git(session.root, "gc", "-q", "--prune=now")
    with pytest.raises(CannotUndo, match=f"commit {made[:10]} is no longer in the repository; nothing was changed") as caught:
        session.redo()
    assert caught.value.hint == f"agent-dev merge {session.session.id} --commits imports it again"
    assert (head(session.root), session.files()) == before


def test_an_undo_after_git_wrote_the_index_reverts_the_entries(session: GitSession) -> None:
    start = head(session.root)
    session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.import_commits()
    (session.root / "mine").write_text("m\n")
    git(session.root, "add", "mine")
    undone = session.undo()

    assert undone.skipped == ()
    assert head(session.root) == start
    assert status(session.root) == "A  mine\n"
    session.redo()
    assert status(session.root) == "A  mine\n"


def test_an_undo_keeps_later_edits_and_staged_changes(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.import_commits()
    (session.root / "a.txt").write_text("mine since\n")
    git(session.root, "add", "a.txt")
    undone = session.undo()

    assert {one.key.path for one in undone.skipped} == {b"a.txt"}
    assert (session.root / "a.txt").read_text() == "mine since\n"
    assert not (session.root / "new").exists()
    assert status(session.root) == "M  a.txt\n"


TEXT = "".join(f"line {number}\n" for number in range(9))


EDITED = TEXT.replace("line 2", "agent 2").replace("line 7", "mine 7")


@pytest.fixture
def edited_since(tmp_path: Path) -> Iterator[GitSession]:
    """Yield a session with an imported commit, in one file of which the user has edited another line since."""
    root = repository(tmp_path / "root")
    (root / "text").write_text(TEXT)
    git(root, "add", "text")
    git(root, "commit", "-q", "-m", "text")
    with GitSession(tmp_path, root) as session:
        session.commit("one", text=TEXT.replace("line 2", "agent 2"), new="n\n")
        session.end()
        session.import_commits()
        (root / "text").write_text(EDITED)
        yield session


@pytest.mark.parametrize("is_second", [False, True], ids=["at once", "after a plain undo and a redo"])
def test_an_undo_reverts_a_commit_in_a_file_that_the_user_edited_later(edited_since: GitSession, *, is_second: bool) -> None:
    root = edited_since.root
    if is_second:
        assert {key.path for key in edited_since.undo().three_way_candidates} == {b"text"}
        edited_since.redo()
    undone = edited_since.undo(is_three_way=True)

    assert (undone.skipped, {key.path for key in undone.merged_with_yours}) == ((), {b"text"})
    assert (root / "text").read_text() == TEXT.replace("line 7", "mine 7")
    assert status(root) == " M text\n"
    edited_since.redo()
    assert (root / "text").read_text() == EDITED
    assert status(root) == " M text\n"


@pytest.fixture
def half_undone(edited_since: GitSession) -> GitSession:
    """Undo the import; the file that the user edited since is skipped."""
    undone = edited_since.undo()
    assert ({one.key.path for one in undone.skipped}, len(undone.refs)) == ({b"text"}, 1)
    return edited_since


def test_a_second_undo_reverts_what_the_first_skipped(half_undone: GitSession) -> None:
    root, start = half_undone.root, head(half_undone.root)
    again = half_undone.undo()
    assert ({one.key.path for one in again.skipped}, again.paths, again.refs) == ({b"text"}, (), ())

    undone = half_undone.undo(is_three_way=True)
    assert (undone.skipped, undone.refs, [key.path for key in undone.paths]) == ((), (), [b"text"])
    assert (head(root), (root / "text").read_text()) == (start, TEXT.replace("line 7", "mine 7"))
    assert status(root) == " M text\n"
    half_undone.redo()
    assert (head(root) != start, (root / "text").read_text(), status(root)) == (True, EDITED, " M text\n")


def test_a_second_undo_keeps_the_branch_as_the_user_moved_it(half_undone: GitSession) -> None:
    root = half_undone.root
    (root / "mine").write_text("m\n")
    git(root, "add", "mine")
    git(root, "commit", "-q", "-m", "mine", "--", "mine")
    yours = head(root)
    half_undone.undo(is_three_way=True)

    assert (head(root), (root / "text").read_text()) == (yours, TEXT.replace("line 7", "mine 7"))
    with pytest.raises(CannotUndo, match="moved since"):
        half_undone.redo()
    assert fsck(root) == ""


def test_a_redo_after_a_partial_undo_completes_it(half_undone: GitSession) -> None:
    start = head(half_undone.root)
    half_undone.redo()

    assert head(half_undone.root, "HEAD~1") == start
    assert (half_undone.root / "text").read_text() == EDITED
    assert status(half_undone.root) == " M text\n"
    assert half_undone.undo(is_three_way=True).skipped == ()
    assert head(half_undone.root) == start


def test_a_second_redo_applies_what_the_first_skipped(session: GitSession) -> None:
    made = session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    session.import_commits()
    session.undo()
    (session.root / "new").write_text("mine\n")
    assert {one.key.path for one in session.redo().skipped} == {b"new"}
    (session.root / "new").unlink()
    again = session.redo()

    assert ([key.path for key in again.paths], again.skipped, again.refs) == ([b"new"], (), ())
    assert (head(session.root), status(session.root)) == (made, "")


def test_an_undo_is_refused_when_the_branch_advanced(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    session.import_commits()
    yours = commit(session.root, "mine on top")

    with pytest.raises(CannotUndo, match="moved since"):
        session.undo()
    assert head(session.root) == yours
    assert status(session.root) == ""
    assert not (session.root / ".git/index.lock").exists()


def test_an_undo_is_refused_on_another_branch(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    session.import_commits()
    git(session.root, "switch", "-q", "-c", "other")

    with pytest.raises(CannotUndo, match="checked out"):
        session.undo()
