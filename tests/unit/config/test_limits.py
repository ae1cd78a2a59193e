"""Limits: parsing of their values, errors, and display."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.config.limits import NAMES, format_limit, parse_limit


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("memory", "4G", 4 << 30),
        ("tmp", "512M", 512 << 20),
        ("memory", "1.5G", 3 << 29),
        ("time", "1.5m", 90),
        ("file-size", "1", 1),
        ("file-size", "3K", 3072),
        ("processes", "200", 200),
        ("time", "90", 90),
        ("time", "15m", 900),
        ("time", "2h", 7200),
        ("free-disk", "0", 0),
    ],
)
def test_a_value_is_a_number_with_a_unit(name: str, text: str, value: int) -> None:
    assert parse_limit(name, text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("memory", text) for text in ("", "4g", "G", "-1", "1e9", "1.5.0G", "1K", "\N{ARABIC-INDIC DIGIT FOUR}")),
        *(("processes", "2K"), ("processes", "0"), ("time", "3G"), ("time", "0"), ("tmp", "9" * 30)),
    ],
)
def test_invalid_values_are_refused_with_an_example_or_the_minimum(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"such as|at least"):
        parse_limit(name, text)


@given(st.sampled_from(NAMES), st.integers(16 << 20, 10**9))
def test_a_displayed_value_can_be_parsed_again(name: str, value: int) -> None:
    assert parse_limit(name, format_limit(name, value)) == value
