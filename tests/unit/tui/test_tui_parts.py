"""Selecting parts of a change on the review screen: hunks, lines, the mode; undo of the selection."""

import pytest

from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.selection import EMPTY_SELECTION, select_all
from tests.unit.tui.tui_states import BEFORE, EDIT, FILE, RISK, SHOP, after, change, changes, key, names, on, row, shop
from tui.events import (
    AllDeselected,
    AllToggled,
    CursorMoved,
    CursorMovedTo,
    DisplayOption,
    DisplayOptionToggled,
    EnterPressed,
    EscapePressed,
    KindToggled,
    PaneSwitched,
    SelectionRedone,
    SelectionUndone,
    Toggled,
)
from tui.page_text.summary import apply_summary
from tui.state import State
from tui.update.dispatch import initial_state

SCRIPT = Change(key("g"), ChangeKind.EDITED, FILE, Entry(FileType.FILE, mode=0o755))
NEW_SCRIPT = Change(key("g"), ChangeKind.ADDED, None, Entry(FileType.FILE, mode=0o755))
NEW = change("n", ChangeKind.ADDED)
GONE = change("o", ChangeKind.DELETED)


def at(state: State, block: int) -> CursorMovedTo:
    """Return the event that moves the cursor to a hunk."""
    return CursorMovedTo(state.diff.document.hunk_rows[block])


def part(state: State) -> tuple[list[int], list[int], list[int], bool]:
    """Return the selected hunks and lines of the only partly selected change, and whether its mode is selected."""
    (choice,) = state.selection.partial.values()
    return sorted(choice.hunks), sorted(choice.old_lines), sorted(choice.new_lines), choice.mode


def test_enter_moves_to_the_first_hunk_and_space_selects_it() -> None:
    state = after(on(EDIT), Toggled())
    assert part(state) == ([0], [], [], True)
    assert (state.selected_totals.hunks, state.selected_totals.lines) == (1, 2)
    assert after(state, Toggled()).selection == EMPTY_SELECTION


def test_enter_selects_a_hunk_and_moves_to_the_next_hunk_or_change() -> None:
    state = after(on(EDIT), EnterPressed(), EnterPressed())
    assert part(state)[0] == [0, 1]
    last = after(state, EnterPressed())
    assert (last.selection.partial, names(last)) == ({}, {"f"})
    assert last.change == change("z")


def test_enter_leaves_selected_hunks_selected_and_goes_on() -> None:
    state = after(on(EDIT), PaneSwitched(), AllToggled(), EnterPressed())
    rows = [state.diff.cursor]
    for _ in range(3):
        state = after(state, EnterPressed())
        rows.append(state.diff.cursor)
    assert rows[:3] == list(on(EDIT).diff.document.hunk_rows)
    assert (names(state), state.selection.partial) == ({"f", "z"}, {})
    assert state.change == change("z")


def test_enter_leaves_a_partly_selected_hunk_as_it_is() -> None:
    state = on(EDIT)
    state = after(state, at(state, 1), CursorMoved(1, extends_range=True), Toggled(), at(state, 1), EnterPressed())
    assert part(state) == ([], [20, 21], [], True)
    assert state.diff.cursor == state.diff.document.hunk_rows[2]


def test_enter_selects_a_range_of_which_some_lines_are_selected() -> None:
    state = on(EDIT)
    state = after(state, DisplayOptionToggled(DisplayOption.LINES), at(state, 1), Toggled())
    state = after(state, CursorMoved(1, extends_range=True), EnterPressed())
    assert (part(state), state.diff.anchor) == (([], [20, 21], [], True), -1)


def test_enter_leaves_a_selected_change_without_hunks_selected() -> None:
    binary = change("f", ChangeKind.DELETED)
    state = after(on(binary, b"\0", None), Toggled(), EnterPressed())
    assert (names(state), state.change) == ({"f"}, change("z"))


def test_selecting_every_hunk_selects_the_whole_change() -> None:
    state = on(EDIT)
    for block in (2, 0, 1):
        state = after(state, at(state, block), Toggled())
    assert (names(state), state.selection.partial) == ({"f"}, {})


def test_lines_can_be_selected_one_by_one() -> None:
    state = on(EDIT)
    state = after(state, DisplayOptionToggled(DisplayOption.LINES), at(state, 1), Toggled(), CursorMoved(2), Toggled())
    assert part(state) == ([], [20], [20], True)
    assert (state.selected_totals.hunks, state.selected_totals.lines) == (1, 2)


def test_a_range_selects_its_lines_and_ends() -> None:
    state = on(EDIT)
    state = after(state, at(state, 1), CursorMoved(1, extends_range=True), Toggled())
    assert part(state) == ([], [20, 21], [], True)
    assert state.diff.anchor == -1
    assert after(state, DisplayOptionToggled(DisplayOption.RANGE), CursorMoved(1), EscapePressed()).diff.anchor == -1


def test_in_the_split_view_a_row_is_selected_with_both_sides() -> None:
    state = on(EDIT, is_split=True)
    state = after(state, DisplayOptionToggled(DisplayOption.LINES), at(state, 1), Toggled())
    assert part(state) == ([], [20], [20], True)


def test_a_row_without_selectable_lines_prints_a_note() -> None:
    state = after(on(EDIT), CursorMovedTo(0), Toggled())
    assert (state.selection, state.message.startswith("nothing to select on this row")) == (EMPTY_SELECTION, True)


def test_the_mode_is_a_separate_row() -> None:
    state = on(SCRIPT)
    mode = next(number for number, one in enumerate(state.diff.document.rows) if one.part)
    only_mode = after(state, CursorMovedTo(mode), Toggled())
    assert part(only_mode) == ([], [], [], True)
    lines = after(state, at(state, 0), Toggled())
    assert part(lines) == ([0], [], [], False)
    both = after(lines, CursorMovedTo(mode), Toggled())
    assert part(both) == ([0], [], [], True)


def summary(state: State) -> str:
    """Return the text of the summary before the selection is applied."""
    return "\n".join(line.text for line in apply_summary(state, (), 0, 80, lambda _key: None))


@pytest.mark.parametrize(("one", "before"), [(SCRIPT, BEFORE), (NEW_SCRIPT, None)])
def test_the_summary_lists_a_mode_only_if_it_is_applied(one: Change, before: bytes | None) -> None:
    state = on(one, before)
    lines = after(state, at(state, 0), Toggled())
    if before is None:  # its mode is deselected on its own row
        lines = after(lines, CursorMovedTo(state.diff.document.hunk_rows[0] - 1), Toggled())
    assert part(lines)[3] is False
    assert ("Modes" in summary(lines), "Files (1)" in summary(lines)) == (False, True)
    whole = after(state, PaneSwitched(), Toggled())
    assert ("Modes (1)" in summary(whole), "Files" in summary(whole)) == (True, False)


def test_the_summary_counts_selected_hunks_of_all() -> None:
    assert "1 of 3 hunks +1 -1" in summary(after(on(EDIT), Toggled()))
    state = after(on(EDIT, b"a\nb\n", b"A\nB\n"), DisplayOptionToggled(DisplayOption.LINES), Toggled())
    assert "1 of 1 hunk -1" in summary(state)


def test_selecting_lines_of_a_new_file_prints_a_note() -> None:
    state = on(NEW, None, b"a\nb\n")
    state = after(state, DisplayOptionToggled(DisplayOption.LINES), at(state, 0), Toggled())
    assert (part(state), state.message) == (([], [], [0], True), "creates the file with these lines only")
    assert after(state, Toggled()).selection == EMPTY_SELECTION


def test_a_partial_deletion_is_an_edit_with_a_note() -> None:
    state = on(GONE, b"a\nb\n", None)
    state = after(state, DisplayOptionToggled(DisplayOption.LINES), at(state, 0), Toggled())
    assert (part(state), state.message) == (([], [0], [], True), "keeps the file, without these lines")
    assert state.selected_totals.deletions == 0
    whole = after(state, CursorMoved(1), Toggled())
    assert (whole.selection.partial, whole.selected_totals.deletions) == ({}, 1)


def test_space_in_the_list_selects_a_partly_selected_change_as_a_whole() -> None:
    state = after(on(EDIT), Toggled(), PaneSwitched(), Toggled())
    assert (names(state), state.selection.partial, state.parts) == ({"f"}, {}, {})
    assert state.selected_totals.hunks == 3


def test_selections_are_undone_and_redone_one_by_one() -> None:
    first = after(on(EDIT), Toggled())
    second = after(first, PaneSwitched(), AllToggled())
    back = after(second, SelectionUndone())
    assert (back.selection, back.selected_totals, back.parts) == (first.selection, first.selected_totals, first.parts)
    assert after(back, SelectionUndone()).selection == EMPTY_SELECTION
    again = after(back, SelectionUndone(), SelectionRedone(), SelectionRedone())
    assert (again.selection, again.selected_totals) == (second.selection, second.selected_totals)


def test_all_changes_of_a_kind_are_selected_and_deselected() -> None:
    some = changes(
        change("a", ChangeKind.ADDED), change("b", ChangeKind.ADDED), change("c"), change("d", ChangeKind.ADDED, risks=RISK)
    )
    state = initial_state(some)[0]
    state = after(state, CursorMovedTo(row(state, "a")), KindToggled())
    assert names(state) == {"a", "b"}
    assert after(state, KindToggled()).selection == EMPTY_SELECTION


def test_one_key_deselects_all_and_can_be_undone() -> None:
    state = after(shop(), AllToggled(), AllDeselected())
    assert state.selection == EMPTY_SELECTION
    assert after(state, SelectionUndone()).selection == select_all(SHOP)
