"""Uncommitted edits in the way of commits: merged, or settled on the screen; none is lost, and staged stays staged."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Key
from tests.harness.git_session import GitSession
from tests.harness.repository import git
from tests.harness.settling import BOTH, THEIRS, YOURS, meet, settle, users
from tui.source import Answers

LINES = "".join(f"line {number}\n" for number in range(9))
AGENT, MINE = LINES.replace("line 4", "AGENT"), LINES.replace("line 4", "MINE")
FAR = MINE.replace("line 8", "FAR")
WITH = AGENT.replace("AGENT", "MINE\nAGENT")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, users(tmp_path / "root", text=LINES, gone="g\n")) as opened:
        yield opened


def status(session: GitSession) -> str:
    return git(session.root, "status", "--porcelain")


def staged(session: GitSession, name: str = "text") -> str:
    return git(session.root, "show", f":{name}")


def state(session: GitSession) -> tuple[object, ...]:
    index = git(session.root, "ls-files", "-s")
    return git(session.root, "for-each-ref"), session.files(), index, status(session)


@pytest.mark.parametrize(
    ("answer", "landed", "said"),
    [
        (YOURS, MINE, " M text\n"),
        (THEIRS, AGENT, ""),
        (BOTH, WITH, " M text\n"),
        (b"by hand\n", "by hand\n", " M text\n"),
    ],
)
def test_an_edit_in_the_way_is_settled_each_way(
    session: GitSession, review: Callable[[], Review], answer: Answers, landed: str, said: str
) -> None:
    made = session.commit("one", text=AGENT, new="n\n")
    (session.root / "text").write_text(MINE)
    before = state(session)
    source = meet(session, review)
    assert state(session) == before
    assert settle(source, {b"text": answer}).is_done

    assert git(session.root, "rev-parse", "HEAD").strip() == made
    assert (session.root / "text").read_text() == landed
    assert staged(session) == AGENT
    assert status(session) == said
    assert git(session.root, "fsck", "--strict", "--no-dangling") == ""
    session.undo()
    assert state(session) == before
    session.redo()
    assert (session.root / "text").read_text() == landed
    assert status(session) == said


@pytest.mark.parametrize(("answer", "landed"), [(YOURS, MINE), (THEIRS, AGENT), (BOTH, WITH)])
def test_a_staged_edit_stays_staged_and_is_settled_once_with_its_file(
    session: GitSession, review: Callable[[], Review], answer: Answers, landed: str
) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").write_text(MINE)
    git(session.root, "add", "text")
    before = state(session)
    assert settle(meet(session, review), {b"text": answer}).is_done

    assert ((session.root / "text").read_text(), staged(session)) == (landed, landed)
    assert status(session) == ("" if landed == AGENT else "M  text\n")
    session.undo()
    assert state(session) == before


def test_what_is_staged_is_settled_before_the_file_that_goes_further(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").write_text(MINE)
    git(session.root, "add", "text")
    (session.root / "text").write_text(FAR)
    before = state(session)
    first = meet(session, review)
    assert first.mine(Key(0, b"text")) == MINE.encode()
    assert settle(first, {b"text": BOTH}).conflicts == 1
    second = first.settling()
    assert second is not None
    assert second.mine(Key(0, b"text")) == FAR.encode()
    assert settle(second, {b"text": YOURS}).is_done

    assert ((session.root / "text").read_text(), staged(session)) == (FAR.replace("line 8", "FAR"), WITH)
    assert status(session) == "MM text\n"
    session.undo()
    assert state(session) == before


@pytest.mark.parametrize(("answer", "landed", "said"), [(YOURS, "mine\n", "?? gone\n"), (THEIRS, None, "")])
def test_a_file_that_the_commits_remove_stays_beside_git_or_goes(
    session: GitSession, review: Callable[[], Review], answer: Answers, landed: str | None, said: str
) -> None:
    (session.agent / "gone").unlink()
    session.commit("one")
    (session.root / "gone").write_text("mine\n")
    before = state(session)
    assert settle(meet(session, review), {b"gone": answer}).is_done

    assert (session.root / "gone").exists() == (landed is not None)
    assert landed is None or (session.root / "gone").read_text() == landed
    assert status(session) == said
    session.undo()
    assert state(session) == before


@pytest.mark.parametrize("is_staged", [False, True])
@pytest.mark.parametrize("answer", [YOURS, THEIRS])
def test_a_file_that_the_user_removed_stays_away_or_comes(
    session: GitSession, review: Callable[[], Review], answer: Answers, *, is_staged: bool
) -> None:
    session.commit("one", gone="agent\n")
    (session.root / "gone").unlink()
    if is_staged:
        git(session.root, "add", "-A")
    before = state(session)
    assert settle(meet(session, review), {b"gone": answer}).is_done

    assert (session.root / "gone").exists() == (answer == THEIRS)
    assert status(session) == ("" if answer == THEIRS else "D  gone\n" if is_staged else " D gone\n")
    session.undo()
    assert state(session) == before


@pytest.mark.parametrize(
    ("answer", "landed", "said"),
    [(YOURS, "mine\n", " M new\n"), (THEIRS, "agent\n", ""), (BOTH, "mine\nagent\n", " M new\n")],
)
def test_an_untracked_file_in_the_way_is_settled(
    session: GitSession, review: Callable[[], Review], answer: Answers, landed: str, said: str
) -> None:
    session.commit("one", new="agent\n")
    (session.root / "new").write_text("mine\n")
    before = state(session)
    assert settle(meet(session, review), {b"new": answer}).is_done

    assert (session.root / "new").read_text() == landed
    assert status(session) == said
    session.undo()
    assert state(session) == before


def test_a_link_of_the_users_is_kept_or_goes_and_both_mean_nothing(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").unlink()
    (session.root / "text").symlink_to("gone")
    source = meet(session, review)
    assert source.settle(Key(0, b"text"), BOTH) is None
    assert settle(source, {b"text": YOURS}).is_done

    assert (session.root / "text").readlink() == Path("gone")
    assert status(session) == " T text\n"


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_mode_that_the_user_changed_stays(session: GitSession, *, is_staged: bool) -> None:
    session.commit("one", text=AGENT)
    session.end()
    (session.root / "text").chmod(0o755)
    if is_staged:
        git(session.root, "add", "text")
    done = session.bring()

    assert (done.merge != "", [key.path for key in done.together]) == (True, [b"text"])
    assert (session.root / "text").read_text() == AGENT
    assert (session.root / "text").stat().st_mode & 0o111
    assert status(session) == ("M  text\n" if is_staged else " M text\n")


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_mode_that_the_commits_change_comes_with_an_edit_of_the_users(session: GitSession, *, is_staged: bool) -> None:
    (session.agent / "text").chmod(0o755)
    session.commit("one")
    session.end()
    (session.root / "text").write_text(MINE)
    if is_staged:
        git(session.root, "add", "text")
    session.bring()

    assert ((session.root / "text").read_text(), (session.root / "text").stat().st_mode & 0o111) == (MINE, 0o111)
    assert git(session.root, "ls-files", "-s", "text").startswith("100755")
    assert git(session.root, "diff", "HEAD", "--summary") == ""


def test_what_fits_is_merged_and_said(session: GitSession) -> None:
    session.commit("one", text=AGENT)
    session.end()
    (session.root / "text").write_text(LINES.replace("line 8", "FAR"))
    assert [key.path for key in session.bring(is_dry=True).together] == [b"text"]
    done = session.bring()

    assert ([key.path for key in done.together], done.conflicts) == ([b"text"], ())
    assert (session.root / "text").read_text() == AGENT.replace("line 8", "FAR")


def test_one_answer_does_not_do_for_an_edit_that_came_later(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").write_text(MINE)
    source = meet(session, review)
    (session.root / "text").write_text(FAR)
    ended = settle(source, {b"text": THEIRS})

    assert (ended.is_done, ended.conflicts) == (False, 1)
    assert (session.root / "text").read_text() == FAR


def test_a_pipe_in_the_way_is_told_and_nothing_is_settled_then(session: GitSession) -> None:
    session.commit("one", text=AGENT, gone="agent\n")
    session.end()
    (session.root / "text").write_text(MINE)
    (session.root / "gone").unlink()
    os.mkfifo(session.root / "gone")
    done = session.bring()

    assert (done.merge, done.met, {left.key.path for left in done.conflicts}) == ("", (), {b"text", b"gone"})


def test_what_the_user_keeps_has_left_the_session(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").write_text(MINE)
    settle(meet(session, review), {b"text": YOURS})
    opened = session.review()
    left = [change.key.path for change in opened.changes.changes]
    opened.close()
    session.undo()
    opened = session.review()
    again = [(change.key.path, opened.content(change.key)[1]) for change in opened.changes.changes]
    opened.close()

    assert (left, again) == ([], [(b"text", AGENT.encode())])
