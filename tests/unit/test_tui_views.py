"""Views, filters, searches and tabs of the merge screen, and that all is quiet while the agent works."""

from agent_dev.overlay.selection import NOTHING
from tests.unit.tui_states import EDIT, SHOP, after, effects, key, on, shop
from tui.effects import Seek
from tui.events import (
    AllToggled,
    ApplyAsked,
    Asking,
    ChangeMoved,
    Entered,
    Escaped,
    LeaveAsked,
    LineAsked,
    Reviewed,
    RiskMoved,
    Switch,
    Switched,
    TabTurned,
    Toggled,
    Typed,
    TypedOut,
)
from tui.model.tabs import Tab
from tui.state import Face
from tui.update.dispatch import begin, update


def test_what_was_looked_at_can_be_left_out_of_the_list() -> None:
    state = after(shop(), Reviewed(), Switched(Switch.UNREVIEWED))
    assert key("README.md") not in state.listing.group_of
    assert after(state, Switched(Switch.UNREVIEWED)).listing.group_of.keys() == shop().listing.group_of.keys()


def test_a_filter_works_with_every_letter_and_escape_gives_it_up() -> None:
    state = after(shop(), LineAsked(Asking.FILTER), Typed("SRC/a"))
    assert [one.path for one in state.listing.group_of] == [b"src/a.py"]
    assert after(state, TypedOut(is_meant=False)).listing.group_of.keys() == shop().listing.group_of.keys()
    kept = after(state, TypedOut(is_meant=True))
    assert len(kept.listing.group_of) == 1
    assert len(after(kept, Escaped()).listing.group_of) == len(SHOP.changes)


def test_what_is_typed_is_never_a_key() -> None:
    state = after(shop(), LineAsked(Asking.FILTER))
    for event in (Toggled(), AllToggled(), ApplyAsked(), LeaveAsked(), Entered()):
        assert update(state, event) == (state, ())


def test_a_search_finds_in_this_diff_and_then_asks_for_the_others() -> None:
    state = after(on(EDIT), LineAsked(Asking.SEARCH), Typed("TWENTY"), TypedOut(is_meant=True))
    assert state.diff.document.rows[state.diff.cursor].new == 20
    state, asked = update(state, ChangeMoved(1))
    assert [one.keys for one in asked if hasattr(one, "keys")] == [(key("z"), key("f"))]


def test_a_search_in_an_empty_list_finds_nothing() -> None:
    state = after(shop(), LineAsked(Asking.FILTER), Typed("nowhere"), TypedOut(is_meant=True))
    state = after(state, LineAsked(Asking.SEARCH), Typed("x"), TypedOut(is_meant=True))
    for by in (1, -1):
        assert [one.keys for one in effects(state, ChangeMoved(by)) if isinstance(one, Seek)] == [()]


def test_risks_are_jumped_to_round_and_round() -> None:
    state = after(shop(), RiskMoved(1))
    found = []
    for _ in range(3):
        assert state.change is not None
        found.append(state.change.key.path)
        state = after(state, RiskMoved(1))
    assert sorted(found) == [b"run/socket", b"src/hook", b"src/mine.py"]


def test_a_tab_without_anything_is_not_turned_to() -> None:
    assert after(shop(), TabTurned(Tab.COMMANDS)).tab is Tab.CHANGES


def test_while_the_agent_works_nothing_can_be_chosen_or_merged() -> None:
    state = begin(SHOP, is_running=True)[0]
    for event in (Toggled(), AllToggled(), ApplyAsked()):
        made = after(state, event)
        assert (made.selection, made.face) == (NOTHING, Face.REVIEW)
        assert "still working" in made.word
