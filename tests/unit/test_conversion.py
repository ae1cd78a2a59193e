"""From a blob back to the disk: only where no other bytes are possible."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.git.conversion import on_disk

TEXTS = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\0"]), max_size=12).map(b"".join)


def into_git(data: bytes) -> bytes:
    """What git keeps of a file whose line ends it converts."""
    return data.replace(b"\r\n", b"\n")


def out_of_git(blob: bytes) -> bytes:
    """What git writes where lines end in CRLF."""
    return re.sub(rb"(?<!\r)\n", b"\r\n", blob)


@given(TEXTS)
def test_what_was_added_is_told_rightly_or_not_at_all(data: bytes) -> None:
    assert on_disk(into_git(data), len(data)) in (data, None)


@given(TEXTS)
def test_what_was_checked_out_is_told_rightly_or_not_at_all(blob: bytes) -> None:
    assert on_disk(blob, len(out_of_git(blob))) in (out_of_git(blob), None)


@given(TEXTS)
def test_what_was_not_converted_is_told(data: bytes) -> None:
    assert on_disk(data, len(data)) == data


@pytest.mark.parametrize("data", [b"a\r\nb\r\n", b"a\r\nb", b"\r\n", b""])
def test_a_file_of_crlf_alone_is_told(data: bytes) -> None:
    assert on_disk(into_git(data), len(data)) == data


@pytest.mark.parametrize("data", [b"a\r\nb\n", b"\n\r\n", b"a\r\r\nb\r\n"])
def test_a_file_of_mixed_line_ends_is_not_told(data: bytes) -> None:
    assert on_disk(into_git(data), len(data)) is None
