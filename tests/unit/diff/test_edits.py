"""A text contains an edit if it has every added line and no deleted one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.contains_edit import contains

BEFORE = b"a\nb\nc\n"


@pytest.mark.parametrize(
    ("edited", "text", "is_held"),
    [
        (b"a\nb\nc\nmine\n", b"a\nb\nc\nmine\nagent\n", True),
        (b"a\nb\nc\nmine\n", b"agent\na\nb\nc\nmine\n", True),
        (b"a\nb\nc\nmine\n", b"a\nb\nc\nagent\n", False),
        (b"a\nc\n", b"a\nc\nagent\n", True),
        (b"a\nc\n", b"a\nb\nc\nagent\n", False),
        (b"a\nmine\nc\n", b"a\nmine\nagent\n", True),
        (b"a\nmine\nc\n", b"a\nb\nc\nmine\n", False),
        (b"a\nb\nc\nx\nx\n", b"a\nb\nc\nx\n", False),
        (BEFORE, b"anything\n", True),
        (b"a\nb\nc\nmine", b"a\nb\nc\nmine\n", True),
        (b"\0mine", b"\0mine\0", False),
        (b"\0mine", b"\0mine", True),
    ],
)
def test_a_text_contains_an_edit_if_its_changed_lines_are_in_place(edited: bytes, text: bytes, *, is_held: bool) -> None:
    assert contains(BEFORE, edited, text) == is_held


@given(
    st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"])).map(b"".join), st.lists(st.sampled_from([b"a\n", b"x\n"])).map(b"".join)
)
def test_an_edited_text_contains_its_own_edit(before: bytes, edited: bytes) -> None:
    assert contains(before, edited, edited)
