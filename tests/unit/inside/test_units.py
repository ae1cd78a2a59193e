"""Durations and sizes: one grammar for configuration, options and the commands in the sandbox."""

import pytest

from agent_dev.inside.units import parse_count, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), ("1d", 86400), ("20ms", 0.02), ("1000000000", 1e9)],
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("4K", 4096), ("1.5M", 3 << 19), ("4G", 4 << 30), ("2T", 2 << 40)])
def test_a_size_is_a_number_with_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "s", "-1s", "1e9", "nan", "inf", "1.5.0", "1 s", "5mm", "0", "1e12", "9" * 30, "٤"])
def test_anything_else_is_zero(text: str) -> None:
    assert (parse_duration(text), parse_size(text), parse_count(text)) == (0, 0, 0)
