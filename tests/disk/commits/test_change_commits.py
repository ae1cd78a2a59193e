"""Each change has the last commit of the agent's branch that changed its path, or is uncommitted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.cli.screen.review_source import ReviewSource
from agent_dev.commits.change_commits import UNCOMMITTED, find_change_commits, last_commits
from agent_dev.git.formats.commit_format import ParsedCommit, TreeChange
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, repository


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    root = repository(tmp_path / "root")
    (root / "old.txt").write_text("line\n" * 20)
    commit(root, "more")
    with GitSession(tmp_path, root) as opened:
        yield opened


def commits_of(session: GitSession) -> dict[str, str]:
    session.end()
    review = session.review()
    try:
        assert find_change_commits(review) == ReviewSource(review, session.store).find_commits()
        return {key.path.decode(): oid for key, oid in find_change_commits(review).items()}
    finally:
        review.close()


def test_the_last_commit_of_a_path_is_its_commit(session: GitSession) -> None:
    first = session.commit("one", one="1\n", both="1\n")
    second = session.commit("two", two="2\n", both="2\n")
    assert commits_of(session) == {"one": first, "two": second, "both": second}


def test_files_that_differ_from_their_commit_are_uncommitted(session: GitSession) -> None:
    first = session.commit("one", one="1\n", edited="1\n")
    session.write("edited", "2\n")
    session.write("new", "n\n")
    assert commits_of(session) == {"one": first, "edited": UNCOMMITTED, "new": UNCOMMITTED}


def test_a_renamed_file_has_the_commit_of_its_rename(session: GitSession) -> None:
    (session.agent / "old.txt").rename(session.agent / "moved.txt")
    moved = session.commit("move")
    assert commits_of(session) == {"moved.txt": moved}


def test_commits_of_another_branch_are_not_those_of_a_change(session: GitSession) -> None:
    session.run_agent_git("checkout", "-q", "-b", "side")
    session.commit("side", one="1\n")
    session.run_agent_git("checkout", "-q", "main")
    session.write("one", "1\n")
    assert commits_of(session) == {"one": UNCOMMITTED}


def test_without_commits_no_change_has_one(session: GitSession) -> None:
    session.write("new", "n\n")
    assert commits_of(session) == {}


def test_only_ancestors_of_the_head_count() -> None:
    def made(oid: str, parent: str, path: bytes) -> ParsedCommit:
        return ParsedCommit(oid, parents=(parent,), changed_files=(TreeChange(path, 0, 0o100644, "", "", "A"),))

    rows = (made("c", "a", b"x"), made("b", "a", b"x"), made("a", "0", b"y"))
    assert last_commits(rows, "b") == {b"x": "b", b"y": "a"}
