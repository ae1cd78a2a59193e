"""Views, filters, searches and tabs of the review screen; while the agent runs, nothing can be selected or merged."""

from agent_dev.overlay.selection import EMPTY_SELECTION
from tests.unit.tui.tui_states import EDIT, SHOP, after, effects, key, names, on, row, shop
from tui.effects import Search
from tui.events import (
    AllToggled,
    ApplyRequested,
    ChangeMoved,
    CursorMovedTo,
    DisplayOption,
    DisplayOptionToggled,
    EnterPressed,
    EscapePressed,
    KindToggled,
    PromptClosed,
    PromptEdited,
    PromptKind,
    PromptOpened,
    QuitRequested,
    ReviewedToggled,
    RiskMoved,
    TabSelected,
    Toggled,
)
from tui.model.tabs import Tab
from tui.state import ScreenPage, State
from tui.update.dispatch import initial_state, update


def test_reviewed_changes_can_be_hidden() -> None:
    state = after(shop(), ReviewedToggled(), DisplayOptionToggled(DisplayOption.UNREVIEWED))
    assert key("README.md") not in state.listing.group_of
    assert after(state, DisplayOptionToggled(DisplayOption.UNREVIEWED)).listing.group_of.keys() == shop().listing.group_of.keys()


def path(state: State) -> str:
    """Return the path of the change under the cursor."""
    return state.change.key.path.decode() if state.change else ""


def test_after_a_reviewed_change_was_hidden_the_cursor_is_on_the_next_one() -> None:
    state = after(shop(), DisplayOptionToggled(DisplayOption.UNREVIEWED), CursorMovedTo(row(shop(), "src/a.py")))
    state = after(state, ReviewedToggled())
    assert path(state) == "src/b.py"
    above = after(state, ReviewedToggled())
    assert (path(above), above.reviewed) == ("README.md", frozenset((key("src/a.py"), key("src/b.py"))))


def test_hiding_reviewed_changes_moves_from_one_to_the_next() -> None:
    state = after(shop(), CursorMovedTo(row(shop(), "src/a.py")), ReviewedToggled())
    assert path(after(state, DisplayOptionToggled(DisplayOption.UNREVIEWED))) == "src/b.py"


def test_a_filter_accepts_every_letter_and_escape_cancels_it() -> None:
    state = after(shop(), PromptOpened(PromptKind.FILTER), PromptEdited("SRC/a"))
    assert [one.path for one in state.listing.group_of] == [b"src/a.py"]
    assert after(state, PromptClosed(is_accepted=False)).listing.group_of.keys() == shop().listing.group_of.keys()
    kept = after(state, PromptClosed(is_accepted=True))
    assert len(kept.listing.group_of) == 1
    assert len(after(kept, EscapePressed()).listing.group_of) == len(SHOP.changes)


def test_all_selects_only_what_a_filter_lists() -> None:
    listed = after(shop(), PromptOpened(PromptKind.FILTER), PromptEdited("src/a"), PromptClosed(is_accepted=True))
    state = after(listed, AllToggled())
    assert [one.path for one in state.selection.keys] == [b"src/a.py"]
    assert "others are hidden" in state.message
    assert not after(state, AllToggled()).selection.keys
    assert len(after(state, EscapePressed(), AllToggled()).selection.keys) > 1


def test_all_and_all_of_a_kind_leave_hidden_reviewed_changes_out() -> None:
    reviewed = after(shop(), ReviewedToggled(), DisplayOptionToggled(DisplayOption.UNREVIEWED))
    state = after(reviewed, AllToggled())
    assert (names(state), "others are hidden" in state.message) == ({"src/a.py", "src/b.py"}, True)
    state = after(reviewed, CursorMovedTo(row(reviewed, "src/a.py")), KindToggled())
    assert (names(state), state.message) == ({"src/a.py"}, "listed edited changes selected (others are hidden)")
    assert names(after(reviewed, DisplayOptionToggled(DisplayOption.UNREVIEWED), AllToggled())) >= {"README.md"}


def test_all_of_a_kind_selects_only_what_a_filter_lists() -> None:
    listed = after(shop(), PromptOpened(PromptKind.FILTER), PromptEdited("src/a"), PromptClosed(is_accepted=True))
    assert names(after(listed, KindToggled())) == {"src/a.py"}


def test_typed_text_never_acts_as_a_key() -> None:
    state = after(shop(), PromptOpened(PromptKind.FILTER))
    for event in (Toggled(), AllToggled(), ApplyRequested(), QuitRequested(), EnterPressed()):
        assert update(state, event) == (state, ())


def test_a_search_covers_this_diff_and_then_loads_the_others() -> None:
    state = after(on(EDIT), PromptOpened(PromptKind.SEARCH), PromptEdited("TWENTY"), PromptClosed(is_accepted=True))
    assert state.diff.document.rows[state.diff.cursor].new_line == 20
    state, asked = update(state, ChangeMoved(1))
    assert [one.keys for one in asked if hasattr(one, "keys")] == [(key("z"), key("f"))]


def test_a_search_in_an_empty_list_finds_nothing() -> None:
    state = after(shop(), PromptOpened(PromptKind.FILTER), PromptEdited("nowhere"), PromptClosed(is_accepted=True))
    state = after(state, PromptOpened(PromptKind.SEARCH), PromptEdited("x"), PromptClosed(is_accepted=True))
    for by in (1, -1):
        assert [one.keys for one in effects(state, ChangeMoved(by)) if isinstance(one, Search)] == [()]


def test_jumping_between_risks_is_cyclic() -> None:
    state = after(shop(), RiskMoved(1))
    found = []
    for _ in range(3):
        assert state.change is not None
        found.append(state.change.key.path)
        state = after(state, RiskMoved(1))
    assert sorted(found) == [b"run/socket", b"src/hook", b"src/mine.py"]


def test_an_empty_tab_is_not_opened() -> None:
    assert after(shop(), TabSelected(Tab.COMMANDS)).tab is Tab.CHANGES


def test_while_the_agent_runs_nothing_can_be_selected_or_merged() -> None:
    state = initial_state(SHOP, is_running=True)[0]
    for event in (Toggled(), AllToggled(), ApplyRequested()):
        made = after(state, event)
        assert (made.selection, made.page) == (EMPTY_SELECTION, ScreenPage.REVIEW)
        assert "still running" in made.message
