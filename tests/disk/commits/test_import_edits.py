"""Commits are imported next to staged and unstaged edits of the user, and into every kind of index."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.commits import worktree
from agent_dev.errors import CannotImport, CannotMerge
from tests.disk.commits.import_world import fsck, refs, status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, git


def objects(root: Path) -> list[str]:
    return sorted(str(path) for path in (root / ".git/objects").rglob("*"))


# --- dirty trees ---


def dirty(root: Path) -> None:
    (root / "a.txt").write_text("more\nmine, not staged\n")
    (root / "staged").write_text("mine, staged\n")
    git(root, "add", "staged")
    (root / "untracked").write_text("mine, untracked\n")


def test_edits_of_files_outside_the_commits_are_unchanged(tmp_path: Path, root: Path) -> None:
    dirty(root)
    with GitSession(tmp_path, root) as session:
        session.write("other", "o\n")
        session.run_agent_git("add", "other")
        session.run_agent_git("commit", "-q", "-m", "one", "--", "other")
        session.end()
        before = status(root)
        session.import_commits()

        assert status(root) == before
        assert (root / "other").read_text() == "o\n"
        assert (root / "a.txt").read_text() == "more\nmine, not staged\n"


LINES = [f"{number}\n" for number in range(20)]


@pytest.fixture
def both_edited(tmp_path: Path, root: Path) -> Iterator[GitSession]:
    """Yield a session that committed an edit of the last line of a file whose first line the user edited since."""
    (root / "a.txt").write_text("".join(LINES))
    commit(root, "lines")
    with GitSession(tmp_path, root) as session:
        session.commit("one", a__txt="".join([*LINES[:-1], "agent\n"]))
        session.end()
        (root / "a.txt").write_text("".join(["mine\n", *LINES[1:]]))
        yield session


def test_an_edit_of_the_same_file_is_merged_with_the_agents(both_edited: GitSession, root: Path) -> None:
    both_edited.import_commits()

    assert (root / "a.txt").read_text() == "".join(["mine\n", *LINES[1:-1], "agent\n"])
    assert status(root) == " M a.txt\n"
    assert git(root, "diff", "--stat").count("1 insertion") == 1


def test_a_staged_edit_of_the_same_file_stays_staged(both_edited: GitSession, root: Path) -> None:
    git(root, "add", "a.txt")
    both_edited.import_commits()

    assert status(root) == "M  a.txt\n"
    assert fsck(root) == ""
    both_edited.undo()
    assert status(root) == "M  a.txt\n"
    assert (root / "a.txt").read_text() == "".join(["mine\n", *LINES[1:]])


def test_edits_that_the_agent_committed_are_imported_as_committed(tmp_path: Path, root: Path) -> None:
    dirty(root)
    with GitSession(tmp_path, root) as session:
        session.commit("all", a__txt="more\nmine, not staged\nagent\n")
        session.end()
        session.import_commits()

        assert status(root) == ""
        assert (root / "a.txt").read_text() == "more\nmine, not staged\nagent\n"
        session.undo()
        assert (root / "a.txt").read_text() == "more\nmine, not staged\n"
        assert status(root) == " M a.txt\nA  staged\n?? untracked\n"


@pytest.mark.parametrize("is_staged", [False, True])
def test_an_overlapping_edit_stops_the_import(session: GitSession, is_staged: bool) -> None:  # noqa: FBT001
    session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    (session.root / "a.txt").write_text("mine\n")
    if is_staged:
        git(session.root, "add", "a.txt")
    before = (refs(session.root), session.files(), (session.root / ".git/index").read_bytes())
    done = session.import_commits()

    assert {one.key.path for one in done.conflicts} == {b"a.txt"}
    assert done.merge == ""
    assert (refs(session.root), session.files(), (session.root / ".git/index").read_bytes()) == before


def test_an_untracked_file_at_the_path_stops_the_import(session: GitSession) -> None:
    session.commit("one", new="agent\n")
    session.end()
    (session.root / "new").write_text("mine\n")

    assert [one.key.path for one in session.import_commits().conflicts] == [b"new"]
    assert (session.root / "new").read_text() == "mine\n"


# --- the index ---


def test_a_running_git_is_not_disturbed(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    (session.root / ".git/index.lock").touch()
    before = (refs(session.root), session.files(), objects(session.root))

    with pytest.raises(CannotMerge, match="another git process is running"):
        session.import_commits()
    assert (refs(session.root), session.files(), objects(session.root)) == before
    assert (session.root / ".git/index.lock").read_bytes() == b""


def test_during_a_rebase_nothing_is_changed(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    (session.root / ".git/rebase-merge").mkdir()

    with pytest.raises(CannotImport, match="rebase"):
        session.import_commits()


def test_index_flags_are_kept(tmp_path: Path, root: Path) -> None:
    (root / "hidden").write_text("h\n")
    commit(root, "hidden")
    git(root, "update-index", "--skip-worktree", "hidden")
    git(root, "update-index", "--assume-unchanged", "a.txt")
    (root / "hidden").unlink()
    with GitSession(tmp_path, root) as session:
        session.run_agent_git("update-index", "--no-skip-worktree", "hidden")
        session.run_agent_git("update-index", "--no-assume-unchanged", "a.txt")
        session.commit("one", a__txt="agent\n", hidden="agent\n")
        session.end()
        session.import_commits()

        assert not (root / "hidden").exists()
        assert status(root) == ""
        assert git(root, "ls-files", "-v", "hidden").startswith("S")
        assert git(root, "ls-files", "-v", "a.txt").startswith("h")
        assert (root / "a.txt").read_text() == "agent\n"


def test_changes_are_planned_in_slices(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worktree, "_SLICE", 2)
    names = [f"f{number}" for number in range(5)]
    (root / "f0").write_text("old\n")
    (root / "f4").write_text("old\n")
    commit(root, "old")
    with GitSession(tmp_path, root) as session:
        session.commit("all", **dict.fromkeys(names, "new\n"))
        session.end()
        session.import_commits()

        assert status(root) == ""
        assert [(root / name).read_text() for name in names] == ["new\n"] * 5


def test_a_split_index_is_read_whole(tmp_path: Path, root: Path) -> None:
    git(root, "update-index", "--split-index")
    with GitSession(tmp_path, root) as session:
        session.commit("one", a__txt="agent\n")
        session.end()
        session.import_commits()

        assert status(root) == ""
        assert git(root, "ls-files").splitlines() == ["a.txt", "sub/b.txt"]


def staged_edit(root: Path) -> None:
    (root / "a.txt").write_text("staged\n")
    git(root, "add", "a.txt")
    (root / "a.txt").write_text("staged\nnot staged\n")


def staged_new_file(root: Path) -> None:
    (root / "new").write_text("staged\n")
    git(root, "add", "new")
    (root / "new").write_text("staged\nnot staged\n")


def untracked_again(root: Path) -> None:
    git(root, "rm", "-q", "--cached", "a.txt")
    (root / "a.txt").write_text("no longer tracked\n")


@pytest.mark.parametrize("edit", [staged_edit, staged_new_file, untracked_again])
def test_a_commit_of_what_was_staged_leaves_the_files(tmp_path: Path, root: Path, edit: Callable[[Path], None]) -> None:
    edit(root)
    before = {name: (root / name).read_text() for name in ("a.txt", "new") if (root / name).exists()}
    staged = git(root, "ls-files", "-s")
    with GitSession(tmp_path, root) as session:
        session.run_agent_git("commit", "-q", "-m", "what was staged")
        session.end()
        done = session.import_commits()

    assert not done.conflicts
    assert {name: (root / name).read_text() for name in ("a.txt", "new") if (root / name).exists()} == before
    assert git(root, "ls-files", "-s") == staged
    assert git(root, "diff", "--cached", "--name-only") == ""
