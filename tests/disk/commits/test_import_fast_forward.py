"""Commits are imported onto the user's branch, with files and index; if the branch cannot be fast-forwarded, it stays."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_dev.errors import CannotImport
from agent_dev.git import bare
from tests.disk.commits.import_world import fsck, head, refs, status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, git


def test_the_branch_is_fast_forwarded_with_files_and_index(session: GitSession) -> None:
    (session.agent / "sub/b.txt").unlink()
    made = session.commit("one", a__txt="agent\n", new___deep___c="c\n")
    session.end()
    done = session.import_commits()

    assert (done.ref, done.after, [one.id for one in done.commits]) == ("refs/heads/main", made, [made])
    assert head(session.root) == made
    assert status(session.root) == ""
    assert session.files()["a.txt"] == b"agent\n"
    assert (session.root / "new/deep/c").read_text() == "c\n"
    assert not (session.root / "sub").exists()
    assert fsck(session.root) == ""
    assert not session.review().changes.changes


def test_a_directory_is_imported_that_the_agent_replaced_since_by_a_file(session: GitSession) -> None:
    made = session.commit("one", sub___deep___c="c\n")
    shutil.rmtree(session.agent / "sub")
    session.write("sub", "a file\n")
    session.end()
    session.import_commits()

    assert (head(session.root), status(session.root)) == (made, "")
    assert (session.root / "sub/deep/c").read_text() == "c\n"


def test_the_reflog_names_the_session(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    done = session.import_commits()

    for name in ("HEAD", "main"):
        assert git(session.root, "reflog", "-1", "--format=%gs", name).strip() == f"agent-dev: merge {done.merge}"


def test_only_what_packs_or_checks_the_objects_may_take_long(session: GitSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk this takes minutes for many objects; an agent can make some that take git any time."""
    wait, limits = bare._wait_for_output, set[tuple[str, float]]()

    def waiting(git: Any, poll: Any, start: float, seconds: float) -> None:
        limits.update((name, seconds) for name in {"pack-objects", "index-pack"}.intersection(git.args) or ("others",))
        wait(git, poll, start, seconds)

    monkeypatch.setattr(bare, "_wait_for_output", waiting)
    session.commit("one", a__txt="agent\n")
    session.end()
    session.import_commits()

    assert limits == {("pack-objects", 600), ("index-pack", 600), ("others", 60)}


# --- the branch cannot be fast-forwarded ---


def test_a_moved_branch_stays_and_the_commits_are_imported_as_a_ref(session: GitSession) -> None:
    made = session.commit("one", a__txt="agent\n")
    session.end()
    yours = commit(session.root, "mine")
    done = session.import_commits()
    kept = f"refs/agent-dev/{session.session.id}/heads/main"

    assert (done.ref, done.after) == (kept, made)
    assert "has new commits" in done.reason
    assert done.next_command.endswith("--commits --onto-current")
    assert (head(session.root), head(session.root, kept)) == (yours, made)
    assert status(session.root) == ""
    session.undo()
    assert kept not in refs(session.root)


@pytest.fixture
def later_session(tmp_path: Path, root: Path) -> Iterator[GitSession]:
    """A session that began after a commit of the user's, which the user has removed since."""
    (root / "removed").write_text("x\n")
    commit(root, "removed")
    with GitSession(tmp_path, root) as made:
        yield made


def test_commits_that_the_user_removed_stay_removed(later_session: GitSession) -> None:
    made = later_session.commit("one", a__txt="agent\n")
    later_session.end()
    git(later_session.root, "reset", "-q", "--hard", "HEAD~1")
    before = head(later_session.root)
    done = later_session.import_commits()
    assert (done.reason, done.after) == ("you removed commits that the agent's branch has", made)
    assert head(later_session.root) == before
    later_session.import_commits(onto_current=True)
    assert head(later_session.root, "HEAD~1") == before
    assert (later_session.root / "a.txt").read_text() == "agent\n"
    assert not (later_session.root / "removed").exists()


def test_commits_are_rebased_onto_concurrent_commits_of_the_user(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.commit("two", b__txt="b\n")
    session.end()
    (session.root / "mine").write_text("m\n")
    yours = commit(session.root, "mine")
    done = session.import_commits(onto_current=True)

    assert [one.subject for one in done.commits] == ["one", "two"]
    assert git(session.root, "log", "--format=%s %an %cn", "-3").splitlines() == [
        "two Ada Grace",
        "one Ada Grace",
        "mine Ada Ada",
    ]
    assert head(session.root, "HEAD~2") == yours
    assert status(session.root) == ""
    assert (session.root / "a.txt").read_text() == "agent\n"
    assert fsck(session.root) == ""
    session.undo()
    assert head(session.root) == yours
    assert status(session.root) == ""


def test_conflicting_commits_change_nothing_and_are_named(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    (session.root / "a.txt").write_text("mine\n")
    commit(session.root, "mine")
    before = (refs(session.root), session.files(), (session.root / ".git/index").read_bytes())
    done = session.import_commits(onto_current=True)

    assert [one.key.path for one in done.conflicts] == [b"a.txt"]
    assert done.merge == ""
    assert (refs(session.root), session.files(), (session.root / ".git/index").read_bytes()) == before


def test_existing_commits_are_not_imported_twice(session: GitSession) -> None:
    session.commit("one", a__txt="agent\n")
    session.end()
    session.import_commits(with_trailers=True)
    before = refs(session.root)

    with pytest.raises(CannotImport, match="no new commits"):
        session.import_commits(onto_current=True)
    assert refs(session.root) == before


def test_merge_commits_of_the_agent_are_merged(session: GitSession) -> None:
    session.run_agent_git("checkout", "-q", "-b", "side")
    session.commit("side", side="s\n")
    session.run_agent_git("checkout", "-q", "main")
    session.commit("straight", straight="s\n")
    session.run_agent_git("merge", "-q", "--no-ff", "-m", "both", "side")
    session.end()
    (session.root / "mine").write_text("m\n")
    yours = commit(session.root, "mine")
    done = session.import_commits(onto_current=True)

    assert git(session.root, "log", "-1", "--format=%an").strip() == "Grace"
    assert head(session.root, "HEAD^1") == yours
    assert status(session.root) == ""
    assert {path for path in session.files() if "/" not in path} >= {"side", "straight", "mine"}
    assert done.after == head(session.root)


def test_a_branch_rewritten_by_the_agent_stays(session: GitSession) -> None:
    start = head(session.root)
    session.run_agent_git("commit", "-q", "--amend", "-m", "rewritten")
    session.end()
    done = session.import_commits()

    assert done.ref.startswith("refs/agent-dev/")
    assert "dropped commits" in done.reason
    assert head(session.root) == start
