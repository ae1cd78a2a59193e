"""Questions of the review screen: before applying, quitting and risky changes; answers that change nothing."""

import pytest

from agent_dev.overlay.changes import ChangeKind, Risk
from tests.unit.tui.tui_states import RISK, after, change, changes, effects, key, names, row, shop
from tui.effects import Apply, CountDeletions, Quit
from tui.events import (
    NO,
    YES,
    AllToggled,
    Answered,
    AnswerFocusMoved,
    ApplyRequested,
    Cancelled,
    DeletionsCounted,
    EnterPressed,
    EscapePressed,
    Event,
    HelpRequested,
    OperationFinished,
    QuitRequested,
    Toggled,
)
from tui.state import ScreenPage, State
from tui.update.dispatch import initial_state, update


def test_apply_with_nothing_selected_only_reports_it() -> None:
    state = after(shop(), ApplyRequested())
    assert state.page is ScreenPage.REVIEW
    assert state.message.startswith("nothing selected")


def test_apply_asks_with_no_focused() -> None:
    state = after(shop(), Toggled(), ApplyRequested())
    assert (state.page, state.focused_answer) == (ScreenPage.SUMMARY, NO)


@pytest.mark.parametrize(
    "event", [ApplyRequested(), QuitRequested(), HelpRequested(), Toggled(), AllToggled(), EnterPressed(), EscapePressed()]
)
def test_keys_of_the_review_do_nothing_to_a_question(event: Event) -> None:
    state = after(shop(), Toggled(), ApplyRequested())
    assert update(state, event) == (state, ())


def test_enter_on_the_question_means_no() -> None:
    asked = after(shop(), Toggled(), ApplyRequested())
    back, done = update(asked, Answered())
    assert (back.page, done) == (ScreenPage.REVIEW, ())
    assert names(back) == {"README.md"}


def test_yes_merges_the_selection() -> None:
    state = after(shop(), Toggled(), ApplyRequested())
    assert effects(state, Answered(YES)) == (Apply(state.selection),)
    assert effects(state, AnswerFocusMoved(), Answered()) == (Apply(state.selection),)


OTHER = (Risk("other", "another reason"),)


def asked_about(*risky: tuple[str, tuple[Risk, ...]]) -> State:
    """Return the state after these changes and the safe change c were selected and applied."""
    some = changes(*(change(name, risks=risks) for name, risks in risky), change("c"))
    state = initial_state(some)[0]
    return after(state, AllToggled(), *(Toggled(row(state, name)) for name, _ in risky), ApplyRequested())


def test_each_risky_change_is_confirmed_and_no_deselects_it() -> None:
    state = asked_about(("a", RISK), ("b", OTHER))
    assert (state.page, state.unconfirmed, state.focused_answer) == (ScreenPage.RISK, ((key("a"),), (key("b"),)), NO)
    assert after(state, AnswerFocusMoved(2)).focused_answer == NO
    state = after(state, Answered())
    assert (state.page, state.unconfirmed, names(state)) == (ScreenPage.RISK, ((key("b"),),), {"b", "c"})
    state = after(state, Answered(YES))
    assert (state.page, names(state)) == (ScreenPage.SUMMARY, {"b", "c"})


def test_changes_with_the_same_risks_are_one_question() -> None:
    state = asked_about(("a", RISK), ("b", OTHER), ("d", RISK))
    assert state.unconfirmed == ((key("a"), key("d")), (key("b"),))
    assert names(after(state, Answered(YES), Answered(YES))) == {"a", "b", "c", "d"}
    assert names(after(state, Answered(NO), Answered(YES))) == {"b", "c"}


def test_changes_with_the_same_risks_can_be_confirmed_one_by_one() -> None:
    state = after(asked_about(("a", RISK), ("d", RISK)), AnswerFocusMoved(2), Answered())
    assert (state.page, state.unconfirmed, state.focused_answer) == (ScreenPage.RISK, ((key("a"),), (key("d"),)), NO)
    state = after(state, Answered(NO), Answered(YES))
    assert (state.page, names(state)) == (ScreenPage.SUMMARY, {"c", "d"})


def test_a_confirmed_risk_is_not_asked_about_again_after_escape() -> None:
    state = after(asked_about(("a", RISK), ("b", OTHER)), Answered(YES), Cancelled(), ApplyRequested())
    assert (state.page, state.unconfirmed) == (ScreenPage.RISK, ((key("b"),),))
    assert after(state, Answered(YES), Cancelled(), ApplyRequested()).page is ScreenPage.SUMMARY


def many_deleted(count: int) -> State:
    """Return the state after some deletions were selected."""
    gone = (change(f"{number:02}", ChangeKind.DELETED) for number in range(count))
    return after(initial_state(changes(*gone))[0], AllToggled())


def test_many_deletions_are_counted_and_are_one_question() -> None:
    state, done = update(many_deleted(11), ApplyRequested())
    assert (state.page, done) == (ScreenPage.REVIEW, (CountDeletions(state.selection),))
    asked = after(state, DeletionsCounted(state.selection, 11))
    assert (asked.page, asked.many_deletions, asked.focused_answer) == (ScreenPage.DELETIONS, 11, NO)
    assert after(asked, Answered()).page is ScreenPage.REVIEW
    assert after(asked, Answered(YES)).page is ScreenPage.SUMMARY
    assert after(state, DeletionsCounted(state.selection, 0)).page is ScreenPage.SUMMARY


def test_a_few_deletions_are_no_question() -> None:
    assert after(many_deleted(10), ApplyRequested()).page is ScreenPage.SUMMARY


def test_a_late_count_of_deletions_interrupts_nothing() -> None:
    state = after(many_deleted(11), ApplyRequested())
    counted = DeletionsCounted(state.selection, 11)
    assert after(state, HelpRequested(), counted).page is ScreenPage.HELP
    assert after(state, Toggled(), counted).page is ScreenPage.REVIEW


def test_escape_from_a_risk_question_keeps_the_selection() -> None:
    state = initial_state(changes(change("a", risks=RISK)))[0]
    state = after(state, Toggled(), ApplyRequested(), Cancelled())
    assert (state.page, names(state)) == (ScreenPage.REVIEW, {"a"})


def test_no_key_stops_a_merge_that_has_begun() -> None:
    state = after(shop(), Toggled(), ApplyRequested(), Answered(YES))
    for event in (Answered(YES), Cancelled(), EscapePressed(), QuitRequested(), Toggled()):
        assert update(state, event) == (state, ())
    done = after(state, OperationFinished(("1 change merged",), 0))
    assert (done.page, effects(done, Cancelled())) == (ScreenPage.RESULT, (Quit(saves_selection=False),))


def test_no_is_focused_again_the_next_time() -> None:
    assert not after(shop(), Toggled(), ApplyRequested(), AnswerFocusMoved(), Answered(NO), ApplyRequested()).focused_answer


def test_quitting_with_nothing_selected_quits() -> None:
    assert effects(shop(), QuitRequested()) == (Quit(),)
    assert effects(shop(), EscapePressed()) == (Quit(),)


def test_quitting_with_a_selection_asks_and_merges_nothing() -> None:
    state = after(shop(), Toggled(), QuitRequested())
    assert (state.page, state.focused_answer) == (ScreenPage.QUIT, NO)
    assert effects(state, Answered(YES)) == (Quit(),)


@pytest.mark.parametrize("answer", [Answered(), Answered(YES), Answered(NO)])
def test_no_answer_to_help_does_anything(answer: Answered) -> None:
    assert update(after(shop(), Toggled(), HelpRequested()), answer) == (after(shop(), Toggled()), ())


@pytest.mark.parametrize("answer", [Answered(YES), AnswerFocusMoved()])
def test_an_answer_without_a_question_does_nothing(answer: Event) -> None:
    state = after(shop(), Toggled())
    assert update(state, answer) == (state, ())
