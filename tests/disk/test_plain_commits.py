"""Commits brought home by questions in plain lines: conflicts are settled there, and nothing comes before they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.cli.screen.review_source import Reviewing
from tests.harness.git_session import GitSession
from tests.harness.repository import commit, git
from tests.harness.settling import users
from tui.plain import commits as plain_commits

LINES = "".join(f"line {number}\n" for number in range(9))
AGENT, MINE = LINES.replace("line 4", "AGENT"), LINES.replace("line 4", "MINE")
ALL = ("a", "y", "y")  # of them, onto my branch, settle it


class Typist:
    """Answers in order; then nobody is there any more."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.lines = [*answers], [""]

    def say(self, line: str) -> None:
        self.lines.append(line)

    def ask(self, question: str) -> str | None:
        self.lines.append(question)
        return self.answers.pop(0) if self.answers else None


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, users(tmp_path / "root", text=LINES)) as opened:
        yield opened


def bring(session: GitSession, *answers: str, editor: str = "") -> tuple[bool, str]:
    """Answer questions about the commits; return whether they came, and all that was printed."""
    session.end()
    typist, review = Typist(*answers), session.review()
    if editor:
        review.environ = {**review.environ, "EDITOR": editor}
    try:
        ended = plain_commits.review(Reviewing(review, session.store), typist)
    finally:
        review.close()
    assert typist.answers == []
    return ended is not None and ended.is_done, "\n".join(typist.lines)


def user_commits(session: GitSession, text: str) -> str:
    (session.root / "text").write_text(text)
    return commit(session.root, "mine")


@pytest.mark.parametrize(
    ("letter", "landed"), [("m", MINE), ("g", AGENT), ("b", AGENT.replace("AGENT", "MINE\nAGENT")), ("e", "by hand\n")]
)
def test_a_conflict_is_settled_in_the_prompt(session: GitSession, tmp_path: Path, letter: str, landed: str) -> None:
    session.commit("one", text=AGENT, new="n\n")
    mine = user_commits(session, MINE)
    (tmp_path / "editor").write_text("#!/bin/sh\nprintf 'by hand\\n' >\"$1\"\n")
    (tmp_path / "editor").chmod(0o755)
    is_done, said = bring(session, *ALL, letter, "y", editor=str(tmp_path / "editor"))

    assert is_done, said
    assert git(session.root, "rev-parse", "HEAD^").strip() == mine
    assert (session.root / "text").read_text() == landed
    assert git(session.root, "status", "--porcelain") == ""


def test_conflicts_of_a_later_commit_and_of_edits_are_asked_about_in_turn(session: GitSession) -> None:
    session.commit("one", text=AGENT)
    session.commit("two", text=AGENT.replace("AGENT", "AGENT AGAIN"))
    user_commits(session, MINE)
    (session.root / "text").write_text(MINE.replace("MINE", "MINE, NOT COMMITTED"))
    is_done, said = bring(session, *ALL, "m", "y", "g", "y", "m", "y")

    assert is_done, said
    assert (session.root / "text").read_text() == MINE.replace("MINE", "MINE, NOT COMMITTED")
    assert git(session.root, "show", "HEAD:text") == AGENT.replace("AGENT", "AGENT AGAIN")
    assert [said.count(f"in the way of: {of}") for of in ("one", "two", "what you have not committed")] == [1, 1, 1]


@pytest.mark.parametrize("answers", [("a", "y", "n"), (*ALL, "n"), (*ALL, "g", "n"), (*ALL, "q"), ALL], ids=" ".join)
def test_nothing_comes_before_all_is_settled(session: GitSession, answers: tuple[str, ...]) -> None:
    session.commit("one", text=AGENT, new="n\n")
    mine = user_commits(session, MINE)
    is_done, said = bring(session, *answers)

    assert not is_done, said
    assert git(session.root, "rev-parse", "HEAD").strip() == mine
    assert (session.root / "text").read_text() == MINE
    assert not (session.root / "new").exists()


def test_a_name_that_is_taken_is_told_and_nothing_comes(session: GitSession) -> None:
    session.commit("one", text=AGENT)
    git(session.root, "branch", "theirs")
    is_done, said = bring(session, "a", "b", "theirs")

    assert (is_done, "there is a branch theirs already" in said) == (False, True)


def test_what_an_agent_wrote_is_made_visible(session: GitSession) -> None:
    session.commit("one \x1b[31mred", text=AGENT)

    assert "\x1b" not in bring(session, "o", "n")[1]
