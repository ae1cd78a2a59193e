"""The ways in which commits come home: as a branch, as a ref, squashed, picked, with trailers, signed."""

from pathlib import Path

import pytest

from agent_dev.errors import CannotBring, CannotUndo, UsageError
from tests.disk.bring_world import head, refs, status
from tests.harness.git_session import GitSession
from tests.harness.repository import git


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


@pytest.mark.parametrize("picks", [False, True])
def test_a_squash_of_what_is_here_already_makes_no_empty_commit(session: GitSession, *, picks: bool) -> None:
    one = session.commit("one", a__txt="agent\n")
    session.end()
    chosen = (one,) if picks else ()
    session.bring(*chosen, squash=True, onto_current=not picks)
    tip = head(session.root)
    with pytest.raises(CannotBring, match="already"):
        session.bring(*chosen, squash=True, onto_current=not picks)
    assert head(session.root) == tip


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
