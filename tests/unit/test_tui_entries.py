"""What is told of a command or a commit, on a screen that has room for one pane."""

from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind
from tests.unit.tui_states import after
from tui.events import (
    Asking,
    ChangeMoved,
    Entered,
    Escaped,
    LineAsked,
    Moved,
    Opened,
    Pane,
    Resized,
    RiskMoved,
    TabTurned,
    Toggled,
    Typed,
    TypedOut,
)
from tui.model.tabs import Entry as Told
from tui.model.tabs import Tab
from tui.state import State
from tui.update.dispatch import begin

FILE = Entry(FileType.FILE)
SOME = ChangeSet((Change(Key(0, b"a"), Kind.EDITED, FILE, FILE),))
LONG = Told("sh -c " + "word " * 40, ("in: /src", "ended with 7 after 2.0 s"))
TABS = {
    Tab.COMMITS: (Told("bbbb two", ("by Ada",), id="bbbb"), Told("aaaa one", ("by Bob",), id="aaaa")),
    Tab.RISKS: (Told("a: runs", key=Key(0, b"a")),),
    Tab.COMMANDS: (Told("true", ("in: /src",)), LONG),
}


def on(tab: Tab) -> State:
    return after(begin(SOME, tabs=TABS)[0], Resized(80), TabTurned(tab))


def told(state: State) -> list[str]:
    return [row.text for row in state.diff.document.rows]


def test_enter_shows_all_of_a_command_and_goes_back_to_the_list() -> None:
    shown = after(on(Tab.COMMANDS), Moved(1), Entered())
    assert (shown.pane, told(shown)[-2:]) == (Pane.DIFF, ["in: /src", "ended with 7 after 2.0 s"])
    assert "".join(told(shown)[:-2]).count("word") == 40
    assert max(map(len, told(shown))) < 80
    for key in (Entered(), Escaped()):
        back = after(shown, key)
        assert (back.pane, back.tab, back.cursor) == (Pane.LIST, Tab.COMMANDS, 1)


def test_what_is_told_is_broken_anew_when_there_is_more_room() -> None:
    shown = after(on(Tab.COMMANDS), Moved(1), Entered())
    wide = after(shown, Resized(400))
    assert told(wide)[0].strip() == LONG.line.strip()


def test_a_commit_is_chosen_where_it_is_told_and_the_next_one_follows() -> None:
    shown = after(on(Tab.COMMITS), Opened())
    assert (shown.pane, told(shown)) == (Pane.DIFF, ["bbbb two", "by Ada"])
    clicked = after(shown, Moved(1), Toggled(1, Pane.DIFF))
    assert clicked.picked == {"bbbb"}
    onward = after(shown, Entered())
    assert (set(onward.picked), onward.pane, onward.cursor) == ({"bbbb"}, Pane.LIST, 1)


def test_a_risk_goes_to_its_change_as_before() -> None:
    there = after(on(Tab.RISKS), Entered())
    assert (there.tab, there.change is not None) == (Tab.CHANGES, True)


MANY = tuple(Told(f"command {number}", (f"in: /src/{number}",), is_risky=number in (3, 5)) for number in range(7))


def in_many() -> State:
    return after(begin(SOME, tabs={Tab.COMMANDS: MANY})[0], Resized(80), TabTurned(Tab.COMMANDS))


def test_the_next_that_wants_a_look_is_found_once_around() -> None:
    state, rows = in_many(), []
    for by in (1, 1, 1, -1, -1):
        state = after(state, RiskMoved(by))
        rows.append(state.cursor)
    assert rows == [3, 5, 3, 5, 3]
    assert "nothing" in after(on(Tab.COMMANDS), RiskMoved(1)).word


def test_a_search_goes_through_the_entries() -> None:
    asked = after(in_many(), LineAsked(Asking.SEARCH), Typed("src/4"), TypedOut(is_meant=True))
    assert (asked.tab, asked.cursor) == (Tab.COMMANDS, 4)
    assert after(asked, ChangeMoved(1)).cursor == after(asked, ChangeMoved(-1)).cursor == 4
    every = after(in_many(), LineAsked(Asking.SEARCH), Typed("COMMAND"), TypedOut(is_meant=True))
    assert [after(every, ChangeMoved(by)).cursor for by in (1, -1)] == [2, 0]
    assert "nothing" in after(in_many(), LineAsked(Asking.SEARCH), Typed("gone"), TypedOut(is_meant=True)).word
