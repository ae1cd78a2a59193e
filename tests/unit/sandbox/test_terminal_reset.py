"""The sequences that reset a terminal after the agent exited."""

import pytest

from agent_dev.sandbox.terminal.reset import OutputScanner, TerminalState, reset_sequences


def seen(*pieces: bytes) -> OutputScanner:
    output = OutputScanner()
    for piece in pieces:
        output.scan(piece)
    return output


def test_plain_text_needs_no_terminal_reset() -> None:
    assert reset_sequences(seen(b"plain\r\n", "größer\n".encode()), TerminalState()) == b""


@pytest.mark.parametrize("sequence", [b"\x1b[1m", b"\x0e", b"\xc2\x9b?25l"])
def test_an_escape_sequence_causes_a_terminal_reset(sequence: bytes) -> None:
    assert b"\x1b[?1049l" in reset_sequences(seen(b"text" + sequence), TerminalState())


HARMLESS = [b"\x1b]0;title\x07", b"\x1b]8;;http://a/\x1b\\", b"\x1b]133;A\x07", b"\x1b[31m]4;"]
COLOURS = [b"\x1b]4;1;#fff\x07", b"\x1b]11;#000\x07", b"\x1b]004;1;#fff\x07", b"\x1b]P0000000", b"\xc2\x9d4;1;#fff\x07"]


@pytest.mark.parametrize("command", HARMLESS)
def test_colours_of_the_user_stay_unless_changed(command: bytes) -> None:
    assert b"]104" not in reset_sequences(seen(b"text" + command), TerminalState())


@pytest.mark.parametrize("command", COLOURS)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_colours_are_reset_however_the_output_is_split(command: bytes, cut: int) -> None:
    assert b"]104" in reset_sequences(seen(command[:cut], command[cut:]), TerminalState())


def test_a_shrunk_window_gets_its_size_back() -> None:
    output = seen(b"\x1b[8;1;1t")
    assert b"\x1b[8;24;80t" in reset_sequences(output, TerminalState(start_size=(24, 80), current_size=(1, 1)))
    assert b"\x1b[8;" not in reset_sequences(output, TerminalState(start_size=(24, 80), current_size=(50, 132)))
    assert b"\x1b[8;" not in reset_sequences(output, TerminalState(start_size=(1, 10), current_size=(1, 10)))


def test_the_character_set_is_reset_to_utf_8_only_where_it_was() -> None:
    assert b"\x1b%G" in reset_sequences(seen(b"\x1b"), TerminalState(is_utf8=True))
    assert b"\x1b%G" not in reset_sequences(seen(b"\x1b"), TerminalState(is_utf8=False))
