"""The pieces of which filters are made, run by an interpreter: each does what its name says, nested or joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.linux import bpf
from tests.harness.bpf import ALLOW, run, steps

YES, NO = bpf.answer(bpf.errno(1)), bpf.answer(bpf.ALLOW)
WORD = st.integers(0, 2**32 - 1)
WORDS = st.lists(WORD, min_size=1, max_size=8).map(tuple)
PADDING = st.integers(0, 20).map(lambda length: bpf.load(0) * length)


def is_met(piece: bytes, number: int, *arguments: int) -> bool:
    """Run `piece`, whose body answers yes, before an answer of no."""
    return run(bpf.load(bpf.NUMBER) + piece + NO, "x86_64", number, *arguments) != ALLOW


@given(WORDS, WORD, PADDING)
def test_one_of_several_values_is_met(values: tuple[int, ...], number: int, padding: bytes) -> None:
    piece = bpf.if_one_of(values, padding + YES)

    assert is_met(piece, number) == (number in values)
    assert all(is_met(piece, value) for value in values)


@given(WORDS, WORD, PADDING)
def test_none_of_several_values_is_met(values: tuple[int, ...], number: int, padding: bytes) -> None:
    piece = bpf.if_none_of(values, padding + YES)

    assert is_met(piece, number) == (number not in values)
    assert not any(is_met(piece, value) for value in values)


@given(WORD, WORD)
def test_some_bit_of_a_mask_is_met(mask: int, number: int) -> None:
    assert is_met(bpf.if_some_bit(mask, YES), number) == bool(mask & number)


@given(WORD, WORD)
def test_a_value_and_all_above_it_are_met(value: int, number: int) -> None:
    assert is_met(bpf.if_at_least(value, YES), number) == (number >= value)


@given(WORD, st.integers(0, 31))
def test_what_was_taken_up_is_shifted_to_the_right(number: int, bits: int) -> None:
    assert is_met(bpf.shift(bits) + bpf.if_one_of((number >> bits,), YES), number)


@given(st.integers(0, 5), st.integers(0, 2**64 - 1))
def test_of_an_argument_the_low_half_alone_counts(index: int, value: int) -> None:
    arguments = [0] * 6
    arguments[index] = value

    assert is_met(bpf.load(bpf.argument(index)) + bpf.if_one_of((value & 0xFFFFFFFF,), YES), 1, *arguments)


@given(WORDS, WORDS, WORD, WORD)
def test_pieces_inside_pieces_are_met_where_both_are(
    outer: tuple[int, ...], inner: tuple[int, ...], number: int, argument: int
) -> None:
    piece = bpf.if_one_of(outer, bpf.load(bpf.argument(0)) + bpf.if_none_of(inner, YES))

    assert is_met(piece, number, argument) == (number in outer and argument not in inner)


def test_what_is_not_met_falls_into_the_next_piece() -> None:
    piece = bpf.if_one_of((1,), NO) + bpf.if_one_of((2,), YES)

    assert [is_met(piece, number) for number in (1, 2, 3)] == [False, True, False]


def test_a_piece_too_long_to_be_jumped_over_is_refused() -> None:
    assert len(steps(bpf.if_one_of((1,), bpf.load(0) * 255))) == 256
    with pytest.raises(ValueError, match="256 instructions"):
        bpf.if_one_of((1,), bpf.load(0) * 256)
