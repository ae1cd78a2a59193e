"""The import modes for commits: as a branch, as a ref, squashed, cherry-picked, with trailers, signed."""

from pathlib import Path

import pytest

from agent_dev.errors import CannotImport, CannotUndo, UsageError
from tests.disk.commits.import_world import head, refs, status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import git


def test_a_new_branch_is_created_and_nothing_else_changes(session: GitSession) -> None:
    start, before = head(session.root), session.files()
    made = session.commit("one", a__txt="agent\n")
    session.end()
    session.import_commits(name="theirs")

    assert (head(session.root), head(session.root, "theirs"), session.files()) == (start, made, before)
    assert status(session.root) == ""
    session.undo()
    assert "theirs" not in refs(session.root)


def test_an_existing_branch_is_not_overwritten(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    git(session.root, "branch", "theirs")

    with pytest.raises(CannotImport, match="already"):
        session.import_commits(name="theirs")


@pytest.mark.parametrize("name", ["", "a..b", "-x", "a b", "x.lock", "@{-1}", "HEAD~1"])
def test_an_invalid_branch_name_is_refused(session: GitSession, name: str) -> None:
    session.commit("one", a__txt="agent\n")
    if name:
        with pytest.raises(UsageError):
            session.import_commits(name=name)


def test_an_undo_keeps_a_branch_that_is_checked_out(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    session.import_commits(name="theirs")
    git(session.root, "switch", "-q", "theirs")

    with pytest.raises(CannotUndo, match="checked out"):
        session.undo()


def test_another_branch_of_the_agent_is_imported_as_a_ref(session: GitSession) -> None:
    session.run_agent_git("checkout", "-q", "-b", "feature")
    made = session.commit("one", a__txt="agent\n")
    session.end()
    done = session.import_commits("feature")

    assert (done.ref, done.after, done.reason) == (f"refs/agent-dev/{session.session.id}/heads/feature", made, "")
    with pytest.raises(CannotImport, match="no new commits on main"):
        session.import_commits()


def test_a_branch_that_is_not_checked_out_is_fast_forwarded_alone(tmp_path: Path, root: Path) -> None:
    git(root, "branch", "side")
    with GitSession(tmp_path, root) as session:
        session.run_agent_git("checkout", "-q", "side")
        made = session.commit("one", a__txt="agent\n")
        session.end()
        before = (session.files(), (root / ".git/index").read_bytes(), head(root))
        session.import_commits("side")

        assert head(root, "side") == made
        assert (session.files(), (root / ".git/index").read_bytes(), head(root)) == before


def test_a_branch_checked_out_in_another_worktree_stays(tmp_path: Path, root: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "side")
    with GitSession(tmp_path, root) as session:
        session.run_agent_git("update-ref", "refs/heads/side", session.commit("one", a__txt="agent\n"))
        session.run_agent_git("update-ref", "refs/heads/main", "HEAD~1")
        done = session.import_commits("side")

        assert "another work tree" in done.reason
        assert done.ref.startswith("refs/agent-dev/")


def test_a_squash_is_one_commit_of_the_user(session: GitSession) -> None:
    start = head(session.root)
    session.commit("one", a__txt="agent\n")
    session.commit("two", b__txt="b\n")
    session.end()
    done = session.import_commits(squash=True)

    assert len(done.commits) == 1
    assert head(session.root, "HEAD~1") == start
    assert git(session.root, "log", "-1", "--format=%an %cn|%B").strip() == (
        "Grace Grace|Import 2 commits of claude\n\n- one\n- two"
    )
    assert status(session.root) == ""
    assert (session.root / "b.txt").read_text() == "b\n"


@pytest.mark.parametrize("picks", [False, True])
def test_a_squash_of_existing_commits_creates_no_empty_commit(session: GitSession, *, picks: bool) -> None:
    one = session.commit("one", a__txt="agent\n")
    session.end()
    selected = (one,) if picks else ()
    session.import_commits(*selected, squash=True, onto_current=not picks)
    tip = head(session.root)
    with pytest.raises(CannotImport, match=r"already|no new commits"):
        session.import_commits(*selected, squash=True, onto_current=not picks)
    assert head(session.root) == tip


def test_squashed_commits_are_not_imported_again(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.commit("two", a__txt="again\n")
    session.end()
    session.import_commits(squash=True)
    before = refs(session.root)
    with pytest.raises(CannotImport, match="no new commits on main"):
        session.import_commits()
    assert refs(session.root) == before
    session.undo()
    assert len(session.import_commits().commits) == 2


def test_a_squash_uses_the_given_message(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.commit("two", b__txt="b\n")
    session.end()
    session.import_commits(squash=True, message="Do it all")

    assert git(session.root, "log", "-1", "--format=%B").strip() == "Do it all"


def test_selected_commits_are_cherry_picked(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    two = session.commit("two", b__txt="b\n")
    session.commit("three", c__txt="c\n")
    session.end()
    session.import_commits(two[:8])

    assert (session.root / "b.txt").exists()
    assert not (session.root / "c.txt").exists()
    assert (session.root / "a.txt").read_text() == "more\n"
    assert status(session.root) == ""
    assert git(session.root, "log", "-1", "--format=%s %an %cn").strip() == "two Ada Grace"


def test_a_range_is_cherry_picked(session: GitSession) -> None:
    one = session.commit("one", a__txt="agent\n")
    session.commit("two", b__txt="b\n")
    session.commit("three", c__txt="c\n")
    session.end()
    done = session.import_commits(f"{one[:8]}..main")

    assert [reported.subject for reported in done.commits] == ["two", "three"]
    assert (session.root / "a.txt").read_text() == "more\n"
    assert status(session.root) == ""


def test_a_commit_that_depends_on_another_is_a_conflict(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    two = session.commit("two", a__txt="agent twice\n")
    session.end()

    assert [one.key.path for one in session.import_commits(two[:8]).conflicts] == [b"a.txt"]


def test_the_first_commits_are_imported_unchanged(session: GitSession) -> None:
    one = session.commit("one", a__txt="agent\n")
    session.commit("two", a__txt="agent twice\n")
    session.end()
    session.import_commits(one)

    assert head(session.root) == one


def test_trailers_name_agent_and_session(session: GitSession) -> None:
    session.commit("one\n\nSigned-off-by: Ada <ada@example.invalid>", a__txt="agent\n")
    session.end()
    session.import_commits(with_trailers=True)

    assert git(session.root, "log", "-1", "--format=%B").strip().splitlines()[-3:] == [
        "Signed-off-by: Ada <ada@example.invalid>",
        "Agent: claude",
        f"Session: {session.session.id}",
    ]
    assert git(session.root, "log", "-1", "--format=%an %cn").strip() == "Ada Grace"
    assert status(session.root) == ""


def test_commits_are_signed_if_the_user_signs(tmp_path: Path, root: Path) -> None:
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
        session.run_agent_git("config", "commit.gpgSign", "false")
        session.commit("one", a__txt="agent\n")
        session.commit("two", b__txt="b\n")
        session.end()
        session.import_commits()

        assert git(root, "log", "-2", "--format=%G? %an").splitlines() == ["G Ada", "G Ada"]
        assert status(root) == ""
