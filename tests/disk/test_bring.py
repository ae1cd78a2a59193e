"""Commits come home: refs, files and index together or not at all, and an undo takes all three back."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.errors import CannotBring, CannotMerge, CannotUndo, UsageError
from tests.harness.git_session import GitSession
from tests.harness.repository import commit, git, repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = repository(tmp_path / "root")
    git(place, "config", "user.name", "Grace")
    git(place, "config", "user.email", "grace@example.invalid")
    return place


@pytest.fixture
def session(tmp_path: Path, root: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, root) as made:
        yield made


def status(root: Path) -> str:
    return git(root, "status", "--porcelain")


def head(root: Path, name: str = "HEAD") -> str:
    return git(root, "rev-parse", name).strip()


def fsck(root: Path) -> str:
    return git(root, "fsck", "--strict", "--no-dangling")


def refs(root: Path) -> str:
    return git(root, "for-each-ref", "--format=%(objectname) %(refname)")


def objects(root: Path) -> list[str]:
    return sorted(str(path) for path in (root / ".git/objects").rglob("*"))


def test_the_branch_goes_forward_with_files_and_index(session: GitSession) -> None:
    (session.agent / "sub/b.txt").unlink()
    made = session.commit("one", a__txt="agent\n", new___deep___c="c\n")
    session.end()
    done = session.bring()

    assert (done.ref, done.after, [one.id for one in done.commits]) == ("refs/heads/main", made, [made])
    assert head(session.root) == made
    assert status(session.root) == ""
    assert session.files()["a.txt"] == b"agent\n"
    assert (session.root / "new/deep/c").read_text() == "c\n"
    assert not (session.root / "sub").exists()
    assert fsck(session.root) == ""
    assert not session.review().changes.changes


def test_the_reflog_says_where_it_came_from(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    done = session.bring()

    for name in ("HEAD", "main"):
        assert git(session.root, "reflog", "-1", "--format=%gs", name).strip() == f"agent-dev: merge {done.merge}"


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


# --- when it cannot go forward ---


def test_a_branch_that_moved_stays_and_the_commits_come_as_a_ref(session: GitSession) -> None:
    made = session.commit("one", a__txt="agent\n")
    session.end()
    mine = commit(session.root, "mine")
    done = session.bring()
    kept = f"refs/agent-dev/{session.session.id}/heads/main"

    assert (done.ref, done.after) == (kept, made)
    assert "moved" in done.why
    assert done.next.endswith("--commits --onto-current")
    assert (head(session.root), head(session.root, kept)) == (mine, made)
    assert status(session.root) == ""
    session.undo()
    assert kept not in refs(session.root)


def test_commits_go_on_top_of_what_the_user_did_meanwhile(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.commit("two", b__txt="b\n")
    session.end()
    (session.root / "mine").write_text("m\n")
    mine = commit(session.root, "mine")
    done = session.bring(onto_current=True)

    assert [one.subject for one in done.commits] == ["one", "two"]
    assert git(session.root, "log", "--format=%s %an %cn", "-3").splitlines() == [
        "two Ada Grace",
        "one Ada Grace",
        "mine Ada Ada",
    ]
    assert head(session.root, "HEAD~2") == mine
    assert status(session.root) == ""
    assert (session.root / "a.txt").read_text() == "agent\n"
    assert fsck(session.root) == ""
    session.undo()
    assert head(session.root) == mine
    assert status(session.root) == ""


def test_commits_that_do_not_fit_change_nothing_and_are_named(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    (session.root / "a.txt").write_text("mine\n")
    commit(session.root, "mine")
    before = (refs(session.root), session.files(), (session.root / ".git/index").read_bytes())
    done = session.bring(onto_current=True)

    assert [one.key.path for one in done.conflicts] == [b"a.txt"]
    assert done.merge == ""
    assert (refs(session.root), session.files(), (session.root / ".git/index").read_bytes()) == before


def test_what_is_there_already_is_not_brought_twice(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    session.bring(with_trailers=True)
    before = refs(session.root)

    with pytest.raises(CannotBring, match="not here already"):
        session.bring(onto_current=True)
    assert refs(session.root) == before


def test_merges_of_the_agents_are_merged(session: GitSession) -> None:
    session.let_agent("checkout", "-q", "-b", "side")
    session.commit("side", side="s\n")
    session.let_agent("checkout", "-q", "main")
    session.commit("straight", straight="s\n")
    session.let_agent("merge", "-q", "--no-ff", "-m", "both", "side")
    session.end()
    (session.root / "mine").write_text("m\n")
    mine = commit(session.root, "mine")
    done = session.bring(onto_current=True)

    assert git(session.root, "log", "-1", "--format=%an").strip() == "Grace"
    assert head(session.root, "HEAD^1") == mine
    assert status(session.root) == ""
    assert {path for path in session.files() if "/" not in path} >= {"side", "straight", "mine"}
    assert done.after == head(session.root)


def test_a_branch_that_the_agent_rewrote_stays(session: GitSession) -> None:
    start = head(session.root)
    session.let_agent("commit", "-q", "--amend", "-m", "rewritten")
    session.end()
    done = session.bring()

    assert done.ref.startswith("refs/agent-dev/")
    assert "took commits back" in done.why
    assert head(session.root) == start


# --- as what ---


def test_a_new_branch_is_made_and_nothing_else_moves(session: GitSession) -> None:
    start, before = head(session.root), session.files()
    made = session.commit("one", a__txt="agent\n")
    session.end()
    session.bring(name="theirs")

    assert (head(session.root), head(session.root, "theirs"), session.files()) == (start, made, before)
    assert status(session.root) == ""
    session.undo()
    assert "theirs" not in refs(session.root)


def test_a_branch_that_is_there_is_not_overwritten(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    git(session.root, "branch", "theirs")

    with pytest.raises(CannotBring, match="already"):
        session.bring(name="theirs")


@pytest.mark.parametrize("name", ["", "a..b", "-x", "a b", "x.lock", "@{-1}", "HEAD~1"])
def test_a_name_that_no_branch_can_have_is_refused(session: GitSession, name: str) -> None:
    session.commit("one", a__txt="agent\n")
    if name:
        with pytest.raises(UsageError):
            session.bring(name=name)


def test_an_undo_keeps_a_branch_that_is_checked_out(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    session.bring(name="theirs")
    git(session.root, "switch", "-q", "theirs")

    with pytest.raises(CannotUndo, match="checked out"):
        session.undo()


def test_another_branch_of_the_agents_comes_as_a_ref(session: GitSession) -> None:
    session.let_agent("checkout", "-q", "-b", "feature")
    made = session.commit("one", a__txt="agent\n")
    session.end()
    done = session.bring("feature")

    assert (done.ref, done.after, done.why) == (f"refs/agent-dev/{session.session.id}/heads/feature", made, "")
    with pytest.raises(CannotBring, match="nothing on main"):
        session.bring()


def test_a_branch_of_the_users_that_is_not_checked_out_goes_forward_alone(tmp_path: Path, root: Path) -> None:
    git(root, "branch", "side")
    with GitSession(tmp_path, root) as session:
        session.let_agent("checkout", "-q", "side")
        made = session.commit("one", a__txt="agent\n")
        session.end()
        before = (session.files(), (root / ".git/index").read_bytes(), head(root))
        session.bring("side")

        assert head(root, "side") == made
        assert (session.files(), (root / ".git/index").read_bytes(), head(root)) == before


def test_a_branch_that_another_work_tree_has_checked_out_stays(tmp_path: Path, root: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "side")
    with GitSession(tmp_path, root) as session:
        session.let_agent("update-ref", "refs/heads/side", session.commit("one", a__txt="agent\n"))
        session.let_agent("update-ref", "refs/heads/main", "HEAD~1")
        done = session.bring("side")

        assert "another work tree" in done.why
        assert done.ref.startswith("refs/agent-dev/")


def test_a_squash_is_one_commit_of_the_users(session: GitSession) -> None:
    start = head(session.root)
    session.commit("one", a__txt="agent\n")
    session.commit("two", b__txt="b\n")
    session.end()
    done = session.bring(squash=True)

    assert len(done.commits) == 1
    assert head(session.root, "HEAD~1") == start
    assert git(session.root, "log", "-1", "--format=%an %cn|%B").strip() == (
        "Grace Grace|Take 2 commits of claude\n\n- one\n- two"
    )
    assert status(session.root) == ""
    assert (session.root / "b.txt").read_text() == "b\n"


def test_a_squash_says_what_it_is_told(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.commit("two", b__txt="b\n")
    session.end()
    session.bring(squash=True, message="Do it all")

    assert git(session.root, "log", "-1", "--format=%B").strip() == "Do it all"


def test_chosen_commits_are_picked(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    two = session.commit("two", b__txt="b\n")
    session.commit("three", c__txt="c\n")
    session.end()
    session.bring(two[:8])

    assert (session.root / "b.txt").exists()
    assert not (session.root / "c.txt").exists()
    assert (session.root / "a.txt").read_text() == "more\n"
    assert status(session.root) == ""
    assert git(session.root, "log", "-1", "--format=%s %an %cn").strip() == "two Ada Grace"


def test_a_range_is_picked(session: GitSession) -> None:
    one = session.commit("one", a__txt="agent\n")
    session.commit("two", b__txt="b\n")
    session.commit("three", c__txt="c\n")
    session.end()
    done = session.bring(f"{one[:8]}..main")

    assert [told.subject for told in done.commits] == ["two", "three"]
    assert (session.root / "a.txt").read_text() == "more\n"
    assert status(session.root) == ""


def test_a_commit_that_needs_another_is_a_conflict(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    two = session.commit("two", a__txt="agent twice\n")
    session.end()

    assert [one.key.path for one in session.bring(two[:8]).conflicts] == [b"a.txt"]


def test_the_first_commits_are_taken_as_they_are(session: GitSession) -> None:
    one = session.commit("one", a__txt="agent\n")
    session.commit("two", a__txt="agent twice\n")
    session.end()
    session.bring(one)

    assert head(session.root) == one


def test_trailers_say_agent_and_session(session: GitSession) -> None:
    session.commit("one\n\nSigned-off-by: Ada <ada@example.invalid>", a__txt="agent\n")
    session.end()
    session.bring(with_trailers=True)

    assert git(session.root, "log", "-1", "--format=%B").strip().splitlines()[-3:] == [
        "Signed-off-by: Ada <ada@example.invalid>",
        "Agent: claude",
        f"Session: {session.session.id}",
    ]
    assert git(session.root, "log", "-1", "--format=%an %cn").strip() == "Ada Grace"
    assert status(session.root) == ""


def test_commits_are_signed_by_the_user_who_signs(tmp_path: Path, root: Path) -> None:
    import subprocess

    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (tmp_path / "allowed").write_text(f"grace@example.invalid {key.with_suffix('.pub').read_text()}")
    for name, value in (
        ("commit.gpgSign", "true"),
        ("gpg.format", "ssh"),
        ("user.signingKey", str(key)),
        ("gpg.ssh.allowedSignersFile", str(tmp_path / "allowed")),
    ):
        git(root, "config", name, value)
    with GitSession(tmp_path, root) as session:
        session.let_agent("config", "commit.gpgSign", "false")
        session.commit("one", a__txt="agent\n")
        session.commit("two", b__txt="b\n")
        session.end()
        session.bring()

        assert git(root, "log", "-2", "--format=%G? %an").splitlines() == ["G Ada", "G Ada"]
        assert status(root) == ""


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


# --- what a tree can hold ---


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
