"""Uncommitted edits that overlap with imported commits are merged or resolved on the screen; staged edits stay staged."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.fs.entry import Key
from agent_dev.merge.review import Review
from tests.harness.commit_conflicts import BOTH, THEIRS, YOURS, import_with_conflicts, make_users_repository, resolve
from tests.harness.git.git_session import GitSession
from tests.harness.repository import git
from tui.source import ConflictResolution

LINES = "".join(f"line {number}\n" for number in range(9))
AGENT, USER_SIDE = LINES.replace("line 4", "AGENT"), LINES.replace("line 4", "MINE")
FAR = USER_SIDE.replace("line 8", "FAR")
WITH = AGENT.replace("AGENT", "MINE\nAGENT")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, make_users_repository(tmp_path / "root", text=LINES, gone="g\n")) as opened:
        yield opened


def status(session: GitSession) -> str:
    return git(session.root, "status", "--porcelain")


def staged(session: GitSession, name: str = "text") -> str:
    return git(session.root, "show", f":{name}")


def state(session: GitSession) -> tuple[object, ...]:
    index = git(session.root, "ls-files", "-s")
    return git(session.root, "for-each-ref"), session.files(), index, status(session)


@pytest.mark.parametrize(
    ("answer", "landed", "printed"),
    [
        (YOURS, USER_SIDE, " M text\n"),
        (THEIRS, AGENT, ""),
        (BOTH, WITH, " M text\n"),
        (b"by hand\n", "by hand\n", " M text\n"),
    ],
)
def test_an_overlapping_edit_is_resolved_by_each_side(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, landed: str, printed: str
) -> None:
    made = session.commit("one", text=AGENT, new="n\n")
    (session.root / "text").write_text(USER_SIDE)
    before = state(session)
    source = import_with_conflicts(session, review)
    assert state(session) == before
    assert resolve(source, {b"text": answer}).may_have_changed

    assert git(session.root, "rev-parse", "HEAD").strip() == made
    assert (session.root / "text").read_text() == landed
    assert staged(session) == AGENT
    assert status(session) == printed
    assert git(session.root, "fsck", "--strict", "--no-dangling") == ""
    session.undo()
    assert state(session) == before
    session.redo()
    assert (session.root / "text").read_text() == landed
    assert status(session) == printed


@pytest.mark.parametrize(("answer", "landed"), [(YOURS, USER_SIDE), (THEIRS, AGENT), (BOTH, WITH)])
def test_a_staged_edit_is_resolved_once_with_its_file_and_stays_staged(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, landed: str
) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").write_text(USER_SIDE)
    git(session.root, "add", "text")
    before = state(session)
    assert resolve(import_with_conflicts(session, review), {b"text": answer}).may_have_changed

    assert ((session.root / "text").read_text(), staged(session)) == (landed, landed)
    assert status(session) == ("" if landed == AGENT else "M  text\n")
    session.undo()
    assert state(session) == before


def test_the_staged_version_is_resolved_before_the_working_tree_version(
    session: GitSession, review: Callable[[], Review]
) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").write_text(USER_SIDE)
    git(session.root, "add", "text")
    (session.root / "text").write_text(FAR)
    before = state(session)
    first = import_with_conflicts(session, review)
    assert first.yours_content(Key(0, b"text")) == USER_SIDE.encode()
    assert resolve(first, {b"text": BOTH}).conflicts == 1
    second = first.next_conflicts()
    assert second is not None
    assert second.yours_content(Key(0, b"text")) == FAR.encode()
    assert resolve(second, {b"text": YOURS}).may_have_changed

    assert ((session.root / "text").read_text(), staged(session)) == (FAR.replace("line 8", "FAR"), WITH)
    assert status(session) == "MM text\n"
    session.undo()
    assert state(session) == before


@pytest.mark.parametrize(("answer", "landed", "printed"), [(YOURS, "mine\n", "?? gone\n"), (THEIRS, None, "")])
def test_a_file_removed_by_the_commits_is_kept_untracked_or_removed(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, landed: str | None, printed: str
) -> None:
    (session.agent / "gone").unlink()
    session.commit("one")
    (session.root / "gone").write_text("mine\n")
    before = state(session)
    assert resolve(import_with_conflicts(session, review), {b"gone": answer}).may_have_changed

    assert (session.root / "gone").exists() == (landed is not None)
    assert landed is None or (session.root / "gone").read_text() == landed
    assert status(session) == printed
    session.undo()
    assert state(session) == before


@pytest.mark.parametrize("is_staged", [False, True])
@pytest.mark.parametrize("answer", [YOURS, THEIRS])
def test_a_file_removed_by_the_user_stays_removed_or_is_restored(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, *, is_staged: bool
) -> None:
    session.commit("one", gone="agent\n")
    (session.root / "gone").unlink()
    if is_staged:
        git(session.root, "add", "-A")
    before = state(session)
    assert resolve(import_with_conflicts(session, review), {b"gone": answer}).may_have_changed

    assert (session.root / "gone").exists() == (answer == THEIRS)
    assert status(session) == ("" if answer == THEIRS else "D  gone\n" if is_staged else " D gone\n")
    session.undo()
    assert state(session) == before


@pytest.mark.parametrize(
    ("answer", "landed", "printed"),
    [(YOURS, "mine\n", " M new\n"), (THEIRS, "agent\n", ""), (BOTH, "mine\nagent\n", " M new\n")],
)
def test_a_conflict_with_an_untracked_file_is_resolved(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, landed: str, printed: str
) -> None:
    session.commit("one", new="agent\n")
    (session.root / "new").write_text("mine\n")
    before = state(session)
    assert resolve(import_with_conflicts(session, review), {b"new": answer}).may_have_changed

    assert (session.root / "new").read_text() == landed
    assert status(session) == printed
    session.undo()
    assert state(session) == before


def test_a_symlink_of_the_user_is_kept_or_replaced_but_both_is_invalid(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").unlink()
    (session.root / "text").symlink_to("gone")
    source = import_with_conflicts(session, review)
    assert source.resolve(Key(0, b"text"), BOTH) is None
    assert resolve(source, {b"text": YOURS}).may_have_changed

    assert (session.root / "text").readlink() == Path("gone")
    assert status(session) == " T text\n"


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_mode_changed_by_the_user_stays(session: GitSession, *, is_staged: bool) -> None:
    session.commit("one", text=AGENT)
    session.end()
    (session.root / "text").chmod(0o755)
    if is_staged:
        git(session.root, "add", "text")
    done = session.import_commits()

    assert (done.merge != "", [key.path for key in done.merged_files]) == (True, [b"text"])
    assert (session.root / "text").read_text() == AGENT
    assert (session.root / "text").stat().st_mode & 0o111
    assert status(session) == ("M  text\n" if is_staged else " M text\n")


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_mode_changed_by_the_commits_is_applied_with_an_edit_of_the_user(session: GitSession, *, is_staged: bool) -> None:
    (session.agent / "text").chmod(0o755)
    session.commit("one")
    session.end()
    (session.root / "text").write_text(USER_SIDE)
    if is_staged:
        git(session.root, "add", "text")
    session.import_commits()

    assert ((session.root / "text").read_text(), (session.root / "text").stat().st_mode & 0o111) == (USER_SIDE, 0o111)
    assert git(session.root, "ls-files", "-s", "text").startswith("100755")
    assert git(session.root, "diff", "HEAD", "--summary") == ""


def test_compatible_edits_are_merged_and_reported(session: GitSession) -> None:
    session.commit("one", text=AGENT)
    session.end()
    (session.root / "text").write_text(LINES.replace("line 8", "FAR"))
    assert [key.path for key in session.import_commits(is_dry_run=True).merged_files] == [b"text"]
    done = session.import_commits()

    assert ([key.path for key in done.merged_files], done.conflicts) == ([b"text"], ())
    assert (session.root / "text").read_text() == AGENT.replace("line 8", "FAR")


def test_a_resolution_does_not_apply_to_a_later_edit(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").write_text(USER_SIDE)
    source = import_with_conflicts(session, review)
    (session.root / "text").write_text(FAR)
    ended = resolve(source, {b"text": THEIRS})

    assert (ended.may_have_changed, ended.conflicts) == (False, 1)
    assert (session.root / "text").read_text() == FAR


def test_a_fifo_at_the_path_is_reported_and_nothing_is_resolved(session: GitSession) -> None:
    session.commit("one", text=AGENT, gone="agent\n")
    session.end()
    (session.root / "text").write_text(USER_SIDE)
    (session.root / "gone").unlink()
    os.mkfifo(session.root / "gone")
    done = session.import_commits()

    assert (done.merge, done.resolvable, {left.key.path for left in done.conflicts}) == ("", (), {b"text", b"gone"})


def test_a_change_resolved_to_yours_leaves_the_session_until_an_undo(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    (session.root / "text").write_text(USER_SIDE)
    resolve(import_with_conflicts(session, review), {b"text": YOURS})
    opened = session.review()
    left = [change.key.path for change in opened.changes.changes]
    opened.close()
    session.undo()
    opened = session.review()
    again = [(change.key.path, opened.content(change.key)[1]) for change in opened.changes.changes]
    opened.close()

    assert (left, again) == ([], [(b"text", AGENT.encode())])
