"""The Escape key is a key of its own, whatever follows it and however the input is divided into reads."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste

from tui.terminal.escape_parser import EscapeParser

PRESSED = {
    "\x1b": "escape",
    "j": "j",
    "X": "X",
    "1": "1",
    " ": "space",
    "\r": "enter",
    "\x7f": "backspace",
    "é": "é",
    "\x1b[A": "up",
    "\x1bOP": "f1",
    "\x1b[6~": "pagedown",
    "\x1b[106;3u": "alt+j",
}


def parsed(*reads: str, pauses: bool = False) -> list[str]:
    """Return the keys and pasted texts of some input; `pauses`: with 0.1 s after each read, not only after the last one."""
    parser = EscapeParser()
    found = []
    for number, data in enumerate(reads, 1):
        found += list(parser.feed(data))
        if pauses or number == len(reads):
            parser._timeout_time = 0.0 if parser._timeout_time is not None else None
            found += parser.tick()
    return [event.key if isinstance(event, Key) else event.text if isinstance(event, Paste) else "?" for event in found]


@given(st.lists(st.sampled_from([*PRESSED])), st.sets(st.integers(0, 40)))
def test_every_key_is_read_however_the_input_is_divided(keys: list[str], cuts: set[int]) -> None:
    text = "".join(keys)
    ends = [0, *sorted(cut for cut in cuts if 0 < cut < len(text)), len(text)]
    reads = [text[start:end] for start, end in pairwise(ends) if start < end]
    assert parsed(*reads) == [PRESSED[key] for key in keys]


@given(st.lists(st.sampled_from([*PRESSED])))
def test_every_key_is_read_if_it_is_typed_slowly(keys: list[str]) -> None:
    assert parsed(*keys, pauses=True) == [PRESSED[key] for key in keys]


@pytest.mark.parametrize("pasted", ["a\x1bjb", "\x1b", "\x1b\x1b c", "\x1bOP"])
def test_pasted_text_presses_no_keys(pasted: str) -> None:
    assert parsed(f"j\x1b[200~{pasted}\x1b[201~k\x1bj") == ["j", pasted.replace("\x1b", ""), "k", "escape", "j"]
