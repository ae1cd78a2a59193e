"""Choosing parts of a change on the merge screen: blocks, lines, the mode, and taking a choice back."""

from agent_dev.overlay.changes import Change, Entry, FileType, Kind
from agent_dev.overlay.selection import NOTHING, all_of
from tests.unit.tui_states import EDIT, FILE, RISK, SHOP, after, change, changes, key, names, on, row, shop
from tui.events import (
    AllToggled,
    Entered,
    Escaped,
    KindToggled,
    Moved,
    MovedTo,
    NothingChosen,
    PaneSwapped,
    Redone,
    Switch,
    Switched,
    Toggled,
    Undone,
)
from tui.state import State
from tui.update.dispatch import begin

SCRIPT = Change(key("g"), Kind.EDITED, FILE, Entry(FileType.FILE, mode=0o755))
NEW = change("n", Kind.ADDED)
GONE = change("o", Kind.DELETED)


def at(state: State, block: int) -> MovedTo:
    """Return the way to a block."""
    return MovedTo(state.diff.document.starts[block])


def part(state: State) -> tuple[list[int], list[int], list[int], bool]:
    """Return the chosen blocks and lines of the one change that is chosen in part."""
    (choice,) = state.selection.choices.values()
    return sorted(choice.blocks), sorted(choice.old), sorted(choice.new), choice.mode


def test_enter_puts_the_cursor_on_the_first_block_and_space_takes_it() -> None:
    state = after(on(EDIT), Toggled())
    assert part(state) == ([0], [], [], True)
    assert (state.chosen.blocks, state.chosen.lines) == (1, 2)
    assert after(state, Toggled()).selection == NOTHING


def test_enter_takes_a_block_and_goes_on_to_the_next_and_then_to_the_next_change() -> None:
    state = after(on(EDIT), Entered(), Entered())
    assert part(state)[0] == [0, 1]
    last = after(state, Entered())
    assert (last.selection.choices, names(last)) == ({}, {"f"})
    assert last.change == change("z")


def test_every_block_by_itself_is_the_whole() -> None:
    state = on(EDIT)
    for block in (2, 0, 1):
        state = after(state, at(state, block), Toggled())
    assert (names(state), state.selection.choices) == ({"f"}, {})


def test_lines_can_be_taken_one_by_one() -> None:
    state = on(EDIT)
    state = after(state, Switched(Switch.LINES), at(state, 1), Toggled(), Moved(2), Toggled())
    assert part(state) == ([], [20], [20], True)
    assert (state.chosen.blocks, state.chosen.lines) == (1, 2)


def test_a_range_takes_its_lines_and_is_over_then() -> None:
    state = on(EDIT)
    state = after(state, at(state, 1), Moved(1, is_range=True), Toggled())
    assert part(state) == ([], [20, 21], [], True)
    assert state.diff.anchor == -1
    assert after(state, Switched(Switch.RANGE), Moved(1), Escaped()).diff.anchor == -1


def test_side_by_side_a_row_is_taken_with_both_its_sides() -> None:
    state = on(EDIT, is_split=True)
    state = after(state, Switched(Switch.LINES), at(state, 1), Toggled())
    assert part(state) == ([], [20], [20], True)


def test_a_row_without_anything_to_choose_says_so() -> None:
    state = after(on(EDIT), MovedTo(0), Toggled())
    assert (state.selection, state.word.startswith("nothing to choose on this row")) == (NOTHING, True)


def test_the_mode_is_a_row_of_its_own() -> None:
    state = on(SCRIPT)
    mode = next(number for number, one in enumerate(state.diff.document.rows) if one.part)
    only_mode = after(state, MovedTo(mode), Toggled())
    assert part(only_mode) == ([], [], [], True)
    lines = after(state, at(state, 0), Toggled())
    assert part(lines) == ([0], [], [], False)
    both = after(lines, MovedTo(mode), Toggled())
    assert part(both) == ([0], [], [], True)


def test_lines_of_a_new_file_create_it_with_a_word() -> None:
    state = on(NEW, None, b"a\nb\n")
    state = after(state, Switched(Switch.LINES), at(state, 0), Toggled())
    assert (part(state), state.word) == (([], [], [0], True), "the file is created with these lines")
    assert after(state, Toggled()).selection == NOTHING


def test_a_deletion_of_which_a_line_is_left_is_an_edit_with_a_word() -> None:
    state = on(GONE, b"a\nb\n", None)
    state = after(state, Switched(Switch.LINES), at(state, 0), Toggled())
    assert (part(state), state.word) == (([], [0], [], True), "the file stays, without these lines")
    assert state.chosen.deletions == 0
    whole = after(state, Moved(1), Toggled())
    assert (whole.selection.choices, whole.chosen.deletions) == ({}, 1)


def test_space_in_the_list_makes_a_part_the_whole() -> None:
    state = after(on(EDIT), Toggled(), PaneSwapped(), Toggled())
    assert (names(state), state.selection.choices, state.parts) == ({"f"}, {}, {})
    assert state.chosen.blocks == 3


def test_choices_are_taken_back_one_by_one_and_made_again() -> None:
    first = after(on(EDIT), Toggled())
    second = after(first, PaneSwapped(), AllToggled())
    back = after(second, Undone())
    assert (back.selection, back.chosen, back.parts) == (first.selection, first.chosen, first.parts)
    assert after(back, Undone()).selection == NOTHING
    again = after(back, Undone(), Redone(), Redone())
    assert (again.selection, again.chosen) == (second.selection, second.chosen)


def test_all_of_a_kind_is_taken_and_left() -> None:
    some = changes(change("a", Kind.ADDED), change("b", Kind.ADDED), change("c"), change("d", Kind.ADDED, risks=RISK))
    state = begin(some)[0]
    state = after(state, MovedTo(row(state, "a")), KindToggled())
    assert names(state) == {"a", "b"}
    assert after(state, KindToggled()).selection == NOTHING


def test_nothing_is_one_key_and_can_be_taken_back() -> None:
    state = after(shop(), AllToggled(), NothingChosen())
    assert state.selection == NOTHING
    assert after(state, Undone()).selection == all_of(SHOP)
