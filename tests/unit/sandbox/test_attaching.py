"""The parts of attaching to a session that are pure: the detach key, the replay of output, the history."""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.config.detach_key import TerminalKey, parse_detach_key
from agent_dev.sandbox.attaching.history import BANK, History, create_memory
from agent_dev.sandbox.attaching.key_input import DetachKey
from agent_dev.sandbox.attaching.output_modes import modes_after
from agent_dev.sandbox.attaching.replay import make_replay, without_queries

CTRL_BACKSLASH = b"\x1c"


def detach_key(text: str = "ctrl-\\ d") -> DetachKey:
    """Return a search for a detach key."""
    return DetachKey(*parse_detach_key(text))


@pytest.mark.parametrize(
    "data",
    [
        b"\x1cd",
        b"\x1b[92;5u\x1b[100u",
        b"\x1b[92;5ud",
        b"\x1b[92;5:1u\x1b[92;5:3u\x1b[57442;1:3u\x1b[100;1:1u",
        b"\x1b[92;69u\x1b[100;65u",  # with caps lock
        b"\x1b[27;5;92~d",
    ],
    ids=["plain", "kitty", "kitty, then plain", "kitty with releases", "caps lock", "modifyOtherKeys"],
)
def test_the_detach_key_is_found_in_each_encoding(data: bytes) -> None:
    assert detach_key().split(b"ab" + data) == (b"ab", True)


def test_the_detach_key_is_found_across_two_reads() -> None:
    keys = detach_key()
    assert keys.split(b"x\x1c") == (b"x", False)
    assert keys.split(b"dy") == (b"", True)


def test_the_first_key_twice_sends_it_once() -> None:
    keys = detach_key()
    assert keys.split(b"\x1c\x1c") == (b"\x1c", False)
    assert keys.split(b"d") == (b"d", False)


def test_another_key_after_the_first_passes_with_it() -> None:
    keys = detach_key()
    assert keys.split(b"\x1c") == (b"", False)
    assert keys.split(b"xd\x1b[A") == (b"\x1cxd\x1b[A", False)


def test_an_own_detach_key_replaces_the_default() -> None:
    assert detach_key("ctrl-a ctrl-d").split(b"\x1cd\x01\x04") == (b"\x1cd", True)


@given(st.lists(st.sampled_from([b"d", b"\x1b[A", b"\x1b[100u", b"\x1b[92;1u", b"\xc3\xa9", b"\x1b", b"["])).map(b"".join))
def test_input_without_the_first_key_passes_unchanged(data: bytes) -> None:
    assert detach_key().split(data) == (data, False)


@pytest.mark.parametrize("text", ["", "d", "d ctrl-a", "ctrl-a", "ctrl-1 d", "ctrl-a up", "ctrl-a b c", "ctrl-ä d"])
def test_other_texts_are_no_detach_key(text: str) -> None:
    with pytest.raises(ValueError, match=r"key"):
        parse_detach_key(text)


def test_a_key_is_parsed() -> None:
    assert parse_detach_key("Ctrl-A D") == (TerminalKey("a", has_ctrl=True), TerminalKey("D"))


QUERIES = {
    "device attributes": b"\x1b[c",
    "secondary attributes": b"\x1b[>c",
    "cursor position": b"\x1b[6n",
    "a mode": b"\x1b[?2004$p",
    "version": b"\x1b[>q",
    "keyboard flags": b"\x1b[?u",
    "window size": b"\x1b[18t",
    "a colour": b"\x1b]11;?\x07",
    "a palette colour": b"\x1b]4;1;?\x1b\\",
    "the clipboard": b"\x1b]52;c;?\x07",
    "a setting": b"\x1bP$qm\x1b\\",
    "a capability": b"\x1bP+q544e\x1b\\",
    "graphics": b"\x1b_Gi=31,s=1,v=1,a=q;AAAA\x1b\\",
    "answerback": b"\x05",
    "a rectangle's checksum": b"\x1b[1;1;1;1;1;1*y",
    "identification": b"\x1bZ",
}
EFFECTS = {
    "a copy": b"\x1b]52;c;aGk=\x07",
    "a notification": b"\x1b]9;hi\x07",
    "a bell": b"\a",
    "printing": b"\x1b[5i",
    "a resize": b"\x1b[8;5;5t",
    "an unfinished title": b"\x1b]0;ab",
    "8-bit CSI": b"\xc2\x9b6n",
    "held output": b"\x1b[?2026h",
}


@pytest.mark.parametrize("data", [*QUERIES.values(), *EFFECTS.values()], ids=[*QUERIES, *EFFECTS])
def test_replayed_output_neither_asks_nor_acts(data: bytes) -> None:
    assert b"\x1b" not in without_queries(b"x" + data)
    assert without_queries(b"before" + data + b"\x1b[mafter").startswith(b"before")
    assert b"after" in without_queries(b"before" + data + b"\x1b[mafter")


def test_replayed_output_draws_as_before() -> None:
    data = b"\x1b[1;31mred\x1b[m\r\n\x1b[5;10H\x1b[2Kx\x1b7\x1b8\x1b(0q\x1b(B\x1b[?25l\x1b[2 q\x1b]8;;http://a\x1b\\l\x1b]8;;\x1b\\\t\xc3\xa9"
    assert without_queries(data) == data


def test_the_modes_in_force_are_kept() -> None:
    output = b"\x1b[?1049h\x1b[?25lx\x1b[?2004h\x1b[?25h\x1b=\x1b[>1u\x1b[>3u\x1b[<u\x1b]0;a\x07\x1b]0;b\x07\x1b[1m\x1b[m\x1b[32m"
    expected = b"\x1b[?1049h\x1b[?2004h\x1b[?25h\x1b=\x1b]0;b\x07\x1b[>1u\x1b[32m"
    assert modes_after(output) == expected
    assert modes_after(expected) == expected


def test_the_modes_stay_few() -> None:
    hostile = b"".join(b"\x1b[?%dh\x1b[%dm\x1b[>1u\x1b]0;%d\x07" % (number, number, number) for number in range(1, 5000))
    assert len(modes_after(hostile)) < 2000


def test_a_full_screen_program_is_replayed_from_its_last_clear() -> None:
    output = b"shell\r\n\x1b[?1049h\x1b[?1hold\x1b[H\x1b[2Jnew"
    assert make_replay(b"", output) == b"\x1b[?1049h\x1b[?1hnew"


def test_lines_are_replayed_after_a_full_screen_program() -> None:
    output = b"one\r\n\x1b[?1049hscreen\x1b[?1049ltwo\r\n"
    assert make_replay(b"", output) == output


def test_the_history_keeps_the_last_output_and_the_modes_before_it() -> None:
    fd = create_memory()
    history = History(fd)
    lines = [b"line %d\r\n" % number for number in range(40_000)]
    history.add(b"\x1b[?2004h")
    for line in lines:
        history.add(line)
    again = History(fd)  # as another process sees it
    os.close(fd)
    output = again.output()
    assert b"".join(lines).endswith(output)
    assert output.startswith(b"line ")
    assert BANK <= len(output) <= 2 * BANK
    assert again.modes() == b"\x1b[?2004h"


def test_a_chunk_larger_than_the_history_is_kept_at_its_end() -> None:
    data = random.Random(1).randbytes(5 * BANK).replace(b"\x1b", b"x")  # noqa: S311  (no secret)
    fd = create_memory()
    history = History(fd)
    history.add(data)
    os.close(fd)
    assert data.endswith(history.output())
    assert len(history.output()) > BANK - 5000
