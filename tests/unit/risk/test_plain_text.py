"""Text as the risk rules search it: the fast paths give the same results as the slow definitions."""

import time
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.binary import is_binary
from agent_dev.risk import hidden_text
from agent_dev.risk.content import CONTENT_CHECKS, has_new_line
from agent_dev.risk.plain_text import added_lines, fold_content, may_match
from agent_dev.sanitize import HIDDEN

if TYPE_CHECKING:
    import re

MEGABYTE = 1 << 20
# What rules search for, what resembles it, and what may be next to it: combining marks, joiners, invalid UTF-8.
LETTERS = st.sampled_from(
    [
        *"ab é日паΑο\n\r\t \x1b\x08🏴👩",
        "\u200b",
        "\u200d",
        "\u202e",
        "\ufeff",
        "\u00ad",
        "\ufe0f",
        "\u0301",
        "\U000e0041",
        "curl x | sh",
    ]
)
TEXTS = st.lists(LETTERS, max_size=40).map("".join).map(str.encode)
BROKEN = st.lists(st.sampled_from([b"a", b"\n", b"\xf3\xa0\x80", b"\xe2\x80", b"\x8b", b"\xd0", "п".encode()]), max_size=20)


def slow_fold(data: bytes) -> bytes:
    """Return the folded text, by the definition."""
    unseen = {code for first, last in HIDDEN for code in range(first, last + 1)}
    text = "".join(char for char in data.decode("utf-8", "surrogateescape") if ord(char) not in unseen).casefold()
    run, kept = 0, []
    for char in text:
        run = run + 1 if unicodedata.combining(char) else 0
        if run <= 30:
            kept.append(char)
    return unicodedata.normalize("NFKC", "".join(kept)).encode("utf-8", "surrogateescape")


@given(TEXTS | BROKEN.map(b"".join))
def test_folding_matches_its_definition(data: bytes) -> None:
    assert fold_content(data) == slow_fold(data)


@pytest.mark.parametrize("mark", ["\u0301", "\u0345", "\u05b0"])
def test_long_runs_of_combining_marks_are_cut(mark: str) -> None:
    data = ("a" + mark * 100 + "b").encode()
    assert fold_content(data) == slow_fold(data)


@given(TEXTS | BROKEN.map(b"".join))
@pytest.mark.parametrize("pattern", [hidden_text._HIDDEN, hidden_text._MIXED], ids=["hidden", "mixed"])
def test_the_prefilter_skips_no_match(pattern: "re.Pattern[bytes]", data: bytes) -> None:
    if not data.isascii() and pattern.search(data):
        assert may_match(pattern, data)


@given(st.lists(TEXTS, max_size=8), st.lists(TEXTS, max_size=8), st.sampled_from(["hidden-text", "mixed-letters"]))
def test_a_long_text_gets_the_risks_of_a_short_one(old: list[bytes], new: list[bytes], rule: str) -> None:
    """Only lines that the base version lacks are searched in a long text: a long tail that both have changes nothing."""
    tail = b"\n" + b"the same\n" * 4000
    before, after = b"\n".join(old), b"\n".join([*old[:3], *new])
    whole = not is_binary(after) and CONTENT_CHECKS[rule](after + tail, lambda: before + tail)
    assert whole == CONTENT_CHECKS[rule](after + b"\nthe same\n", lambda: before + b"\nthe same\n")
    texts = ("curl*{sh}", "é", "па")
    assert has_new_line(after + tail, lambda: before + tail, texts) == has_new_line(
        after + b"\nthe same\n", lambda: before + b"\nthe same\n", texts
    )


def test_only_new_lines_of_a_long_text_are_searched() -> None:
    base = b"old line\n" * 5000
    assert added_lines(base + b"new\n", lambda: base) == b"\nnew\n"
    assert added_lines(b"\xef\xbb\xbfold\n" + base, lambda: base) == b"\xef\xbb\xbfold\n"
    assert added_lines(b"new\n", lambda: pytest.fail("a short text is searched whole")) == b"new\n"


@given(
    st.lists(st.sampled_from([b"a", b"b", b"", b"c\r", b"\xef\xbb\xbfa"]), max_size=10),
    st.lists(st.sampled_from([b"a", b"b", b"", b"n", b"c\r"]), max_size=14),
    st.lists(st.sampled_from([b"a", b"x", b""]), max_size=4),
)
def test_new_lines_are_those_that_no_old_line_equals(start: list[bytes], middle: list[bytes], end: list[bytes]) -> None:
    filler = [b"the same"] * 700
    before, after = b"\n".join((*start, *filler, *end)), b"\n".join((*start, *middle, *filler, *end))
    known = frozenset(before.split(b"\n"))
    first, *rest = after.split(b"\n")
    wanted = [b"" if first in known else first, *(line for line in rest if line not in known)]
    assert added_lines(after, lambda: before) == b"\n".join([*wanted, *([b""] if (rest or [first])[-1] in known else [])])


def test_a_line_in_a_program_is_found_without_the_bytes_in_between() -> None:
    for split in (b"\0", b"\x01\xff", b""):
        program = b"\x7fELF\0\0\0\ncu" + split + b"rl x |" + split + b" sh\n"
        assert has_new_line(program, bytes, ("curl*{sh}",))


@pytest.mark.parametrize("language", ["нет, это не так. ", "これは日本語。", "l'été à Noël, çà et là ", "لا، ليس كذلك. "])
def test_a_non_ascii_text_takes_about_as_long_as_an_ascii_one(language: str) -> None:
    """The ratio of two CPU times, each the best of several, because a busy machine slows both."""
    plain = b"the quick brown fox jumps\n" * (MEGABYTE // 26)
    other = (language + "\n").encode() * (MEGABYTE // len((language + "\n").encode()))
    texts = tuple(f"words and {one}{other}" for one in "abcdefghij" for other in "klmnopqr")  # searched for in every text

    def seconds(data: bytes) -> float:
        best = 9.0
        for turn in range(5):
            some = data + b"%d" % turn  # a new text for each turn, so that nothing is cached
            start = time.process_time()
            has_new_line(some, bytes, texts)
            for rule in ("hidden-text", "mixed-letters", "far-right"):
                CONTENT_CHECKS[rule](some, bytes)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(other) <= 20 * seconds(plain)
