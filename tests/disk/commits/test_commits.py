"""Commits that the agent made are listed; commits that it only fetched are not."""

from pathlib import Path

import pytest

from agent_dev.agent_git import commits, current_refs, refs
from agent_dev.agent_git.changes import GitChanges
from agent_dev.agent_git.repositories import list_repositories
from agent_dev.git.formats.commit_format import Commit
from agent_dev.session import store
from tests.disk.commits.commits_world import Session
from tests.harness.repository import ENVIRON, commit, git, repository


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, repository(tmp_path / "root"))


# --- commits of the agent ---


def test_a_session_without_commits_lists_none(session: Session) -> None:
    assert (session.made(), session.has_moved()) == ((), False)


def test_commits_are_listed_newest_first_with_id_and_subject(session: Session) -> None:
    first, second = session.let_commit("one"), session.let_commit("two")

    assert session.made() == (Commit(second, "two"), Commit(first, "one"))
    assert session.has_moved()


def test_commits_of_all_branches_are_found(session: Session) -> None:
    here = session.let_commit("here")
    session.let_agent("checkout", "-q", "-b", "x", "HEAD~1")
    there = session.let_commit("there")
    session.let_agent("checkout", "-q", "--detach")
    loose = session.let_commit("detached")

    assert {one.id for one in session.made()} == {here, there, loose}


def test_commits_of_the_user_are_not_the_agents(session: Session) -> None:
    made = session.let_commit("agent's")
    commit(session.root, "user's")

    assert [one.id for one in session.made()] == [made]


def test_packed_commits_and_refs_are_found(session: Session) -> None:
    made = session.let_commit("packed")
    session.let_agent("gc", "-q")

    assert [one.id for one in session.made()] == [made]


@pytest.mark.parametrize("words", ["checkout -q -b x", "branch y", "tag v1", "checkout -q HEAD~1", "branch -f main HEAD~1"])
def test_a_ref_moved_to_known_commits_adds_none(session: Session, words: str) -> None:
    session.let_agent("checkout", "-q", "--detach")
    refs.record_initial_refs(session.session, session.record)
    session.let_agent(*words.split())

    assert (session.made(), session.has_moved()) == ((), True)


def test_a_deleted_branch_adds_none(session: Session) -> None:
    git(session.root, "branch", "x")
    session.let_agent("update-ref", "-d", "refs/heads/main")

    assert session.made() == ()
    assert session.has_moved()


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        ("checkout -q --detach", ()),
        ("checkout -q HEAD~1", ()),
        ("checkout -q -b x", ("refs/heads/x",)),
        ("tag -a -m note v1", ("refs/tags/v1",)),
        ("branch -m main trunk", ("refs/heads/main", "refs/heads/trunk")),
        ("reset -q --soft HEAD~1", ("refs/heads/main",)),
    ],
)
def test_moved_refs_are_branches_and_tags_not_only_head(session: Session, words: str, moved: tuple[str, ...]) -> None:
    commit(session.root, "second")
    again = Session(session.root.parent / "again", session.root)
    again.let_agent(*words.split())

    assert current_refs.list_changed_refs(list_repositories(again.session, again.record)[0], ENVIRON) == moved
    assert again.made() == ()


def test_an_amended_commit_counts_as_the_agents(session: Session) -> None:
    session.let_agent("commit", "-q", "--amend", "-m", "amended")

    assert [one.subject for one in session.made()] == ["amended"]


@pytest.mark.parametrize("subject", ["\x1b[2J", "ä", "with \u202e bidi", "%s %H", "-n"])
def test_any_subject_round_trips(session: Session, subject: str) -> None:
    session.let_commit(subject)

    assert [one.subject for one in session.made()] == [subject]


def test_commits_of_a_sha256_repository_are_found(tmp_path: Path) -> None:
    session = Session(tmp_path, repository(tmp_path / "root", "--object-format=sha256"))
    made = session.let_commit("one")

    assert session.made() == (Commit(made, "one"),)


def test_commits_of_a_shallow_clone_are_found(tmp_path: Path) -> None:
    repository(tmp_path / "whole")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tmp_path}/whole", "root")
    session = Session(tmp_path, tmp_path / "root")
    made = session.let_commit("one")

    assert [one.id for one in session.made()] == [made]


def test_a_session_without_git_has_no_commits(tmp_path: Path) -> None:
    one = store.create_session(store.Store(str(tmp_path / "state")))

    assert commits.list_session_commits(one, store.BLANK, ENVIRON) == ()
    assert not refs.have_refs_changed(one, store.BLANK)


def test_nothing_outside_is_written(session: Session) -> None:
    session.let_commit("one")
    before = {path: path.read_bytes() for path in session.root.rglob("*") if path.is_file()}
    session.made()

    assert {path: path.read_bytes() for path in session.root.rglob("*") if path.is_file()} == before


# --- fetched commits ---


def let_fetch(session: Session) -> str:
    """Create a tagged commit in another repository and fetch it as the agent; return its id."""
    other = repository(session.root.parent / "other")
    (other / "theirs").touch()
    theirs = commit(other, "upstream")
    git(other, "tag", "v9")
    session.let_agent("remote", "add", "origin", str(other))
    session.let_agent("fetch", "-q", "--tags", "origin")
    return theirs


def look(session: Session) -> GitChanges:
    with commits.open_agent_objects(list_repositories(session.session, session.record)[0], ENVIRON) as skeleton:
        return commits.read_changes(list_repositories(session.session, session.record)[0], skeleton, ENVIRON)


def test_only_fetched_commits_are_not_the_agents(session: Session) -> None:
    let_fetch(session)
    own = session.let_commit("own")
    found = look(session)

    assert [one.id for one in session.made()] == [own]
    assert [one.id for one in found.commits] == [own]
    assert found.fetched_count >= 1
    assert not found.remote_ids
    assert "refs/remotes/origin/main" in {one.name for one in found.refs}


def test_a_commit_on_an_agent_branch_is_listed_wherever_else_it_is(session: Session) -> None:
    theirs = let_fetch(session)
    session.let_agent("checkout", "-q", "-b", "x", "origin/main")
    own = session.let_commit("on top")
    found = look(session)

    assert {one.id for one in found.commits} >= {own, theirs}
    assert theirs in found.remote_ids
    assert own not in found.remote_ids
    assert found.fetched_count == 0


def test_tagged_commits_are_the_agents(session: Session) -> None:
    let_fetch(session)
    session.let_agent("checkout", "-q", "--detach")
    own = session.let_commit("tagged")
    session.let_agent("tag", "mine")
    session.let_agent("checkout", "-q", "main")

    assert [one.id for one in look(session).commits] == [own]
