"""Commits with resolved conflicts are imported with exactly these resolutions."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.fs.entry import Key
from agent_dev.merge.review import Review
from agent_dev.overlay.selection import Selection
from tests.disk.commits.resolution_texts import AGENT, USER_SIDE, commit, head, renamed, users_repository
from tests.harness.commit_conflicts import BOTH, THEIRS, YOURS, import_with_conflicts, resolve
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON, git
from tui.model.tabs import ImportMode
from tui.source import ConflictResolution


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return users_repository(tmp_path / "root")


@pytest.mark.parametrize(
    ("answer", "landed"),
    [
        (YOURS, USER_SIDE.replace("seven", "SEVEN")),
        (THEIRS, AGENT),
        (BOTH, AGENT.replace("AGENT", "MINE\nAGENT")),
        (b"as edited\n", "as edited\n"),
    ],
)
def test_a_conflict_is_resolved_by_each_side(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, landed: str
) -> None:
    session.commit("one", text=AGENT, new="n\n")
    user_side = commit(session.root, "mine", text=USER_SIDE)
    ended = resolve(import_with_conflicts(session, review), {b"text": answer})

    assert (ended.may_have_changed, ended.code) == (True, 0)
    assert git(session.root, "log", "--format=%an, %cn: %s", "-1") == "Ada, Grace: one\n"
    assert git(session.root, "rev-parse", "HEAD^").strip() == user_side
    assert git(session.root, "show", "HEAD:text") == landed
    assert (session.root / "text").read_text() == landed
    assert (session.root / "new").read_text() == "n\n"
    assert git(session.root, "status", "--porcelain") == ""
    assert git(session.root, "fsck", "--strict", "--no-dangling") == ""


def test_an_undo_reverts_all_of_it(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT, new="n\n")
    user_side = commit(session.root, "mine", text=USER_SIDE)
    before = session.files()
    resolve(import_with_conflicts(session, review), {b"text": BOTH})
    session.undo()

    assert (head(session.root), session.files()) == (user_side, before)
    assert git(session.root, "status", "--porcelain") == ""


def test_nothing_is_changed_before_every_conflict_is_resolved(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT, new="agent\n")
    user_side = commit(session.root, "mine", text=USER_SIDE, new="mine\n")
    before = session.files()
    source = import_with_conflicts(session, review)
    ended = resolve(source, {b"text": YOURS})

    assert (ended.may_have_changed, ended.conflicts) == (False, 2)
    assert (head(session.root), session.files()) == (user_side, before)


def test_resolving_everything_to_yours_is_reported_and_changes_nothing(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", new="agent\n")
    commit(session.root, "mine", new="mine\n")
    before = session.files()
    ended = resolve(import_with_conflicts(session, review), {b"new": YOURS})

    assert "nothing of the agent's commits" in " ".join(ended.lines)
    assert session.files() == before


def test_a_withdrawn_resolution_is_unresolved(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    commit(session.root, "mine", text=USER_SIDE)
    source = import_with_conflicts(session, review)
    source.resolve(Key(0, b"text"), YOURS)
    ended = source.merge(Selection(), lambda _done, _whole: None)

    assert (ended.may_have_changed, ended.conflicts) == (False, 1)


def test_commits_that_each_conflict_are_resolved_one_after_the_other(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    session.commit("two", gone="agent\n")
    session.commit("three", text=AGENT.replace("five", "FIVE"))
    commit(session.root, "mine", text=USER_SIDE, gone="mine\n")
    first = import_with_conflicts(session, review)
    stopped = resolve(first, {b"text": THEIRS})
    second = first.next_conflicts()

    assert (first.command, [change.key.path for change in first.changes.changes]) == (("one",), [b"text"])
    assert (stopped.may_have_changed, stopped.conflicts) == (False, 1)
    assert second is not None
    assert (second.command, [change.key.path for change in second.changes.changes]) == (("two",), [b"gone"])
    assert resolve(second, {b"gone": BOTH}).may_have_changed
    assert git(session.root, "log", "--format=%s", "-4") == "three\ntwo\none\nmine\n"
    assert (session.root / "gone").read_text() == "mine\nagent\n"
    assert git(session.root, "show", "HEAD~2:text") == AGENT
    assert (session.root / "text").read_text() == AGENT.replace("five", "FIVE")


@pytest.mark.parametrize(("answer", "landed"), [(YOURS, None), (THEIRS, "agent\n")])
def test_a_deletion_by_one_side_is_applied_or_rejected(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, landed: str | None
) -> None:
    session.commit("one", gone="agent\n")
    git(session.root, "rm", "-q", "gone")
    git(session.root, "commit", "-qm", "mine")
    source = import_with_conflicts(session, review)
    assert source.resolve(Key(0, b"gone"), BOTH) is None
    assert source.line_merge(Key(0, b"gone")) is None
    ended = resolve(source, {b"gone": answer})

    if landed is None:  # the resolution leaves nothing of the commit to apply
        assert not ended.may_have_changed
        assert "nothing" in " ".join(ended.lines)
    else:
        assert ended.may_have_changed
        assert (session.root / "gone").read_text() == landed
    assert git(session.root, "status", "--porcelain") == ""


def test_a_file_removed_by_the_agent_is_removed(session: GitSession, review: Callable[[], Review]) -> None:
    (session.agent / "gone").unlink()
    session.commit("one", new="n\n")
    commit(session.root, "mine", gone="mine\n")

    assert resolve(import_with_conflicts(session, review), {b"gone": THEIRS}).may_have_changed
    assert not (session.root / "gone").exists()
    assert git(session.root, "status", "--porcelain") == ""


def test_a_binary_conflict_is_resolved_by_one_whole_side(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", bin="\0agent")
    commit(session.root, "mine", bin="\0mine")
    source = import_with_conflicts(session, review)
    assert source.line_merge(Key(0, b"bin")) is None
    assert resolve(source, {b"bin": THEIRS}).may_have_changed
    assert (session.root / "bin").read_text() == "\0agent"


def test_the_mode_comes_from_the_side_that_changed_it(session: GitSession, review: Callable[[], Review]) -> None:
    (session.agent / "text").chmod(0o755)
    session.commit("one", text=AGENT)
    commit(session.root, "mine", text=USER_SIDE)

    assert resolve(import_with_conflicts(session, review), {b"text": YOURS}).may_have_changed
    assert git(session.root, "ls-files", "-s", "text").startswith("100755")
    assert (session.root / "text").stat().st_mode & 0o111


def test_a_merge_commit_of_the_agent_is_resolved_once(session: GitSession, review: Callable[[], Review]) -> None:
    session.run_agent_git("checkout", "-q", "-b", "topic")
    session.commit("topic", topic="t\n")
    session.run_agent_git("checkout", "-q", "main")
    session.commit("one", text=AGENT)
    session.run_agent_git("merge", "-q", "--no-ff", "-m", "merged", "topic")
    user_side = commit(session.root, "mine", text=USER_SIDE)

    assert resolve(import_with_conflicts(session, review), {b"text": BOTH}).may_have_changed
    assert git(session.root, "rev-parse", "HEAD^1").strip() == user_side
    assert "MINE\nAGENT\n" in (session.root / "text").read_text()
    assert (session.root / "topic").read_text() == "t\n"


def test_a_squash_contains_the_resolutions_in_its_one_commit(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    session.commit("two", new="n\n")
    user_side = commit(session.root, "mine", text=USER_SIDE)

    assert resolve(import_with_conflicts(session, review, ImportMode.SQUASHED), {b"text": YOURS}).may_have_changed
    assert git(session.root, "rev-parse", "HEAD^").strip() == user_side
    assert (session.root / "new").read_text() == "n\n"


def test_a_resolution_does_not_apply_to_an_unseen_conflict(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    commit(session.root, "mine", text=USER_SIDE)
    source = import_with_conflicts(session, review)
    again = commit(session.root, "more", text=USER_SIDE.replace("MINE", "MINE, AGAIN"))
    stopped = resolve(source, {b"text": THEIRS})

    assert (stopped.may_have_changed, stopped.conflicts, head(session.root)) == (False, 1, again)
    shown = source.next_conflicts()
    assert shown is not None
    assert b"AGAIN" in (shown.yours_content(Key(0, b"text")) or b"")


def test_an_editor_gets_the_marked_text_and_its_result_is_committed(
    session: GitSession, review: Callable[[], Review], tmp_path: Path
) -> None:
    session.commit("one", text=AGENT)
    commit(session.root, "mine", text=USER_SIDE)
    source = import_with_conflicts(session, review)
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/seen\nprintf \'by hand\\n\' >"$1"\n')
    editor.chmod(0o755)
    source._environ = {**ENVIRON, "EDITOR": str(editor)}
    edited = source.edit_conflict(Key(0, b"text"))

    assert edited == b"by hand\n"
    assert {"MINE", "AGENT"} <= set((tmp_path / "seen").read_text().split())
    assert resolve(source, {b"text": edited}).may_have_changed
    assert (session.root / "text").read_text() == "by hand\n"


@pytest.mark.parametrize(("answer", "target"), [(YOURS, "mine"), (THEIRS, "agent")])
def test_a_symlink_conflict_is_resolved_by_one_side(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution, target: str
) -> None:
    for place, name in ((session.agent, "agent"), (session.root, "mine")):
        (place / "text").unlink()
        (place / "text").symlink_to(name)
    session.commit("one", new="n\n")
    commit(session.root, "mine")

    assert resolve(import_with_conflicts(session, review), {b"text": answer}).may_have_changed
    assert (session.root / "text").readlink() == Path(target)
    assert git(session.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("theirs", [YOURS, THEIRS])
@pytest.mark.parametrize("yours", [YOURS, THEIRS])
def test_a_conflict_under_two_names_is_resolved_per_side_without_markers(
    session: GitSession, review: Callable[[], Review], yours: ConflictResolution, theirs: ConflictResolution
) -> None:
    renamed("one")(session.agent)
    (session.agent / "one").write_text(AGENT)
    session.commit("one", more="m\n")
    renamed("other")(session.root)
    (session.root / "other").chmod(0o755)
    now = commit(session.root, "mine", other=USER_SIDE)
    before = session.files()
    source = import_with_conflicts(session, review)
    assert all("conflicting lines" in str(change.conflict) for change in source.changes.changes)
    assert (source.read_content(Key(0, b"one"))[1], source.yours_content(Key(0, b"other"))) == (
        AGENT.encode(),
        USER_SIDE.encode(),
    )
    assert resolve(source, {b"one": theirs, b"other": yours}).may_have_changed

    landed = {name: session.root / name for name in ("text", "one", "other")}
    found = {name: path.read_text() for name, path in landed.items() if path.exists()}
    assert found == ({"one": AGENT} if theirs == THEIRS else {}) | ({"other": USER_SIDE} if yours == YOURS else {})
    assert "other" not in found or landed["other"].stat().st_mode & 0o100
    assert git(session.root, "rev-parse", "HEAD^").strip() == now
    assert git(session.root, "status", "--porcelain") == ""
    session.undo()
    assert (head(session.root), session.files()) == (now, before)
