"""Partial selections of a change: none, all, some and then the rest; the order of lines, and missing final newlines."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff import hunks as blocks_module
from agent_dev.diff import partial_selection as module
from agent_dev.diff.hunks import find_hunks, split_lines
from agent_dev.diff.partial_selection import (
    NOTHING_SELECTED,
    DiffSide,
    InvalidSelection,
    LineSelection,
    SelectionState,
    apply_selection,
    is_line_selected,
    select_all,
    select_lines,
    selection_state,
    toggle_hunk,
    toggle_line,
)

PIECES = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\r", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8\n", b"\xff\n", b"\0", b"x"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join) | st.binary(max_size=30)
OLD, NEW = DiffSide.OLD, DiffSide.NEW
NONE, SOME, ALL = SelectionState.NONE, SelectionState.SOME, SelectionState.ALL


def changed(before: bytes, after: bytes) -> list[tuple[DiffSide, int]]:
    """Return every selectable line."""
    found = find_hunks(before, after)
    old = [(OLD, number) for block in found for number in range(block.old_start, block.old_end)]
    return old + [(NEW, number) for block in found for number in range(block.new_start, block.new_end)]


def of_lines(some: list[tuple[DiffSide, int]]) -> LineSelection:
    return LineSelection(
        old_lines=frozenset(n for side, n in some if side is OLD), new_lines=frozenset(n for side, n in some if side is NEW)
    )


@st.composite
def parts(draw: st.DrawFn) -> tuple[bytes, bytes, LineSelection]:
    """Draw a change and a selection of some of its hunks and lines."""
    before, after = draw(TEXTS), draw(TEXTS)
    found = find_hunks(before, after)
    whole = frozenset(index for index in range(len(found)) if draw(st.booleans()))
    some = of_lines([one for one in changed(before, after) if draw(st.booleans())])
    return before, after, LineSelection(whole, some.old_lines, some.new_lines)


@given(TEXTS, TEXTS)
def test_an_empty_selection_gives_the_text_before(before: bytes, after: bytes) -> None:
    assert apply_selection(before, after, NOTHING_SELECTED) == before


@given(TEXTS, TEXTS)
def test_selecting_every_hunk_gives_the_text_after(before: bytes, after: bytes) -> None:
    assert apply_selection(before, after, select_all(find_hunks(before, after))) == after


@given(TEXTS, TEXTS)
def test_selecting_every_line_gives_the_text_after(before: bytes, after: bytes) -> None:
    assert apply_selection(before, after, of_lines(changed(before, after))) == after


@given(parts())
def test_selecting_some_and_then_the_rest_gives_the_text_after(part: tuple[bytes, bytes, LineSelection]) -> None:
    before, after, choice = part
    middle = apply_selection(before, after, choice)
    assert apply_selection(middle, after, select_all(find_hunks(middle, after))) == after


@given(parts())
def test_a_selected_hunk_equals_all_its_selected_lines(part: tuple[bytes, bytes, LineSelection]) -> None:
    before, after, choice = part
    found = find_hunks(before, after)
    alone = of_lines([one for one in changed(before, after) if is_line_selected(choice, found, *one)])
    assert apply_selection(before, after, choice) == apply_selection(before, after, alone)


def body(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")


@given(parts())
def test_unselected_lines_keep_the_old_and_new_order(part: tuple[bytes, bytes, LineSelection]) -> None:
    before, after, choice = part
    found = find_hunks(before, after)
    goes = {n for side, n in changed(before, after) if side is OLD and is_line_selected(choice, found, OLD, n)}
    comes = [n for side, n in changed(before, after) if side is NEW and is_line_selected(choice, found, NEW, n)]
    got = [body(line) for line in split_lines(apply_selection(before, after, choice))]
    kept = [body(line) for n, line in enumerate(split_lines(before)) if n not in goes]
    new = [body(split_lines(after)[n]) for n in comes]
    assert len(got) == len(kept) + len(new)
    assert is_within(kept, got)
    assert is_within(new, got)


def is_within(some: list[bytes], whole: list[bytes]) -> bool:
    rest = iter(whole)
    return all(line in rest for line in some)


@given(parts())
def test_selecting_all_lines_of_a_hunk_selects_the_hunk(part: tuple[bytes, bytes, LineSelection]) -> None:
    before, after, choice = part
    found = find_hunks(before, after)
    assert select_lines(NOTHING_SELECTED, found, *of_sides(changed(before, after))) == select_all(found)
    short = select_lines(LineSelection(choice.hunks), found, choice.old_lines, choice.new_lines)
    assert apply_selection(before, after, short) == apply_selection(before, after, choice)
    assert all((selection_state(short, found, index) is ALL) == (index in short.hunks) for index in range(len(found)))


def of_sides(some: list[tuple[DiffSide, int]]) -> tuple[frozenset[int], frozenset[int]]:
    return of_lines(some).old_lines, of_lines(some).new_lines


@given(parts(), st.data())
def test_toggling_a_line_twice_changes_nothing(part: tuple[bytes, bytes, LineSelection], data: st.DataObject) -> None:
    before, after, choice = part
    found = find_hunks(before, after)
    if found:
        side, number = data.draw(st.sampled_from(changed(before, after)))
        once = toggle_line(choice, found, side, number)
        assert is_line_selected(once, found, side, number) != is_line_selected(choice, found, side, number)
        others = [one for one in changed(before, after) if one != (side, number)]
        assert [is_line_selected(once, found, *one) for one in others] == [
            is_line_selected(choice, found, *one) for one in others
        ]
        assert apply_selection(before, after, toggle_line(once, found, side, number)) == apply_selection(before, after, choice)


# --- examples of a small change ---

BEFORE, AFTER = b"top\no1\no2\nend\nlast\n", b"top\nn1\nn2\nn3\nend\nLAST\n"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (LineSelection(frozenset((0,))), b"top\nn1\nn2\nn3\nend\nlast\n"),
        (LineSelection(frozenset((1,))), b"top\no1\no2\nend\nLAST\n"),
        (
            LineSelection(old_lines=frozenset((1,)), new_lines=frozenset((1,))),
            b"top\nn1\no2\nend\nlast\n",
        ),  # n1 replaces o1
        (
            LineSelection(old_lines=frozenset((2,)), new_lines=frozenset((2,))),
            b"top\no1\nn2\nend\nlast\n",
        ),  # n2 replaces o2
        (LineSelection(new_lines=frozenset((1, 2, 3))), b"top\no1\nn1\no2\nn2\nn3\nend\nlast\n"),
        (LineSelection(old_lines=frozenset((1, 2))), b"top\nend\nlast\n"),
        (LineSelection(frozenset((1,)), old_lines=frozenset((2,))), b"top\no1\nend\nLAST\n"),
    ],
)
def test_a_partial_replacement_keeps_the_order(choice: LineSelection, expected: bytes) -> None:
    assert apply_selection(BEFORE, AFTER, choice) == expected


@pytest.mark.parametrize(
    ("before", "after", "choice", "expected"),
    [
        (b"a", b"a\nb\n", LineSelection(new_lines=frozenset((1,))), b"a\nb\n"),
        (b"a", b"a\nb", LineSelection(new_lines=frozenset((1,))), b"a\nb"),
        (
            b"a\nb\n",
            b"x",
            LineSelection(new_lines=frozenset((0,))),
            b"a\nx\nb\n",
        ),  # a selected line without a final newline before an unchanged one
        (b"a\r\nb\r\n", b"x", LineSelection(new_lines=frozenset((0,))), b"a\r\nx\r\nb\r\n"),
        (b"a\nb", b"a\nc\nd", LineSelection(new_lines=frozenset((2,))), b"a\nb\nd"),
        (b"a\nb\n", b"a\nb", LineSelection(frozenset((0,))), b"a\nb"),
        (b"a\n", b"", LineSelection(old_lines=frozenset((0,))), b""),
        (b"", b"\0\xff", LineSelection(new_lines=frozenset((0,))), b"\0\xff"),
    ],
)
def test_no_line_is_joined_with_the_next(before: bytes, after: bytes, choice: LineSelection, expected: bytes) -> None:
    assert apply_selection(before, after, choice) == expected


def test_the_hunks_of_a_small_file_can_be_selected_in_every_combination() -> None:
    before, after = b"a\n-\nb\n-\nc\n", b"A\n-\nB\n-\nC\n"
    for picks in product((False, True), repeat=3):
        choice = LineSelection(frozenset(index for index, is_picked in enumerate(picks) if is_picked))
        letters = [one.upper() if is_picked else one for one, is_picked in zip((b"a\n", b"b\n", b"c\n"), picks, strict=True)]
        assert apply_selection(before, after, choice) == b"-\n".join(letters)


def test_huge_lines_are_split_like_others() -> None:
    huge = b"x" * 3_000_000
    assert apply_selection(huge + b"\nb\n", huge + b"y\nB\nc\n", LineSelection(new_lines=frozenset((2,)))) == huge + b"\nb\nc\n"


@pytest.mark.parametrize(
    ("choice", "states"),
    [
        (NOTHING_SELECTED, (NONE, NONE)),
        (LineSelection(frozenset((0,))), (ALL, NONE)),
        (LineSelection(old_lines=frozenset((1,))), (SOME, NONE)),
        (LineSelection(new_lines=frozenset((5,))), (NONE, SOME)),
        (LineSelection(old_lines=frozenset((4,)), new_lines=frozenset((5,))), (NONE, ALL)),
    ],
)
def test_a_hunk_is_unselected_partly_or_fully_selected(
    choice: LineSelection, states: tuple[SelectionState, SelectionState]
) -> None:
    found = find_hunks(BEFORE, AFTER)
    assert tuple(selection_state(choice, found, index) for index in range(2)) == states


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (NOTHING_SELECTED, LineSelection(frozenset((0,)))),
        (
            LineSelection(old_lines=frozenset((1,)), new_lines=frozenset((5,))),
            LineSelection(frozenset((0,)), new_lines=frozenset((5,))),
        ),
        (LineSelection(frozenset((0, 1))), LineSelection(frozenset((1,)))),
        (LineSelection(old_lines=frozenset((1, 2)), new_lines=frozenset((1, 2, 3))), NOTHING_SELECTED),
    ],
)
def test_toggling_a_hunk_selects_or_deselects_it_whole(choice: LineSelection, expected: LineSelection) -> None:
    assert toggle_hunk(choice, find_hunks(BEFORE, AFTER), 0) == expected


def test_toggling_a_line_of_a_selected_hunk_keeps_the_others_selected() -> None:
    found = find_hunks(BEFORE, AFTER)
    assert toggle_line(LineSelection(frozenset((0,))), found, OLD, 2) == LineSelection(
        old_lines=frozenset((1,)), new_lines=frozenset((1, 2, 3))
    )


def test_selecting_lines_of_a_selected_hunk_changes_nothing() -> None:
    assert select_lines(LineSelection(frozenset((0,))), find_hunks(BEFORE, AFTER), frozenset((1,)), frozenset()) == LineSelection(
        frozenset((0,))
    )


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (LineSelection(frozenset((2,))), "there is no hunk 3, only 2"),
        (LineSelection(frozenset((-1,))), "there is no hunk 0, only 2"),
        (LineSelection(old_lines=frozenset((0,))), "old line 1 is not changed"),
        (LineSelection(new_lines=frozenset((6,))), "new line 7 is not changed"),
        (LineSelection(old_lines=frozenset((99,))), "old line 100 is not changed"),
        (LineSelection(old_lines=frozenset((-1,))), "old line 0 is not changed"),
    ],
)
def test_selecting_unknown_lines_is_refused(choice: LineSelection, message: str) -> None:
    with pytest.raises(InvalidSelection, match=message):
        apply_selection(BEFORE, AFTER, choice)


def test_past_the_limit_a_file_is_selected_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "MAX_DIFF_SIZE", 8)
    found = find_hunks(BEFORE, AFTER)
    assert len(found) == 1
    assert apply_selection(BEFORE, AFTER, NOTHING_SELECTED) == BEFORE
    assert apply_selection(BEFORE, AFTER, select_all(found)) == AFTER
    with pytest.raises(InvalidSelection, match="too large"):
        apply_selection(BEFORE, AFTER, module.LineSelection(old_lines=frozenset((1,))))
