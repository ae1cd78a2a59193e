"""Commits imported with the line-by-line prompt: conflicts are resolved there, and nothing is imported before."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.cli.screen.review_source import ReviewSource
from tests.harness.commit_conflicts import make_users_repository
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, git
from tests.harness.typist import Typist
from tui.plain import commits

LINES = "".join(f"line {number}\n" for number in range(9))
AGENT, YOURS = LINES.replace("line 4", "AGENT"), LINES.replace("line 4", "MINE")
ALL = ("a", "y", "y")  # select all, import onto the current branch, resolve the conflicts


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, make_users_repository(tmp_path / "root", text=LINES)) as opened:
        yield opened


def run_import(session: GitSession, *answers: str, editor: str = "") -> tuple[bool, str]:
    """Answer the prompts about commits; return whether they may have been imported, and the output."""
    session.end()
    typist, review = Typist(*answers), session.review()
    if editor:
        review.environ = {**review.environ, "EDITOR": editor}
    try:
        ended = commits.ask_commits(ReviewSource(review, session.store), typist)
    finally:
        review.close()
    assert typist.answers == []
    return ended is not None and ended.may_have_changed, "\n".join(typist.lines)


def user_commits(session: GitSession, text: str) -> str:
    (session.root / "text").write_text(text)
    return commit(session.root, "mine")


@pytest.mark.parametrize(
    ("letter", "landed"), [("y", YOURS), ("a", AGENT), ("b", AGENT.replace("AGENT", "MINE\nAGENT")), ("e", "by hand\n")]
)
def test_a_conflict_is_resolved_at_the_prompt(session: GitSession, tmp_path: Path, letter: str, landed: str) -> None:
    session.commit("one", text=AGENT, new="n\n")
    yours = user_commits(session, YOURS)
    (tmp_path / "editor").write_text("#!/bin/sh\nprintf 'by hand\\n' >\"$1\"\n")
    (tmp_path / "editor").chmod(0o755)
    is_done, printed = run_import(session, *ALL, letter, "y", editor=str(tmp_path / "editor"))

    assert is_done, printed
    assert git(session.root, "rev-parse", "HEAD^").strip() == yours
    assert (session.root / "text").read_text() == landed
    assert git(session.root, "status", "--porcelain") == ""


def test_conflicts_of_later_commits_and_edits_are_prompted_in_turn(session: GitSession) -> None:
    session.commit("one", text=AGENT)
    session.commit("two", text=AGENT.replace("AGENT", "AGENT AGAIN"))
    user_commits(session, YOURS)
    (session.root / "text").write_text(YOURS.replace("MINE", "MINE, NOT COMMITTED"))
    is_done, printed = run_import(session, *ALL, "y", "y", "a", "y", "y", "y")

    assert is_done, printed
    assert (session.root / "text").read_text() == YOURS.replace("MINE", "MINE, NOT COMMITTED")
    assert git(session.root, "show", "HEAD:text") == AGENT.replace("AGENT", "AGENT AGAIN")
    assert [printed.count(f"conflicts of: {of}") for of in ("one", "two", "your uncommitted changes")] == [1, 1, 1]


@pytest.mark.parametrize("answers", [("a", "y", "n"), (*ALL, "n"), (*ALL, "a", "n"), (*ALL, "q"), ALL], ids=" ".join)
def test_nothing_is_imported_before_every_conflict_is_resolved(session: GitSession, answers: tuple[str, ...]) -> None:
    session.commit("one", text=AGENT, new="n\n")
    yours = user_commits(session, YOURS)
    is_done, printed = run_import(session, *answers)

    assert not is_done, printed
    assert git(session.root, "rev-parse", "HEAD").strip() == yours
    assert (session.root / "text").read_text() == YOURS
    assert not (session.root / "new").exists()


def test_a_taken_branch_name_is_reported_and_nothing_is_imported(session: GitSession) -> None:
    session.commit("one", text=AGENT)
    git(session.root, "branch", "theirs")
    is_done, printed = run_import(session, "a", "b", "theirs")

    assert (is_done, "the branch theirs exists already" in printed) == (False, True)


def test_hostile_text_of_an_agent_is_escaped(session: GitSession) -> None:
    session.commit("one \x1b[31mred", text=AGENT)

    assert "\x1b" not in run_import(session, "o", "n")[1]
