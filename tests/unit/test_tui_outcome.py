"""What the screen says of a file that both sides changed: never that both are in it where one took the other's place."""

from dataclasses import replace

import pytest

from agent_dev.diff.merge3 import Merged, Side, merge
from agent_dev.merge.reconcile import Fit, Sides, fit, settled
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind
from tests.unit.tui_states import after, changes
from tui.effects import Answers
from tui.events import AllToggled, Changed, Settled
from tui.model import outcome
from tui.model.outcome import Outcome
from tui.state import State
from tui.text.summary import question, summary
from tui.update.dispatch import begin

FILE = Entry(FileType.FILE)
KEY = Key(0, b"both.txt")
LINES = merge(b"a\n\nb\n\nc\n", b"A\n\nb\n\nC\n", b"1\n\nb\n\n3\n")
MINE, AGENT, BOTH = Side.MINE, Side.AGENT, Side.BOTH
TOGETHER = Change(KEY, Kind.EDITED, FILE, FILE, is_merged=True)
ADDED = Change(KEY, Kind.ADDED, None, FILE, mine=FILE, conflict="both added it")
FITS = "what lands has both"


@pytest.mark.parametrize(
    ("merged", "answers", "expected"),
    [
        (None, (), FITS),
        (merge(b"a\n", b"a\n", b"b\n"), (), FITS),
        (None, (AGENT,), "yours is replaced by the agent's (undo brings it back)"),
        (LINES, (AGENT, AGENT), "yours are replaced by the agent's (undo brings them back)"),
        (LINES, (MINE, MINE), "nothing of the agent's lands there"),
        (LINES, (BOTH, BOTH), "yours land, and behind them the agent's"),
        (LINES, (MINE, AGENT), "in 1 place yours stay, in 1 place the agent's replace yours"),
        (LINES, (), "in an editor"),
    ],
)
def test_the_sentence_says_whose_lines_land(merged: Merged | None, answers: Answers, expected: str) -> None:
    said = outcome.sentence(TOGETHER, merged, answers)
    assert expected in said
    assert (FITS in said) is (expected == FITS)


def test_of_what_stays_nothing_lands_and_of_commits_the_answer_is_what_lands() -> None:
    assert "nothing of the agent's lands" in outcome.sentence(replace(TOGETHER, is_dropped=True), None, (MINE,))
    assert "commits bring home" in outcome.sentence(replace(TOGETHER, is_apart=True), None, (AGENT,))


@pytest.mark.parametrize(
    ("is_dropped", "answers", "expected"),
    [
        (True, (MINE,), Outcome.YOURS),
        (False, (AGENT,), Outcome.AGENTS),
        (False, (AGENT, MINE), Outcome.TOGETHER),
        (False, (), Outcome.TOGETHER),
    ],
)
def test_the_list_has_a_word_for_it(is_dropped: bool, answers: Answers, expected: Outcome) -> None:  # noqa: FBT001  (a table's column)
    assert outcome.of(replace(TOGETHER, is_dropped=is_dropped), answers) is expected


def answered(how: Side) -> State:
    """Return the screen with one plain change, and one that both added and that was answered one way."""
    plain = Change(Key(0, b"plain"), Kind.ADDED, None, FILE)
    state, _ = begin(changes(plain, ADDED))
    state = replace(state, answers={KEY: (how,)})
    done = replace(ADDED, conflict=None, is_merged=True, is_dropped=how is MINE)
    return after(state, AllToggled(), Changed(done, is_taken=True))


def page(state: State) -> str:
    return "\n".join(line.text for line in summary(state, (), 0, 100, lambda _key: None))


def test_the_last_page_says_what_the_agents_file_takes_the_place_of() -> None:
    said = page(answered(AGENT))
    assert "In place of yours (1)\n  +  both.txt\n      yours is replaced by the agent's" in said
    assert "With what you changed" not in said
    assert "2 of 2 changes" in said
    assert question(answered(AGENT))[0] == "Merge 2 changes?"


def test_the_last_page_does_not_count_what_stays_among_what_lands() -> None:
    said = page(answered(MINE))
    assert "Yours stays (1)\n  +  both.txt\n      yours stays as it is" in said
    assert ("1 of 2 changes" in said, "Files (1)" in said, "With what you changed" in said) == (True, True, False)
    assert question(answered(MINE)) == ("Merge 1 change?", "Yes, merge 1 change")


def test_where_nothing_lands_no_merge_is_asked_about() -> None:
    state, _ = begin(changes(ADDED))
    done = after(state, Changed(replace(ADDED, conflict=None, is_merged=True, is_dropped=True), is_taken=True))
    assert question(done) == ("Keep yours, and merge nothing of it?", "Yes, keep yours")


def test_an_editor_takes_the_place_of_what_was_answered_before() -> None:
    state = answered(AGENT)
    edited = after(state, Changed(TOGETHER, is_taken=True, is_edited=True))
    assert (KEY in state.answers, KEY in edited.answers) == (True, False)
    assert after(edited, Settled(MINE)).answers.get(KEY) is None  # no diff of it is shown here, so there is no conflict


def unsettled(base: bytes, mine: bytes, agent: bytes) -> tuple[Change, Fit]:
    one = fit(Change(KEY, Kind.EDITED, FILE, FILE), FILE, Sides(base, mine, agent))
    assert one.change is not None
    assert one.merged is not None
    return one.change, one


@pytest.mark.parametrize(
    ("agent", "how", "is_dropped"),
    [
        (b"1\n\nc\n", MINE, True),
        (b"1\n\nc\n", AGENT, False),
        (b"1\n\n3\n", MINE, False),
    ],
)
def test_lines_that_stay_yours_are_dropped_where_nothing_else_of_the_agents_lands(
    agent: bytes,
    how: Side,
    is_dropped: bool,  # noqa: FBT001  (a table's column)
) -> None:
    change, one = unsettled(b"a\n\nc\n", b"A\n\nc\n", agent)
    made = settled(change, one, (how,))
    assert made is not None
    assert made.change is not None
    assert made.change.is_dropped is is_dropped
