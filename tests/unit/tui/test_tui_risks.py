"""Ignored files are assessed before they are applied; risks that are found then are confirmed like any others."""

from dataclasses import replace

from tests.unit.tui.tui_states import RISK, after, change, changes, effects, key
from tui.effects import AssessRisks
from tui.events import ApplyRequested, QuitRequested, RisksAssessed, SelectionRedone, Toggled
from tui.model.change_list import HeadingRow
from tui.state import ScreenPage, State
from tui.update.dispatch import initial_state, update

X, Y = key("dist/x"), key("dist/y")


def selected() -> State:
    """Return a state in which the heading of two ignored files is selected."""
    some = changes(change("dist/x", is_ignored=True), change("dist/y", is_ignored=True), change("README.md"))
    state = replace(initial_state(some)[0], unassessed=frozenset((X, Y)))
    groups, rows = state.listing.groups, state.listing.rows
    at = next(at for at, row in enumerate(rows) if isinstance(row, HeadingRow) and X in groups[row.group].keys)
    return after(state, Toggled(at))


def test_unassessed_changes_are_assessed_first() -> None:
    state, done = update(selected(), ApplyRequested())
    assert state.selection.keys == {X, Y}
    assert (state.page, done) == (ScreenPage.REVIEW, (AssessRisks(frozenset((X, Y))),))
    assert "assessing the risks of 2 selected ignored files" in state.message


def test_a_newly_found_risk_is_confirmed() -> None:
    state = after(selected(), ApplyRequested(), RisksAssessed({X: (), Y: RISK}))
    assert (state.page, state.unconfirmed) == (ScreenPage.RISK, ((Y,),))
    assert state.changes.by_key()[Y].risks == RISK
    assert state.unassessed == frozenset()


def test_without_a_risk_the_summary_follows() -> None:
    state = after(selected(), ApplyRequested(), RisksAssessed({X: (), Y: ()}))
    assert state.page is ScreenPage.SUMMARY
    assert state.selection.keys == {X, Y}


def test_a_repeated_assessment_result_asks_nothing_twice() -> None:
    state = after(selected(), ApplyRequested(), ApplyRequested(), RisksAssessed({X: (), Y: ()}), QuitRequested())
    back = replace(state, page=ScreenPage.REVIEW)
    assert update(back, RisksAssessed({X: (), Y: ()})) == (back, ())


def test_unselected_changes_are_not_assessed() -> None:
    state = after(selected(), Toggled(0), SelectionRedone())
    state = replace(state, selection=replace(state.selection, keys=frozenset((key("README.md"),))))
    assert update(state, ApplyRequested())[0].page is ScreenPage.SUMMARY
    assert effects(state, ApplyRequested()) == ()
