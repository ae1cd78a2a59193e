"""Equal lines at both ends of two texts are found as if by comparing lists of lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.equal_ends import equal_ends
from agent_dev.diff.hunks import find_hunks, split_lines
from agent_dev.merge.assess import ChangeSize, measure_change
from agent_dev.overlay.changes import Change
from tests.unit.cli.test_output_words import added

PIECES = [b"a\n", b"b\n", b"a", b"\n", b"\r\n", b"ab\n"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
CHANGE: Change = added("x")


def lines_at_both_ends(old: bytes, new: bytes) -> tuple[int, int]:
    """Return the bytes of equal lines at both ends; an unterminated line at the end is one like any other."""
    olds, news = split_lines(old), split_lines(new)
    start = 0
    while start < min(len(olds), len(news)) and olds[start] == news[start] and olds[start].endswith(b"\n"):
        start += 1
    end = 0
    while end < min(len(olds), len(news)) - start and olds[-1 - end] == news[-1 - end]:
        end += 1
    return sum(map(len, news[:start])), sum(map(len, news[len(news) - end :]))


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_equal_ends_are_those_of_the_lists_of_lines(start: bytes, old: bytes, new: bytes, end: bytes) -> None:
    before, after = start + old + end, start + new + end
    assert equal_ends(before, after) == lines_at_both_ends(before, after)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_counted_lines_are_those_of_the_hunks(start: bytes, old: bytes, new: bytes, end: bytes) -> None:
    before, after = start + old + end, start + new + end
    found = find_hunks(before, after)
    wanted = ChangeSize(len(found), sum(one.new_lines for one in found), sum(one.old_lines for one in found))
    assert measure_change(CHANGE, before, after) == wanted


def test_lines_that_were_only_added_are_counted_without_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"line\n" * 1000
    monkeypatch.setattr("agent_dev.diff.hunks.find_hunks", lambda *_: pytest.fail("compared"))
    assert measure_change(CHANGE, text, text + b"more\n") == ChangeSize(1, 1, 0)
    assert measure_change(CHANGE, text, text[: len(text) // 2]) == ChangeSize(1, 0, 500)
