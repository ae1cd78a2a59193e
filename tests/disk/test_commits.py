"""What the agent committed is found, and what it only fetched is not taken for its own."""

from pathlib import Path

import pytest

from agent_dev.agent_git.changes import Found
from agent_dev.commits.agent_git import commits, refs
from agent_dev.git.formats.commit_format import Commit
from agent_dev.session import store
from tests.disk.commits_world import Session
from tests.harness.repository import ENVIRON, commit, git, repository


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, repository(tmp_path / "root"))


# --- what was committed ---


def test_without_commits_there_are_none(session: Session) -> None:
    assert (session.made(), session.has_moved()) == ((), False)


def test_commits_come_with_id_and_subject_the_newest_first(session: Session) -> None:
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


def test_the_users_own_commits_are_not_the_agents(session: Session) -> None:
    made = session.let_commit("agent's")
    commit(session.root, "user's")

    assert [one.id for one in session.made()] == [made]


def test_packed_commits_and_refs_are_found(session: Session) -> None:
    made = session.let_commit("packed")
    session.let_agent("gc", "-q")

    assert [one.id for one in session.made()] == [made]


@pytest.mark.parametrize("words", ["checkout -q -b x", "branch y", "tag v1", "checkout -q HEAD~1", "branch -f main HEAD~1"])
def test_a_ref_that_moved_to_known_commits_brings_none(session: Session, words: str) -> None:
    session.let_agent("checkout", "-q", "--detach")
    refs.remember(session.session, session.record)
    session.let_agent(*words.split())

    assert (session.made(), session.has_moved()) == ((), True)


def test_a_removed_branch_brings_none(session: Session) -> None:
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
def test_moved_are_branches_and_tags_and_not_head_alone(session: Session, words: str, moved: tuple[str, ...]) -> None:
    commit(session.root, "second")
    again = Session(session.root.parent / "again", session.root)
    again.let_agent(*words.split())

    assert refs.moved(again.session, again.record, ENVIRON) == moved
    assert again.made() == ()


def test_an_amended_commit_is_the_agents(session: Session) -> None:
    session.let_agent("commit", "-q", "--amend", "-m", "amended")

    assert [one.subject for one in session.made()] == ["amended"]


@pytest.mark.parametrize("subject", ["\x1b[2J", "ä", "with \u202e bidi", "%s %H", "-n"])
def test_any_subject_comes_back(session: Session, subject: str) -> None:
    session.let_commit(subject)

    assert [one.subject for one in session.made()] == [subject]


def test_commits_of_a_repository_with_sha256_are_found(tmp_path: Path) -> None:
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
    one = store.create(store.Store(str(tmp_path / "state")))

    assert commits.made(one, store.BLANK, ENVIRON) == ()
    assert not refs.has_moved(one, store.BLANK)


def test_nothing_outside_is_written(session: Session) -> None:
    session.let_commit("one")
    before = {path: path.read_bytes() for path in session.root.rglob("*") if path.is_file()}
    session.made()

    assert {path: path.read_bytes() for path in session.root.rglob("*") if path.is_file()} == before


# --- what was fetched ---


def let_fetch(session: Session) -> str:
    """Let somebody else have a commit with a tag, and the agent fetch it; return its id."""
    other = repository(session.root.parent / "other")
    (other / "theirs").touch()
    theirs = commit(other, "upstream")
    git(other, "tag", "v9")
    session.let_agent("remote", "add", "origin", str(other))
    session.let_agent("fetch", "-q", "--tags", "origin")
    return theirs


def look(session: Session) -> Found:
    with commits.opened(session.session, session.record, ENVIRON) as skeleton:
        return commits.found(session.session, session.record, skeleton, ENVIRON)


def test_what_was_only_fetched_is_not_the_agents(session: Session) -> None:
    let_fetch(session)
    own = session.let_commit("own")
    found = look(session)

    assert [one.id for one in session.made()] == [own]
    assert [one.id for one in found.commits] == [own]
    assert found.fetched >= 1
    assert not found.remote
    assert "refs/remotes/origin/main" in {one.name for one in found.refs}


def test_what_is_on_a_branch_of_the_agents_is_told_wherever_else_it_is(session: Session) -> None:
    theirs = let_fetch(session)
    session.let_agent("checkout", "-q", "-b", "x", "origin/main")
    own = session.let_commit("on top")
    found = look(session)

    assert {one.id for one in found.commits} >= {own, theirs}
    assert theirs in found.remote
    assert own not in found.remote
    assert found.fetched == 0


def test_what_the_agent_tagged_is_its_own(session: Session) -> None:
    let_fetch(session)
    session.let_agent("checkout", "-q", "--detach")
    own = session.let_commit("tagged")
    session.let_agent("tag", "mine")
    session.let_agent("checkout", "-q", "main")

    assert [one.id for one in look(session).commits] == [own]
