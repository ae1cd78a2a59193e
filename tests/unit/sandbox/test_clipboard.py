"""OSC 52: an agent never reads the clipboard of the user's terminal, and writes to it only if it may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.sandbox.terminal.clipboard import ClipboardFilter

READS = [
    b"\x1b]52;c;?\a",
    b"\x1b]52;c;?\x1b\\",
    b"\x1b]52;;?\a",
    b"\x1b]052;c;?\a",
    b"\x1b\x01]5\x002;c;\x02?\a",
    b"\x1b]52;c;aGk=?\a",
    b"\xc2\x9d52;p;?\a",
    b"\x1b]52;c;?\x18",
    b"\x1b]4294967348;c;?\a",  # 52 in 32 bits
    b"\x1b\x1b]52;c;?\a",  # a sequence for the terminal outside of tmux has its ESC twice
]
WRITES = [b"\x1b]52;c;aGVsbG8=\a", b"\x1b]52;p;aGk=\x1b\\", b"\x1b]1337;Copy=:aGk=\a", b"\x1b]1337;CopyToClipboard=find\a"]
OTHERS = [
    b"\x1b]0;title\a",
    b"\x1b]8;;http://x?y\x1b\\link\x1b]8;;\x1b\\",
    b"\x1b[38;5;52mred\x1b[0m",
    b"\x1b]520;?\a",
    b"\x1b]1337;SetMark\a",
    "“quoted” ©é\u009e".encode(),
    b"\x1bPq#0\x1b\\",
    b"a\x1bb",
]


def passed(data: bytes, *, may_write: bool = True, size: int = 0) -> bytes:
    """Return what of the output is passed on, given in chunks of a size (0: whole)."""
    one = ClipboardFilter(may_write=may_write)
    return b"".join(one.filter(data[place : place + (size or len(data))]) for place in range(0, len(data), size or len(data)))


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("query", READS)
def test_the_clipboard_is_never_read(query: bytes, size: int) -> None:
    found = passed(b"before" + query + b"after", size=size)
    assert b"52;" not in found
    assert b"48;" not in found
    assert b"?" not in found
    assert found.startswith(b"before")
    assert found.endswith(b"after")


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("copy", WRITES)
def test_the_clipboard_is_written_only_if_that_is_allowed(copy: bytes, size: int) -> None:
    assert passed(b"a" + copy + b"z", size=size) == b"a" + copy + b"z"
    assert passed(b"a" + copy + b"z", may_write=False, size=size) == b"az"


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("output", OTHERS)
def test_other_output_passes_unchanged(output: bytes, size: int) -> None:
    assert passed(output + b".", may_write=False, size=size) == output + b"."


@given(
    st.lists(st.sampled_from([*READS, *OTHERS, b"\x1b", b"]", b"5", b"2;c;?", b"\xc2", b"\x9d", b"\n", b"text"])),
    st.integers(1, 9),
)
def test_chunks_make_no_difference(parts: list[bytes], size: int) -> None:
    data = b"".join(parts) + b"."
    assert passed(data, size=size) == passed(data)


@given(st.binary(max_size=200))
def test_output_without_an_osc_passes_unchanged(data: bytes) -> None:
    data = data.replace(b"\x1b", b"").replace(b"\xc2", b"") + b"."
    assert passed(data, may_write=False) == data


def test_a_sequence_that_is_too_long_is_dropped_and_not_kept() -> None:
    one = ClipboardFilter(may_write=True)
    assert one.filter(b"\x1b]52;c;") == b""
    for _ in range(40):
        assert one.filter(b"A" * 65536) == b""
        assert len(one._held) <= (1 << 20) + 1
    assert one.filter(b"\aafter") == b"after"
