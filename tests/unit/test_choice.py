"""Part of a change: none, all, some and then the rest; the order of lines, and lines that have no end."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff import hunks as blocks_module
from agent_dev.diff import partial as module
from agent_dev.diff.hunks import blocks, lines
from agent_dev.diff.partial import (
    NOTHING,
    Choice,
    Side,
    State,
    WrongChoice,
    apply,
    everything,
    is_chosen,
    state,
    toggle_block,
    toggle_line,
    with_lines,
)

PIECES = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\r", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8\n", b"\xff\n", b"\0", b"x"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join) | st.binary(max_size=30)
OLD, NEW = Side.OLD, Side.NEW
NONE, SOME, ALL = State.NONE, State.SOME, State.ALL


def changed(before: bytes, after: bytes) -> list[tuple[Side, int]]:
    """Every line that can be chosen."""
    found = blocks(before, after)
    old = [(OLD, number) for block in found for number in range(block.old_start, block.old_end)]
    return old + [(NEW, number) for block in found for number in range(block.new_start, block.new_end)]


def of_lines(some: list[tuple[Side, int]]) -> Choice:
    return Choice(old=frozenset(n for side, n in some if side is OLD), new=frozenset(n for side, n in some if side is NEW))


@st.composite
def parts(draw: st.DrawFn) -> tuple[bytes, bytes, Choice]:
    """Draw a change and a choice of some of its blocks and lines."""
    before, after = draw(TEXTS), draw(TEXTS)
    found = blocks(before, after)
    whole = frozenset(index for index in range(len(found)) if draw(st.booleans()))
    some = of_lines([one for one in changed(before, after) if draw(st.booleans())])
    return before, after, Choice(whole, some.old, some.new)


@given(TEXTS, TEXTS)
def test_nothing_chosen_is_the_text_before(before: bytes, after: bytes) -> None:
    assert apply(before, after, NOTHING) == before


@given(TEXTS, TEXTS)
def test_every_block_chosen_is_the_text_after(before: bytes, after: bytes) -> None:
    assert apply(before, after, everything(blocks(before, after))) == after


@given(TEXTS, TEXTS)
def test_every_line_chosen_is_the_text_after(before: bytes, after: bytes) -> None:
    assert apply(before, after, of_lines(changed(before, after))) == after


@given(parts())
def test_some_and_then_the_rest_is_the_text_after(part: tuple[bytes, bytes, Choice]) -> None:
    before, after, choice = part
    middle = apply(before, after, choice)
    assert apply(middle, after, everything(blocks(middle, after))) == after


@given(parts())
def test_a_whole_block_is_all_its_lines(part: tuple[bytes, bytes, Choice]) -> None:
    before, after, choice = part
    found = blocks(before, after)
    alone = of_lines([one for one in changed(before, after) if is_chosen(choice, found, *one)])
    assert apply(before, after, choice) == apply(before, after, alone)


def body(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")


@given(parts())
def test_the_lines_that_are_left_are_the_old_in_order_and_the_new_in_order(part: tuple[bytes, bytes, Choice]) -> None:
    before, after, choice = part
    found = blocks(before, after)
    goes = {n for side, n in changed(before, after) if side is OLD and is_chosen(choice, found, OLD, n)}
    comes = [n for side, n in changed(before, after) if side is NEW and is_chosen(choice, found, NEW, n)]
    got = [body(line) for line in lines(apply(before, after, choice))]
    kept = [body(line) for n, line in enumerate(lines(before)) if n not in goes]
    new = [body(lines(after)[n]) for n in comes]
    assert len(got) == len(kept) + len(new)
    assert is_within(kept, got)
    assert is_within(new, got)


def is_within(some: list[bytes], whole: list[bytes]) -> bool:
    rest = iter(whole)
    return all(line in rest for line in some)


@given(parts())
def test_a_choice_of_lines_that_is_a_block_is_held_as_the_block(part: tuple[bytes, bytes, Choice]) -> None:
    before, after, choice = part
    found = blocks(before, after)
    assert with_lines(NOTHING, found, *of_sides(changed(before, after))) == everything(found)
    short = with_lines(Choice(choice.blocks), found, choice.old, choice.new)
    assert apply(before, after, short) == apply(before, after, choice)
    assert all((state(short, found, index) is ALL) == (index in short.blocks) for index in range(len(found)))


def of_sides(some: list[tuple[Side, int]]) -> tuple[frozenset[int], frozenset[int]]:
    return of_lines(some).old, of_lines(some).new


@given(parts(), st.data())
def test_a_line_toggled_twice_is_as_it_was(part: tuple[bytes, bytes, Choice], data: st.DataObject) -> None:
    before, after, choice = part
    found = blocks(before, after)
    if found:
        side, number = data.draw(st.sampled_from(changed(before, after)))
        once = toggle_line(choice, found, side, number)
        assert is_chosen(once, found, side, number) != is_chosen(choice, found, side, number)
        others = [one for one in changed(before, after) if one != (side, number)]
        assert [is_chosen(once, found, *one) for one in others] == [is_chosen(choice, found, *one) for one in others]
        assert apply(before, after, toggle_line(once, found, side, number)) == apply(before, after, choice)


# --- one small change, by hand ---

BEFORE, AFTER = b"top\no1\no2\nend\nlast\n", b"top\nn1\nn2\nn3\nend\nLAST\n"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(frozenset((0,))), b"top\nn1\nn2\nn3\nend\nlast\n"),
        (Choice(frozenset((1,))), b"top\no1\no2\nend\nLAST\n"),
        (Choice(old=frozenset((1,)), new=frozenset((1,))), b"top\nn1\no2\nend\nlast\n"),  # n1 in the place of o1
        (Choice(old=frozenset((2,)), new=frozenset((2,))), b"top\no1\nn2\nend\nlast\n"),  # n2 in the place of o2
        (Choice(new=frozenset((1, 2, 3))), b"top\no1\nn1\no2\nn2\nn3\nend\nlast\n"),
        (Choice(old=frozenset((1, 2))), b"top\nend\nlast\n"),
        (Choice(frozenset((1,)), old=frozenset((2,))), b"top\no1\nend\nLAST\n"),
    ],
)
def test_part_of_a_replacement_keeps_the_order(choice: Choice, expected: bytes) -> None:
    assert apply(BEFORE, AFTER, choice) == expected


@pytest.mark.parametrize(
    ("before", "after", "choice", "expected"),
    [
        (b"a", b"a\nb\n", Choice(new=frozenset((1,))), b"a\nb\n"),
        (b"a", b"a\nb", Choice(new=frozenset((1,))), b"a\nb"),
        (b"a\nb\n", b"x", Choice(new=frozenset((0,))), b"a\nx\nb\n"),  # a chosen line without an end before a kept one
        (b"a\r\nb\r\n", b"x", Choice(new=frozenset((0,))), b"a\r\nx\r\nb\r\n"),
        (b"a\nb", b"a\nc\nd", Choice(new=frozenset((2,))), b"a\nb\nd"),
        (b"a\nb\n", b"a\nb", Choice(frozenset((0,))), b"a\nb"),
        (b"a\n", b"", Choice(old=frozenset((0,))), b""),
        (b"", b"\0\xff", Choice(new=frozenset((0,))), b"\0\xff"),
    ],
)
def test_no_line_grows_together_with_the_next(before: bytes, after: bytes, choice: Choice, expected: bytes) -> None:
    assert apply(before, after, choice) == expected


def test_blocks_of_a_small_file_can_be_chosen_in_every_way() -> None:
    before, after = b"a\n-\nb\n-\nc\n", b"A\n-\nB\n-\nC\n"
    for picks in product((False, True), repeat=3):
        choice = Choice(frozenset(index for index, is_picked in enumerate(picks) if is_picked))
        letters = [one.upper() if is_picked else one for one, is_picked in zip((b"a\n", b"b\n", b"c\n"), picks, strict=True)]
        assert apply(before, after, choice) == b"-\n".join(letters)


def test_huge_lines_are_lines() -> None:
    huge = b"x" * 3_000_000
    assert apply(huge + b"\nb\n", huge + b"y\nB\nc\n", Choice(new=frozenset((2,)))) == huge + b"\nb\nc\n"


@pytest.mark.parametrize(
    ("choice", "states"),
    [
        (NOTHING, (NONE, NONE)),
        (Choice(frozenset((0,))), (ALL, NONE)),
        (Choice(old=frozenset((1,))), (SOME, NONE)),
        (Choice(new=frozenset((5,))), (NONE, SOME)),
        (Choice(old=frozenset((4,)), new=frozenset((5,))), (NONE, ALL)),
    ],
)
def test_a_block_is_chosen_not_in_part_or_whole(choice: Choice, states: tuple[State, State]) -> None:
    found = blocks(BEFORE, AFTER)
    assert tuple(state(choice, found, index) for index in range(2)) == states


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (NOTHING, Choice(frozenset((0,)))),
        (Choice(old=frozenset((1,)), new=frozenset((5,))), Choice(frozenset((0,)), new=frozenset((5,)))),
        (Choice(frozenset((0, 1))), Choice(frozenset((1,)))),
        (Choice(old=frozenset((1, 2)), new=frozenset((1, 2, 3))), NOTHING),
    ],
)
def test_toggling_a_block_takes_it_whole_or_leaves_it(choice: Choice, expected: Choice) -> None:
    assert toggle_block(choice, blocks(BEFORE, AFTER), 0) == expected


def test_toggling_a_line_of_a_whole_block_leaves_the_others_chosen() -> None:
    found = blocks(BEFORE, AFTER)
    assert toggle_line(Choice(frozenset((0,))), found, OLD, 2) == Choice(old=frozenset((1,)), new=frozenset((1, 2, 3)))


def test_lines_of_a_whole_block_chosen_once_more_change_nothing() -> None:
    assert with_lines(Choice(frozenset((0,))), blocks(BEFORE, AFTER), frozenset((1,)), frozenset()) == Choice(frozenset((0,)))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(frozenset((2,))), "there is no block 3, only 2"),
        (Choice(frozenset((-1,))), "there is no block 0, only 2"),
        (Choice(old=frozenset((0,))), "old line 1 is not changed"),
        (Choice(new=frozenset((6,))), "new line 7 is not changed"),
        (Choice(old=frozenset((99,))), "old line 100 is not changed"),
        (Choice(old=frozenset((-1,))), "old line 0 is not changed"),
    ],
)
def test_a_choice_of_what_is_not_there_is_refused(choice: Choice, message: str) -> None:
    with pytest.raises(WrongChoice, match=message):
        apply(BEFORE, AFTER, choice)


def test_past_the_limit_a_file_is_one_choice_without_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "LARGEST", 8)
    found = blocks(BEFORE, AFTER)
    assert len(found) == 1
    assert apply(BEFORE, AFTER, NOTHING) == BEFORE
    assert apply(BEFORE, AFTER, everything(found)) == AFTER
    with pytest.raises(WrongChoice, match="too large"):
        apply(BEFORE, AFTER, module.Choice(old=frozenset((1,))))
