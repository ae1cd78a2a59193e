"""A session behind the screen: what was shown is what lands, a choice waits, renames and commands are told."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.cli.screen.review_source import Reviewing
from agent_dev.diff.merge3 import Side
from agent_dev.diff.partial import Choice
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Change, Key
from agent_dev.overlay.selection import Selection
from tests.harness.ended import Ended
from tests.harness.trees import FILE, Mark, Node
from tui.model.tabs import Tab
from tui.model.totals import Count
from tui.source import Draft

BASE = b"".join(b"line %d\n" % number for number in range(30))
AGENT = BASE.replace(b"line 3\n", b"three\n").replace(b"line 25\n", b"twenty-five\n")
X = Key(0, b"x")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Ended]:
    marks = [Mark(b"x", Node(FILE, AGENT)), Mark(b"moved", Node(FILE, BASE * 2)), Mark(b"old", None)]
    with Ended(tmp_path, {b"x": Node(FILE, BASE), b"old": Node(FILE, BASE * 2)}, marks) as made:
        yield made


@pytest.fixture
def review(session: Ended) -> Iterator[Review]:
    opened = session.review()
    yield opened
    opened.close()


@pytest.fixture
def source(session: Ended, review: Review) -> Reviewing:
    return Reviewing(review, session.store)


def silent(_done: int, _whole: int) -> None:
    return


def whole(*paths: bytes) -> Selection:
    return Selection(frozenset(Key(0, path) for path in paths))


def test_what_was_chosen_lands_and_the_steps_are_told(session: Ended, source: Reviewing) -> None:
    told: list[tuple[int, int]] = []
    ended = source.merge(whole(b"x"), lambda done, count: told.append((done, count)))

    assert (ended.code, "1 change merged, 2 left in the session" in ended.lines) == (0, True)
    assert (session.real / "x").read_bytes() == AGENT
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]


def test_what_is_not_any_more_as_it_was_shown_does_not_land(session: Ended, source: Reviewing) -> None:
    source.content(X)
    (session.upper / "x").write_bytes(AGENT + b"and an edit that nobody saw\n")
    ended = source.merge(whole(b"x"), silent)

    assert (session.real / "x").read_bytes() == BASE
    assert ended.code == 1
    assert "it changed after it was shown" in " ".join(ended.lines)


def test_a_choice_waits_for_the_next_time_as_far_as_it_means_the_same(session: Ended, source: Reviewing) -> None:
    part = Choice(frozenset((1,)))
    source.save(Draft(Selection(frozenset((X, Key(0, b"old"))), {X: part}), {}, frozenset((X,)), X))
    review = session.review()
    draft = Reviewing(review, session.store).draft
    review.close()
    expected = ({X: part}, {X: Count(1, 1, 1)}, frozenset((X,)), X)
    assert (draft.selection.choices, draft.parts, draft.reviewed, draft.at) == expected

    (session.upper / "x").write_bytes(AGENT + b"more\n")
    review = session.review()
    draft = Reviewing(review, session.store).draft
    review.close()
    assert draft.selection == whole(b"old")
    assert draft.reviewed == frozenset()


def test_a_draft_that_cannot_be_read_is_none(session: Ended, source: Reviewing) -> None:
    source.save(Draft(whole(b"x")))
    Path(session.session.folder, "draft.json").write_text('{"version": 1, "chosen": [[', encoding="utf-8")
    review = session.review()
    assert Reviewing(review, session.store).draft.selection.keys == frozenset()
    review.close()


def test_blocks_and_lines_are_counted(source: Reviewing) -> None:
    assert source.count([X, Key(0, b"old")]) == {X: Count(2, 2, 2), Key(0, b"old"): Count(1, 0, 60)}


def test_a_renamed_file_is_told_on_both_sides(source: Reviewing) -> None:
    assert source.renamed == {Key(0, b"moved"): "renamed from old", Key(0, b"old"): "renamed to moved"}


def test_a_conflict_is_settled_place_by_place_and_can_be_settled_again(session: Ended) -> None:
    (session.real / "x").write_bytes(BASE.replace(b"line 3\n", b"mine\n").replace(b"line 25\n", b"mine too\n"))
    review = session.review()
    source = Reviewing(review, session.store)
    merged = source.merged(X)
    assert merged is not None
    assert len(merged.conflicts) == 2
    assert source.settle(X, (Side.AGENT, Side.AGENT)) is not None
    assert source.settle(X, (Side.MINE, Side.AGENT)) is not None
    assert source.merge(whole(b"x"), silent).code == 0
    review.close()
    assert (session.real / "x").read_bytes() == BASE.replace(b"line 3\n", b"mine\n").replace(b"line 25\n", b"twenty-five\n")


@pytest.fixture
def clashing(session: Ended) -> Ended:
    """A session of which one file is in conflict, in two places."""
    (session.real / "x").write_bytes(BASE.replace(b"line 3\n", b"mine\n").replace(b"line 25\n", b"mine too\n"))
    return session


def reopened(session: Ended) -> tuple[Reviewing, Change]:
    source = Reviewing(session.review(), session.store)
    return source, source.changes.by_key()[X]


@pytest.mark.parametrize("given", [(Side.MINE, Side.AGENT), b"from the editor\n"])
def test_a_conflict_that_was_settled_is_settled_the_next_time(clashing: Ended, given: tuple[Side, ...] | bytes) -> None:
    first, _ = reopened(clashing)
    assert first.settle(X, given) is not None
    first.save(Draft(whole(b"x"), answers={X: given} if isinstance(given, tuple) else {}))
    second, change = reopened(clashing)
    assert (change.conflict, second.draft.selection.keys) == (None, frozenset((X,)))

    assert second.merge(second.draft.selection, silent).code == 0
    both = BASE.replace(b"line 3\n", b"mine\n").replace(b"line 25\n", b"twenty-five\n")
    assert (clashing.real / "x").read_bytes() == (given if isinstance(given, bytes) else both)


def test_a_conflict_that_was_settled_in_part_is_so_the_next_time(clashing: Ended) -> None:
    first, _ = reopened(clashing)
    first.save(Draft(answers={X: (None, Side.BOTH)}))
    second, change = reopened(clashing)
    assert change.conflict
    assert second.draft.answers == {X: (None, Side.BOTH)}


def test_an_answer_to_what_has_changed_since_is_not_kept(clashing: Ended) -> None:
    first, _ = reopened(clashing)
    assert first.settle(X, (Side.MINE, Side.AGENT)) is not None
    first.save(Draft(whole(b"x"), answers={X: (Side.MINE, Side.AGENT)}))
    (clashing.real / "x").write_bytes(BASE.replace(b"line 3\n", b"another\n").replace(b"line 25\n", b"mine too\n"))
    second, change = reopened(clashing)
    assert change.conflict
    assert (second.draft.answers, second.draft.selection.keys) == ({}, frozenset())


def test_the_commands_that_ran_are_a_tab(session: Ended, review: Review) -> None:
    assert Tab.COMMANDS not in Reviewing(review, session.store).tabs
    rows = [{"argv": ["ls", "a b"], "decision": "allow"}, {"argv": ["rm", "-rf", "/"], "decision": "deny", "rule": "guard"}]
    Path(session.session.folder, "commands.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    shown = Reviewing(review, session.store).tabs[Tab.COMMANDS]
    assert [(one.line, one.is_risky) for one in shown] == [("ls 'a b'", False), ("rm -rf /", True)]


def test_how_a_command_ended_is_said_with_it(session: Ended, review: Review) -> None:
    begun = [{"pid": pid, "argv": [name], "decision": "allow"} for pid, name in ((7, "make"), (8, "ls"), (9, "pip"))]
    ended = [
        {"pid": 7, "argv": ["make"], "exit": 2, "duration": 5140},
        {"pid": 9, "argv": ["pip"], "exit": 1, "duration": 40, "rolled_back": True},
        {"pid": 6, "argv": ["of before"], "exit": None, "duration": 1},
    ]
    rows = "".join(json.dumps(row) + "\n" for row in (*begun, *ended))
    Path(session.session.folder, "commands.jsonl").write_text(rows, encoding="utf-8")
    shown = {one.line: one.about for one in Reviewing(review, session.store).tabs[Tab.COMMANDS]}
    assert shown == {
        "make": ("decided: allow", "ended with 2 after 5.1 s"),
        "ls": ("decided: allow",),
        "pip": ("decided: allow", "ended with 1 after 0.0 s, rolled back"),
    }
