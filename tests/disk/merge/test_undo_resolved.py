"""An undo of an import keeps the user's later edits of a file whose conflict was resolved, and reverts the rest."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.merge.review import Review
from tests.disk.commits.resolution_texts import AGENT, USER_SIDE, commit, users_repository
from tests.harness.commit_conflicts import BOTH, THEIRS, YOURS, import_with_conflicts, resolve
from tests.harness.git.git_session import GitSession
from tests.harness.repository import git
from tui.source import ConflictResolution

ANSWERS = pytest.mark.parametrize(
    "answer", [YOURS, THEIRS, BOTH, b"MINE\nby hand\nfour\nfive\nsix\n"], ids=["yours", "theirs", "both", "by hand"]
)
KINDS = pytest.mark.parametrize("kind", ["committed", "not committed", "staged"])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, users_repository(tmp_path / "root")) as opened:
        yield opened


def edit(root: Path, kind: str) -> None:
    """Change the text as the user, in lines that the agent's commit changes too."""
    if kind == "committed":
        commit(root, "mine", text=USER_SIDE)
        return
    (root / "text").write_text(USER_SIDE)
    if kind != "not committed":
        git(root, "add", "text")


def state(session: GitSession) -> tuple[object, ...]:
    """Return refs, index and files, except the text."""
    files = {name: data for name, data in session.files().items() if name != "text"}
    return git(session.root, "for-each-ref"), git(session.root, "ls-files", "-s"), files


@KINDS
@ANSWERS
def test_later_edits_of_the_user_stay_and_the_merge_is_undone(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, kind: str
) -> None:
    session.commit("one", text=AGENT, new="n\n")
    edit(session.root, kind)
    text, before = session.root / "text", state(session)
    assert resolve(import_with_conflicts(session, review), {b"text": answer}).may_have_changed
    since = text.read_text().replace("five", "SINCE")
    text.write_text(since)
    after = state(session)
    undone = session.undo(is_three_way=True)

    assert undone.skipped == ()
    assert (text.read_text(), state(session)) == (USER_SIDE.replace("five", "SINCE"), before)
    session.redo()
    assert (text.read_text(), state(session)) == (since, after)
    assert git(session.root, "fsck", "--strict", "--no-dangling") == ""


@KINDS
@pytest.mark.parametrize("answer", [YOURS, THEIRS], ids=["yours", "theirs"])
def test_a_redo_keeps_files_edited_after_the_undo(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, kind: str
) -> None:
    session.commit("one", text=AGENT, new="n\n")
    edit(session.root, kind)
    text = session.root / "text"
    resolve(import_with_conflicts(session, review), {b"text": answer})
    after, changed = state(session), text.read_text() != USER_SIDE
    session.undo()
    text.write_text("after the undo\n")
    redone = session.redo()

    assert {one.key.path for one in redone.skipped} == ({b"text"} if changed else set())
    assert (text.read_text(), state(session)) == ("after the undo\n", after)
    again = session.undo()
    assert text.read_text() == "after the undo\n"
    assert again.skipped == ()
