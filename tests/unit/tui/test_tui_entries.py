"""Details of a command or a commit on a screen with one pane."""

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from tests.unit.tui.tui_states import after
from tui.events import (
    ChangeMoved,
    CursorMoved,
    DisplayOption,
    DisplayOptionToggled,
    EnterPressed,
    EscapePressed,
    Pane,
    PromptClosed,
    PromptEdited,
    PromptKind,
    PromptOpened,
    Resized,
    RiskMoved,
    StepIn,
    TabSelected,
    Toggled,
)
from tui.model.tabs import Tab
from tui.model.tabs import TabEntry as Told
from tui.state import State
from tui.update.dispatch import initial_state

FILE = Entry(FileType.FILE)
SOME = ChangeSet((Change(Key(0, b"a"), ChangeKind.EDITED, FILE, FILE),))
LONG = Told("sh -c " + "word " * 40, ("in: /src", "ended with 7 after 2.0 s"))
TABS = {
    Tab.COMMITS: (Told("bbbb two", ("by Ada",), id="bbbb"), Told("aaaa one", ("by Bob",), id="aaaa")),
    Tab.RISKS: (Told("a: runs", key=Key(0, b"a")),),
    Tab.COMMANDS: (Told("true", ("in: /src",)), LONG),
}


def on(tab: Tab) -> State:
    return after(initial_state(SOME, tabs=TABS)[0], Resized(80), TabSelected(tab))


def reported(state: State) -> list[str]:
    return [row.text for row in state.diff.document.rows]


def test_enter_shows_a_whole_command_and_returns_to_the_list() -> None:
    shown = after(on(Tab.COMMANDS), CursorMoved(1), EnterPressed())
    assert (shown.pane, reported(shown)[-2:]) == (Pane.DIFF, ["in: /src", "ended with 7 after 2.0 s"])
    assert "".join(reported(shown)[:-2]).count("word") == 40
    assert max(map(len, reported(shown))) < 80
    for key in (EnterPressed(), EscapePressed()):
        back = after(shown, key)
        assert (back.pane, back.tab, back.cursor) == (Pane.LIST, Tab.COMMANDS, 1)


def test_details_are_wrapped_again_when_the_width_changes() -> None:
    shown = after(on(Tab.COMMANDS), CursorMoved(1), EnterPressed())
    wide = after(shown, Resized(400))
    assert reported(wide)[0].strip() == LONG.title.strip()


def test_a_commit_is_selected_in_its_details_and_the_next_follows() -> None:
    shown = after(on(Tab.COMMITS), StepIn())
    assert (shown.pane, reported(shown)) == (Pane.DIFF, ["bbbb two", "by Ada"])
    clicked = after(shown, CursorMoved(1), Toggled(1, Pane.DIFF))
    assert clicked.selected_commits == {"bbbb"}
    onward = after(shown, EnterPressed())
    assert (set(onward.selected_commits), onward.pane, onward.cursor) == ({"bbbb"}, Pane.LIST, 1)


def test_enter_on_a_risk_goes_to_its_change() -> None:
    there = after(on(Tab.RISKS), EnterPressed())
    assert (there.tab, there.change is not None) == (Tab.CHANGES, True)


MANY = tuple(Told(f"command {number}", (f"in: /src/{number}",), is_risky=number in (3, 5)) for number in range(7))


def in_many() -> State:
    return after(initial_state(SOME, tabs={Tab.COMMANDS: MANY})[0], Resized(80), TabSelected(Tab.COMMANDS))


def test_the_next_entry_to_review_is_found_cyclically() -> None:
    state, rows = in_many(), []
    for by in (1, 1, 1, -1, -1):
        state = after(state, RiskMoved(by))
        rows.append(state.cursor)
    assert rows == [3, 5, 3, 5, 3]
    assert "no" in after(on(Tab.COMMANDS), RiskMoved(1)).message


def test_a_search_covers_the_entries() -> None:
    asked = after(in_many(), PromptOpened(PromptKind.SEARCH), PromptEdited("src/4"), PromptClosed(is_accepted=True))
    assert (asked.tab, asked.cursor) == (Tab.COMMANDS, 4)
    assert after(asked, ChangeMoved(1)).cursor == after(asked, ChangeMoved(-1)).cursor == 4
    every = after(in_many(), PromptOpened(PromptKind.SEARCH), PromptEdited("COMMAND"), PromptClosed(is_accepted=True))
    assert [after(every, ChangeMoved(by)).cursor for by in (1, -1)] == [2, 0]
    assert "no" in after(in_many(), PromptOpened(PromptKind.SEARCH), PromptEdited("gone"), PromptClosed(is_accepted=True)).message


def test_escape_returns_from_the_change_of_a_risk_to_the_risks() -> None:
    opened = after(on(Tab.RISKS), EnterPressed())
    assert (opened.tab, opened.pane) == (Tab.CHANGES, Pane.DIFF)
    back = after(opened, EscapePressed())
    assert (back.tab, back.pane) == (Tab.RISKS, Pane.LIST)
    moved = after(opened, TabSelected(Tab.COMMANDS), TabSelected(Tab.CHANGES), EscapePressed())
    assert moved.tab is Tab.CHANGES


def test_the_cursor_of_another_tab_stays_when_the_list_becomes_a_tree() -> None:
    state = on(Tab.COMMITS)
    tree = after(state, DisplayOptionToggled(DisplayOption.TREE))
    assert tree.display_options.is_tree
    assert tree.cursor == state.cursor
