"""Whether a text holds what somebody edited: every line that came, and none that went."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.contains_edit import holds

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
def test_an_edit_is_held_where_its_lines_are(edited: bytes, text: bytes, *, is_held: bool) -> None:
    assert holds(BEFORE, edited, text) == is_held


@given(
    st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"])).map(b"".join), st.lists(st.sampled_from([b"a\n", b"x\n"])).map(b"".join)
)
def test_what_was_edited_holds_the_edit(before: bytes, edited: bytes) -> None:
    assert holds(before, edited, edited)
