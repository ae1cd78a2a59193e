"""Commits come home onto the user's branch, with files and index, and what happens where it cannot go forward."""

import pytest

from agent_dev.errors import CannotBring
from tests.disk.bring_world import fsck, head, refs, status
from tests.harness.git_session import GitSession
from tests.harness.repository import commit, git


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
