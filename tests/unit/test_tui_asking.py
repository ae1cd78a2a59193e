"""What the merge screen asks before it merges, leaves or takes what is risky, and what no answer does."""

import pytest

from tests.unit.tui_states import RISK, after, change, changes, effects, key, names, row, shop
from tui.effects import Apply, Finish
from tui.events import (
    NO,
    YES,
    AllToggled,
    Answered,
    AnswerMoved,
    ApplyAsked,
    Entered,
    Escaped,
    Event,
    Finished,
    GivenUp,
    HelpAsked,
    LeaveAsked,
    Toggled,
)
from tui.state import Face
from tui.update.dispatch import begin, update


def test_apply_with_nothing_chosen_only_says_so() -> None:
    state = after(shop(), ApplyAsked())
    assert state.face is Face.REVIEW
    assert state.word.startswith("nothing is chosen")


def test_apply_asks_with_no_in_focus() -> None:
    state = after(shop(), Toggled(), ApplyAsked())
    assert (state.face, state.answer) == (Face.SUMMARY, NO)


@pytest.mark.parametrize("event", [ApplyAsked(), LeaveAsked(), HelpAsked(), Toggled(), AllToggled(), Entered(), Escaped()])
def test_keys_of_the_review_do_nothing_to_a_question(event: Event) -> None:
    state = after(shop(), Toggled(), ApplyAsked())
    assert update(state, event) == (state, ())


def test_enter_on_the_question_means_no() -> None:
    asked = after(shop(), Toggled(), ApplyAsked())
    back, done = update(asked, Answered())
    assert (back.face, done) == (Face.REVIEW, ())
    assert names(back) == {"README.md"}


def test_yes_merges_the_selection() -> None:
    state = after(shop(), Toggled(), ApplyAsked())
    assert effects(state, Answered(YES)) == (Apply(state.selection),)
    assert effects(state, AnswerMoved(), Answered()) == (Apply(state.selection),)


def test_each_risky_change_is_asked_about_and_no_leaves_it_out() -> None:
    some = changes(change("a", risks=RISK), change("b", risks=RISK), change("c"))
    state = begin(some)[0]
    state = after(state, AllToggled(), Toggled(row(state, "a")), Toggled(row(state, "b")), ApplyAsked())
    assert (state.face, state.asked, state.answer) == (Face.RISK, (key("a"), key("b")), NO)
    state = after(state, Answered())
    assert (state.face, state.asked, names(state)) == (Face.RISK, (key("b"),), {"b", "c"})
    state = after(state, Answered(YES))
    assert (state.face, names(state)) == (Face.SUMMARY, {"b", "c"})


def test_escape_from_the_question_about_a_risk_goes_back_and_keeps_the_choice() -> None:
    state = begin(changes(change("a", risks=RISK)))[0]
    state = after(state, Toggled(), ApplyAsked(), GivenUp())
    assert (state.face, names(state)) == (Face.REVIEW, {"a"})


def test_no_key_stops_a_merge_that_has_begun() -> None:
    state = after(shop(), Toggled(), ApplyAsked(), Answered(YES))
    for event in (Answered(YES), GivenUp(), Escaped(), LeaveAsked(), Toggled()):
        assert update(state, event) == (state, ())
    done = after(state, Finished(("1 change merged",), 0))
    assert (done.face, effects(done, GivenUp())) == (Face.RESULT, (Finish(is_kept=False),))


def test_the_focus_is_on_no_again_the_next_time() -> None:
    assert not after(shop(), Toggled(), ApplyAsked(), AnswerMoved(), Answered(NO), ApplyAsked()).answer


def test_leaving_with_nothing_chosen_leaves() -> None:
    assert effects(shop(), LeaveAsked()) == (Finish(),)
    assert effects(shop(), Escaped()) == (Finish(),)


def test_leaving_with_something_chosen_asks_and_merges_nothing() -> None:
    state = after(shop(), Toggled(), LeaveAsked())
    assert (state.face, state.answer) == (Face.LEAVE, NO)
    assert effects(state, Answered(YES)) == (Finish(),)


@pytest.mark.parametrize("answer", [Answered(), Answered(YES), Answered(NO)])
def test_no_answer_to_help_does_anything(answer: Answered) -> None:
    assert update(after(shop(), Toggled(), HelpAsked()), answer) == (after(shop(), Toggled()), ())


@pytest.mark.parametrize("answer", [Answered(YES), AnswerMoved()])
def test_an_answer_without_a_question_does_nothing(answer: Event) -> None:
    state = after(shop(), Toggled())
    assert update(state, answer) == (state, ())
