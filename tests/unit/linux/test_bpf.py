"""The building blocks of seccomp filters, run by an interpreter: alone, nested and one after the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.linux import bpf
from tests.harness.bpf import ALLOW, parse, run

YES, NO = bpf.return_verdict(bpf.errno_verdict(1)), bpf.return_verdict(bpf.ALLOW)
WORD = st.integers(0, 2**32 - 1)
WORDS = st.lists(WORD, min_size=1, max_size=8).map(tuple)
PADDING = st.integers(0, 20).map(lambda length: bpf.load(0) * length)


def is_met(piece: bytes, number: int, *arguments: int) -> bool:
    """Return whether `piece`, whose body refuses the call, matches; a verdict that allows the call follows it."""
    return run(bpf.load(bpf.NUMBER) + piece + NO, "x86_64", number, *arguments) != ALLOW


@given(WORDS, WORD, PADDING)
def test_if_one_of_matches_a_listed_value(values: tuple[int, ...], number: int, padding: bytes) -> None:
    piece = bpf.if_one_of(values, padding + YES)

    assert is_met(piece, number) == (number in values)
    assert all(is_met(piece, value) for value in values)


@given(WORDS, WORD, PADDING)
def test_if_none_of_matches_an_unlisted_value(values: tuple[int, ...], number: int, padding: bytes) -> None:
    piece = bpf.if_none_of(values, padding + YES)

    assert is_met(piece, number) == (number not in values)
    assert not any(is_met(piece, value) for value in values)


@given(WORD, WORD)
def test_a_mask_matches_if_any_bit_is_set(mask: int, number: int) -> None:
    assert is_met(bpf.if_some_bit(mask, YES), number) == bool(mask & number)


@given(WORD, WORD)
def test_at_least_matches_a_value_and_all_above_it(value: int, number: int) -> None:
    assert is_met(bpf.if_at_least(value, YES), number) == (number >= value)


@given(WORD, st.integers(0, 31))
def test_a_loaded_value_is_shifted_to_the_right(number: int, bits: int) -> None:
    assert is_met(bpf.shift(bits) + bpf.if_one_of((number >> bits,), YES), number)


@given(st.integers(0, 5), st.integers(0, 2**64 - 1))
def test_only_the_low_half_of_an_argument_counts(index: int, value: int) -> None:
    arguments = [0] * 6
    arguments[index] = value

    assert is_met(bpf.load(bpf.argument_offset(index)) + bpf.if_one_of((value & 0xFFFFFFFF,), YES), 1, *arguments)


@given(WORDS, WORDS, WORD, WORD)
def test_a_nested_filter_block_matches_if_both_do(
    outer: tuple[int, ...], inner: tuple[int, ...], number: int, argument: int
) -> None:
    piece = bpf.if_one_of(outer, bpf.load(bpf.argument_offset(0)) + bpf.if_none_of(inner, YES))

    assert is_met(piece, number, argument) == (number in outer and argument not in inner)


def test_a_block_that_does_not_match_falls_through_to_the_next() -> None:
    piece = bpf.if_one_of((1,), NO) + bpf.if_one_of((2,), YES)

    assert [is_met(piece, number) for number in (1, 2, 3)] == [False, True, False]


def test_a_block_too_long_for_a_jump_is_refused() -> None:
    assert len(parse(bpf.if_one_of((1,), bpf.load(0) * 255))) == 256
    with pytest.raises(ValueError, match="256 instructions"):
        bpf.if_one_of((1,), bpf.load(0) * 256)
