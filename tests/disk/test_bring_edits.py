"""Commits come home beside edits of the user's, staged or not, and into an index of any kind."""

from pathlib import Path

import pytest

from agent_dev.errors import CannotBring, CannotMerge
from tests.disk.bring_world import fsck, refs, status
from tests.harness.git_session import GitSession
from tests.harness.repository import commit, git


def objects(root: Path) -> list[str]:
    return sorted(str(path) for path in (root / ".git/objects").rglob("*"))


# --- dirty trees ---


def dirty(root: Path) -> None:
    (root / "a.txt").write_text("more\nmine, not staged\n")
    (root / "staged").write_text("mine, staged\n")
    git(root, "add", "staged")
    (root / "untracked").write_text("mine, untracked\n")


def test_edits_that_the_commits_do_not_touch_stay_as_they_were(tmp_path: Path, root: Path) -> None:
    dirty(root)
    with GitSession(tmp_path, root) as session:
        session.write("other", "o\n")
        session.let_agent("add", "other")
        session.let_agent("commit", "-q", "-m", "one", "--", "other")
        session.end()
        before = status(root)
        session.bring()

        assert status(root) == before
        assert (root / "other").read_text() == "o\n"
        assert (root / "a.txt").read_text() == "more\nmine, not staged\n"


def test_an_edit_of_the_same_file_stays_beside_the_agents(tmp_path: Path, root: Path) -> None:
    lines = [f"{number}\n" for number in range(20)]
    (root / "a.txt").write_text("".join(lines))
    commit(root, "lines")
    with GitSession(tmp_path, root) as session:
        session.commit("one", a__txt="".join([*lines[:-1], "agent\n"]))
        session.end()
        (root / "a.txt").write_text("".join(["mine\n", *lines[1:]]))
        session.bring()

        assert (root / "a.txt").read_text() == "".join(["mine\n", *lines[1:-1], "agent\n"])
        assert status(root) == " M a.txt\n"
        assert git(root, "diff", "--stat").count("1 insertion") == 1


def test_a_staged_edit_of_the_same_file_stays_staged(tmp_path: Path, root: Path) -> None:
    lines = [f"{number}\n" for number in range(20)]
    (root / "a.txt").write_text("".join(lines))
    commit(root, "lines")
    with GitSession(tmp_path, root) as session:
        session.commit("one", a__txt="".join([*lines[:-1], "agent\n"]))
        session.end()
        (root / "a.txt").write_text("".join(["mine\n", *lines[1:]]))
        git(root, "add", "a.txt")
        session.bring()

        assert status(root) == "M  a.txt\n"
        assert fsck(root) == ""
        session.undo()
        assert status(root) == "M  a.txt\n"
        assert (root / "a.txt").read_text() == "".join(["mine\n", *lines[1:]])


def test_edits_that_the_agent_committed_come_home_committed(tmp_path: Path, root: Path) -> None:
    dirty(root)
    with GitSession(tmp_path, root) as session:
        session.commit("all", a__txt="more\nmine, not staged\nagent\n")
        session.end()
        session.bring()

        assert status(root) == ""
        assert (root / "a.txt").read_text() == "more\nmine, not staged\nagent\n"
        session.undo()
        assert (root / "a.txt").read_text() == "more\nmine, not staged\n"
        assert status(root) == " M a.txt\nA  staged\n?? untracked\n"


@pytest.mark.parametrize("is_staged", [False, True])
def test_an_edit_in_the_way_stops_all_of_it(session: GitSession, is_staged: bool) -> None:  # noqa: FBT001
    session.commit("one", a__txt="agent\n", new="n\n")
    session.end()
    (session.root / "a.txt").write_text("mine\n")
    if is_staged:
        git(session.root, "add", "a.txt")
    before = (refs(session.root), session.files(), (session.root / ".git/index").read_bytes())
    done = session.bring()

    assert {one.key.path for one in done.conflicts} == {b"a.txt"}
    assert done.merge == ""
    assert (refs(session.root), session.files(), (session.root / ".git/index").read_bytes()) == before


def test_an_untracked_file_in_the_way_stops_all_of_it(session: GitSession) -> None:
    session.commit("one", new="agent\n")
    session.end()
    (session.root / "new").write_text("mine\n")

    assert [one.key.path for one in session.bring().conflicts] == [b"new"]
    assert (session.root / "new").read_text() == "mine\n"


# --- the index ---


def test_a_git_at_work_is_not_disturbed(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    (session.root / ".git/index.lock").touch()
    before = (refs(session.root), session.files(), objects(session.root))

    with pytest.raises(CannotMerge, match="a git is at work"):
        session.bring()
    assert (refs(session.root), session.files(), objects(session.root)) == before
    assert (session.root / ".git/index.lock").read_bytes() == b""


def test_in_the_middle_of_a_rebase_nothing_is_changed(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    (session.root / ".git/rebase-merge").mkdir()

    with pytest.raises(CannotBring, match="rebase"):
        session.bring()


def test_flags_in_the_index_stay(tmp_path: Path, root: Path) -> None:
    (root / "hidden").write_text("h\n")
    commit(root, "hidden")
    git(root, "update-index", "--skip-worktree", "hidden")
    (root / "hidden").unlink()
    with GitSession(tmp_path, root) as session:
        session.let_agent("update-index", "--no-skip-worktree", "hidden")
        session.commit("one", a__txt="agent\n", hidden="agent\n")
        session.end()
        session.bring()

        assert not (root / "hidden").exists()
        assert status(root) == ""
        assert git(root, "ls-files", "-v", "hidden").startswith("S")


def test_a_split_index_is_read_whole(tmp_path: Path, root: Path) -> None:
    git(root, "update-index", "--split-index")
    with GitSession(tmp_path, root) as session:
        session.commit("one", a__txt="agent\n")
        session.end()
        session.bring()

        assert status(root) == ""
        assert git(root, "ls-files").splitlines() == ["a.txt", "sub/b.txt"]
