"""Conflicts of commits that are settled: the commits come home with what was answered, and with nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Key
from agent_dev.overlay.selection import Selection
from tests.disk.settling_texts import AGENT, MINE, commit, head, renamed, users_repository
from tests.harness.git_session import GitSession
from tests.harness.repository import ENVIRON, git
from tests.harness.settling import BOTH, THEIRS, YOURS, meet, settle
from tui.model.tabs import Way
from tui.source import Answers


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return users_repository(tmp_path / "root")


@pytest.mark.parametrize(
    ("answer", "landed"),
    [
        (YOURS, MINE.replace("seven", "SEVEN")),
        (THEIRS, AGENT),
        (BOTH, AGENT.replace("AGENT", "MINE\nAGENT")),
        (b"as edited\n", "as edited\n"),
    ],
)
def test_a_conflict_is_settled_each_way(session: GitSession, review: Callable[[], Review], answer: Answers, landed: str) -> None:
    session.commit("one", text=AGENT, new="n\n")
    mine = commit(session.root, "mine", text=MINE)
    ended = settle(meet(session, review), {b"text": answer})

    assert (ended.is_done, ended.code) == (True, 0)
    assert git(session.root, "log", "--format=%an, %cn: %s", "-1") == "Ada, Grace: one\n"
    assert git(session.root, "rev-parse", "HEAD^").strip() == mine
    assert git(session.root, "show", "HEAD:text") == landed
    assert (session.root / "text").read_text() == landed
    assert (session.root / "new").read_text() == "n\n"
    assert git(session.root, "status", "--porcelain") == ""
    assert git(session.root, "fsck", "--strict", "--no-dangling") == ""


def test_an_undo_takes_all_of_it_back(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT, new="n\n")
    mine = commit(session.root, "mine", text=MINE)
    before = session.files()
    settle(meet(session, review), {b"text": BOTH})
    session.undo()

    assert (head(session.root), session.files()) == (mine, before)
    assert git(session.root, "status", "--porcelain") == ""


def test_nothing_is_changed_before_all_is_settled(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT, new="agent\n")
    mine = commit(session.root, "mine", text=MINE, new="mine\n")
    before = session.files()
    source = meet(session, review)
    ended = settle(source, {b"text": YOURS})

    assert (ended.is_done, ended.conflicts) == (False, 2)
    assert (head(session.root), session.files()) == (mine, before)


def test_where_the_users_side_stands_everywhere_that_is_said_and_nothing_is_changed(
    session: GitSession, review: Callable[[], Review]
) -> None:
    session.commit("one", new="agent\n")
    commit(session.root, "mine", new="mine\n")
    before = session.files()
    ended = settle(meet(session, review), {b"new": YOURS})

    assert "nothing of the agent's commits is left" in " ".join(ended.lines)
    assert session.files() == before


def test_what_was_settled_and_left_out_again_is_not_settled(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    commit(session.root, "mine", text=MINE)
    source = meet(session, review)
    source.settle(Key(0, b"text"), YOURS)
    ended = source.merge(Selection(), lambda _done, _whole: None)

    assert (ended.is_done, ended.conflicts) == (False, 1)


def test_commits_that_each_conflict_are_settled_one_after_the_other(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    session.commit("two", gone="agent\n")
    session.commit("three", text=AGENT.replace("five", "FIVE"))
    commit(session.root, "mine", text=MINE, gone="mine\n")
    first = meet(session, review)
    stopped = settle(first, {b"text": THEIRS})
    second = first.settling()

    assert (first.command, [change.key.path for change in first.changes.changes]) == (("one",), [b"text"])
    assert (stopped.is_done, stopped.conflicts) == (False, 1)
    assert second is not None
    assert (second.command, [change.key.path for change in second.changes.changes]) == (("two",), [b"gone"])
    assert settle(second, {b"gone": BOTH}).is_done
    assert git(session.root, "log", "--format=%s", "-4") == "three\ntwo\none\nmine\n"
    assert (session.root / "gone").read_text() == "mine\nagent\n"
    assert git(session.root, "show", "HEAD~2:text") == AGENT
    assert (session.root / "text").read_text() == AGENT.replace("five", "FIVE")


@pytest.mark.parametrize(("answer", "landed"), [(YOURS, None), (THEIRS, "agent\n")])
def test_what_one_side_removed_is_removed_or_stays(
    session: GitSession, review: Callable[[], Review], answer: Answers, landed: str | None
) -> None:
    session.commit("one", gone="agent\n")
    git(session.root, "rm", "-q", "gone")
    git(session.root, "commit", "-qm", "mine")
    source = meet(session, review)
    assert source.settle(Key(0, b"gone"), BOTH) is None
    assert source.merged(Key(0, b"gone")) is None
    ended = settle(source, {b"gone": answer})

    if landed is None:  # nothing of the commit is left
        assert not ended.is_done
        assert "nothing" in " ".join(ended.lines)
    else:
        assert ended.is_done
        assert (session.root / "gone").read_text() == landed
    assert git(session.root, "status", "--porcelain") == ""


def test_a_file_that_the_agent_removed_is_removed(session: GitSession, review: Callable[[], Review]) -> None:
    (session.agent / "gone").unlink()
    session.commit("one", new="n\n")
    commit(session.root, "mine", gone="mine\n")

    assert settle(meet(session, review), {b"gone": THEIRS}).is_done
    assert not (session.root / "gone").exists()
    assert git(session.root, "status", "--porcelain") == ""


def test_of_binary_files_one_is_taken_whole(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", bin="\0agent")
    commit(session.root, "mine", bin="\0mine")
    source = meet(session, review)
    assert source.merged(Key(0, b"bin")) is None
    assert settle(source, {b"bin": THEIRS}).is_done
    assert (session.root / "bin").read_text() == "\0agent"


def test_the_mode_comes_from_the_side_that_changed_it(session: GitSession, review: Callable[[], Review]) -> None:
    (session.agent / "text").chmod(0o755)
    session.commit("one", text=AGENT)
    commit(session.root, "mine", text=MINE)

    assert settle(meet(session, review), {b"text": YOURS}).is_done
    assert git(session.root, "ls-files", "-s", "text").startswith("100755")
    assert (session.root / "text").stat().st_mode & 0o111


def test_a_merge_of_the_agents_is_settled_as_one(session: GitSession, review: Callable[[], Review]) -> None:
    session.let_agent("checkout", "-q", "-b", "topic")
    session.commit("topic", topic="t\n")
    session.let_agent("checkout", "-q", "main")
    session.commit("one", text=AGENT)
    session.let_agent("merge", "-q", "--no-ff", "-m", "merged", "topic")
    mine = commit(session.root, "mine", text=MINE)

    assert settle(meet(session, review), {b"text": BOTH}).is_done
    assert git(session.root, "rev-parse", "HEAD^1").strip() == mine
    assert "MINE\nAGENT\n" in (session.root / "text").read_text()
    assert (session.root / "topic").read_text() == "t\n"


def test_squashed_the_answers_are_in_the_one_commit(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    session.commit("two", new="n\n")
    mine = commit(session.root, "mine", text=MINE)

    assert settle(meet(session, review, Way.ONE), {b"text": YOURS}).is_done
    assert git(session.root, "rev-parse", "HEAD^").strip() == mine
    assert (session.root / "new").read_text() == "n\n"


def test_an_answer_is_not_used_for_what_was_not_shown(session: GitSession, review: Callable[[], Review]) -> None:
    session.commit("one", text=AGENT)
    commit(session.root, "mine", text=MINE)
    source = meet(session, review)
    again = commit(session.root, "more", text=MINE.replace("MINE", "MINE, AGAIN"))
    stopped = settle(source, {b"text": THEIRS})

    assert (stopped.is_done, stopped.conflicts, head(session.root)) == (False, 1, again)
    shown = source.settling()
    assert shown is not None
    assert b"AGAIN" in (shown.mine(Key(0, b"text")) or b"")


def test_an_editor_gets_the_marked_text_and_its_result_lands(
    session: GitSession, review: Callable[[], Review], tmp_path: Path
) -> None:
    session.commit("one", text=AGENT)
    commit(session.root, "mine", text=MINE)
    source = meet(session, review)
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/seen\nprintf \'by hand\\n\' >"$1"\n')
    editor.chmod(0o755)
    source._environ = {**ENVIRON, "EDITOR": str(editor)}
    edited = source.edit(Key(0, b"text"))

    assert edited == b"by hand\n"
    assert {"MINE", "AGENT"} <= set((tmp_path / "seen").read_text().split())
    assert settle(source, {b"text": edited}).is_done
    assert (session.root / "text").read_text() == "by hand\n"


@pytest.mark.parametrize(("answer", "target"), [(YOURS, "mine"), (THEIRS, "agent")])
def test_of_links_one_is_taken(session: GitSession, review: Callable[[], Review], answer: Answers, target: str) -> None:
    for place, name in ((session.agent, "agent"), (session.root, "mine")):
        (place / "text").unlink()
        (place / "text").symlink_to(name)
    session.commit("one", new="n\n")
    commit(session.root, "mine")

    assert settle(meet(session, review), {b"text": answer}).is_done
    assert (session.root / "text").readlink() == Path(target)
    assert git(session.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("theirs", [YOURS, THEIRS])
@pytest.mark.parametrize("yours", [YOURS, THEIRS])
def test_lines_in_conflict_under_two_names_are_each_sides_own_and_marks_of_git_never_land(
    session: GitSession, review: Callable[[], Review], yours: Answers, theirs: Answers
) -> None:
    renamed("one")(session.agent)
    (session.agent / "one").write_text(AGENT)
    session.commit("one", more="m\n")
    renamed("other")(session.root)
    (session.root / "other").chmod(0o755)
    now = commit(session.root, "mine", other=MINE)
    before = session.files()
    source = meet(session, review)
    assert all("lines in conflict" in str(change.conflict) for change in source.changes.changes)
    assert (source.content(Key(0, b"one"))[1], source.mine(Key(0, b"other"))) == (AGENT.encode(), MINE.encode())
    assert settle(source, {b"one": theirs, b"other": yours}).is_done

    landed = {name: session.root / name for name in ("text", "one", "other")}
    found = {name: path.read_text() for name, path in landed.items() if path.exists()}
    assert found == ({"one": AGENT} if theirs == THEIRS else {}) | ({"other": MINE} if yours == YOURS else {})
    assert "other" not in found or landed["other"].stat().st_mode & 0o100
    assert git(session.root, "rev-parse", "HEAD^").strip() == now
    assert git(session.root, "status", "--porcelain") == ""
    session.undo()
    assert (head(session.root), session.files()) == (now, before)
