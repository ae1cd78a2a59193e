"""The moments at which the relay may ring the bell."""

import pytest

from agent_dev.sandbox.terminal.bell import OutputEnd

COMPLETE = [
    b"",
    b"text\r\n",
    b"\x1b[31mred",
    b"\x1b[?25l",
    b"\x1b]0;title\x07",
    b"\x1b]0;title\x1b\\",
    b"\x1bP1$r0m\x1b\\",
    b"\x1b_Gf=24;AAAA\x1b\\",
    b"\x1b(B",
    b"\x1b7",
    b"\x1b]0;cancelled\x18",
    "größer “quoted” 😀".encode(),
    b"latin \xe9t\xe9.",
]
INCOMPLETE = [
    b"\x1b",
    b"\x1b[",
    b"\x1b[38;5;1",
    b"\x1b]0;tit",
    "\x1b]0;“title”".encode(),  # the byte 9C in it is no terminator
    b"\x1bP1$r\x07",  # a BEL does not end a device control string
    b"\x1b_G" + b"A" * 10_000,
    b"\x1b(",
    b"caf\xc3",
    "😀".encode()[:3],
]


def end_of(output: bytes, size: int) -> OutputEnd:
    """Return the end of output that arrives in chunks of a size."""
    end, buffer = OutputEnd(), bytearray(b"\x1b]" * 8192)  # the rest of the buffer is old output
    for start in range(0, len(output), size):
        chunk = output[start : start + size]
        buffer[: len(chunk)] = chunk
        end.add(buffer, len(chunk))
    return end


@pytest.mark.parametrize("size", [1, 2, 3, 4096])
@pytest.mark.parametrize("output", COMPLETE)
def test_the_bell_can_ring_after_complete_output(output: bytes, size: int) -> None:
    assert end_of(output, size).can_ring()


@pytest.mark.parametrize("size", [1, 2, 3, 4096])
@pytest.mark.parametrize("output", INCOMPLETE)
def test_the_bell_cannot_ring_within_a_sequence_or_character(output: bytes, size: int) -> None:
    assert not end_of(output, size).can_ring()
    assert not end_of(b"\x1b[31mtext" + output, size).can_ring()


def test_an_open_string_takes_little_memory() -> None:
    end = end_of(b"\x1b]52;c;" + b"A" * 1_000_000, 4096)
    assert len(end._open) < 8192
