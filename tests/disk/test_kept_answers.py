"""Answers to conflicts of commits that wait for the next time, and are of no use for anything else than what was shown."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.cli.screen.conflicts_source import Settling
from agent_dev.commits import saved_resolutions as kept_answers
from agent_dev.commits.saved_resolutions import Kept
from agent_dev.diff.merge3 import Side
from agent_dev.git.merge_tree_conflict import Clash
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Key
from agent_dev.overlay.selection import Selection
from tests.harness.git_session import GitSession
from tests.harness.repository import commit
from tests.harness.settling import THEIRS, YOURS, begin, meet, settle, users
from tui.source import Draft

LINES = "".join(f"line {number}\n" for number in range(9))
AGENT, MINE = (LINES.replace("line 4", who).replace("line 7", f"{who} 7") for who in ("AGENT", "MINE"))
TEXT, OTHER = Key(0, b"text"), Key(0, b"other")
CLASH = Clash(b"a\xff\n", (0o100644, "a" * 40), (0o100755, "b" * 40), (0, ""))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, users(tmp_path / "root", text=LINES, other=LINES)) as opened:
        yield opened


def in_the_way(session: GitSession, review: Callable[[], Review]) -> Settling:
    session.commit("one", text=AGENT, other=AGENT)
    for name in ("text", "other"):
        (session.root / name).write_text(MINE)
    commit(session.root, "mine")
    return meet(session, review)


def again(session: GitSession, review: Callable[[], Review]) -> Settling:
    """Open the conflicts another time."""
    _, source = begin(session, review())
    assert source is not None
    return source


def clean(source: Settling) -> set[bytes]:
    return {change.key.path for change in source.changes.changes if change.is_clean}


def test_what_was_settled_is_settled_the_next_time_where_one_was(session: GitSession, review: Callable[[], Review]) -> None:
    first = in_the_way(session, review)
    first.settle(TEXT, (Side.AGENT, Side.MINE))
    first.save(Draft(Selection(frozenset((TEXT,))), at=OTHER, answers={TEXT: (Side.AGENT, Side.MINE), OTHER: (None, Side.BOTH)}))
    second = again(session, review)

    assert clean(second) == {b"text"}
    assert (second.draft.selection.keys, second.draft.at) == (frozenset((TEXT,)), OTHER)
    assert second.draft.answers == {TEXT: (Side.AGENT, Side.MINE), OTHER: (None, Side.BOTH)}
    second.settle(OTHER, b"by hand\n")
    assert second.merge(Selection(frozenset((TEXT, OTHER))), lambda _done, _whole: None).is_done
    assert (session.root / "text").read_text() == AGENT.replace("AGENT 7", "MINE 7")
    assert (session.root / "other").read_text() == "by hand\n"
    assert not (Path(session.session.folder) / "conflicts.json").exists()


def test_what_an_editor_made_is_kept_too(session: GitSession, review: Callable[[], Review]) -> None:
    first = in_the_way(session, review)
    first.settle(TEXT, b"by hand\n")
    first.save(Draft(Selection(frozenset((TEXT,))), answers={TEXT: (None, Side.MINE)}))

    assert clean(again(session, review)) == {b"text"}


def test_what_was_left_out_again_stays_out(session: GitSession, review: Callable[[], Review]) -> None:
    first = in_the_way(session, review)
    first.settle(TEXT, (Side.AGENT, Side.MINE))
    first.save(Draft())

    assert again(session, review).draft.selection.keys == frozenset()


def test_an_answer_is_not_kept_for_what_is_another_conflict_now(session: GitSession, review: Callable[[], Review]) -> None:
    first = in_the_way(session, review)
    first.settle(TEXT, (Side.AGENT, Side.MINE))
    first.save(Draft(Selection(frozenset((TEXT,)))))
    (session.root / "text").write_text(MINE + "more\n")
    commit(session.root, "more")

    assert clean(again(session, review)) == set()


def test_answers_of_an_earlier_commit_are_kept_when_one_leaves_at_a_later(
    session: GitSession, review: Callable[[], Review]
) -> None:
    session.commit("one", text=AGENT)
    session.commit("two", other=AGENT)
    for name in ("text", "other"):
        (session.root / name).write_text(MINE)
    commit(session.root, "mine")
    first = meet(session, review)
    settle(first, {b"text": THEIRS * 2})
    later = first.settling()
    assert later is not None
    later.settle(OTHER, YOURS * 2)
    later.save(Draft(Selection(frozenset((OTHER,)))))
    second = again(session, review)

    assert (clean(second), second.draft.selection.keys) == ({b"text"}, frozenset((TEXT,)))
    second.merge(Selection(frozenset((TEXT,))), lambda _done, _whole: None)
    last = second.settling()
    assert last is not None
    assert (clean(last), last.draft.selection.keys) == ({b"other"}, frozenset((OTHER,)))


@pytest.mark.parametrize("given", [b"\xff", (), (Side.MINE, None, b"x", Side.BOTH, Side.AGENT)])
def test_every_answer_is_read_as_it_was_written(tmp_path: Path, given: kept_answers.Given) -> None:
    kept = Kept({CLASH: given}, frozenset((CLASH,)), CLASH.path)
    kept_answers.save(str(tmp_path), kept)
    assert kept_answers.load(str(tmp_path)) == kept
    kept_answers.save(str(tmp_path), Kept())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "at": "", "answers": [[1]]}', '{"version": 1}'])
def test_what_cannot_be_read_keeps_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "conflicts.json").write_text(text)
    assert kept_answers.load(str(tmp_path)) == Kept()
