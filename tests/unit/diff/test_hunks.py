"""Hunks applied to the old text give the new one; they are as small and as few as possible."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff import hunks as module
from agent_dev.diff.binary import is_binary
from agent_dev.diff.hunks import (
    BareHunk,
    ContextHunk,
    detect_line_end,
    find_context_hunks,
    find_hunks,
    join_lines,
    split_lines,
)
from agent_dev.overlay.patch_write import quote_path

PIECES = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\r", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8\n", b"\xff\n", b"\0", b"x"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join) | st.binary(max_size=40)


def applied(before: bytes, after: bytes, found: tuple[BareHunk, ...]) -> bytes:
    """Replace the old lines of each hunk by its new ones."""
    old, new = split_lines(before), split_lines(after)
    pieces, at = [], 0
    for block in found:
        pieces += old[at : block.old_start] + new[block.new_start : block.new_end]
        at = block.old_end
    return b"".join(pieces + old[at:])


@given(TEXTS)
def test_joined_lines_are_the_text(data: bytes) -> None:
    assert b"".join(split_lines(data)) == data


@given(TEXTS)
def test_lines_end_at_newlines_only(data: bytes) -> None:
    assert [line.count(b"\n") for line in split_lines(data)[:-1]] == [1] * max(0, len(split_lines(data)) - 1)
    assert all(line for line in split_lines(data))


@given(TEXTS, TEXTS)
def test_all_hunks_applied_to_before_give_after(before: bytes, after: bytes) -> None:
    assert applied(before, after, find_hunks(before, after)) == after


@given(TEXTS, TEXTS)
def test_lines_between_two_hunks_are_equal(before: bytes, after: bytes) -> None:
    old, new = split_lines(before), split_lines(after)
    ends = [(0, 0), *((block.old_end, block.new_end) for block in find_hunks(before, after))]
    starts = [*((block.old_start, block.new_start) for block in find_hunks(before, after)), (len(old), len(new))]
    gaps = [(old[a:c], new[b:d]) for (a, b), (c, d) in zip(ends, starts, strict=True)]
    assert all(yours == theirs for yours, theirs in gaps)
    assert all(yours for yours, _ in gaps[1:-1])


@given(TEXTS)
def test_equal_texts_have_no_hunks(data: bytes) -> None:
    assert find_hunks(data, data) == ()


@given(TEXTS, TEXTS)
def test_every_block_of_changed_lines_is_in_exactly_one_hunk(before: bytes, after: bytes) -> None:
    hunks = list(find_context_hunks(before, after, 1))
    assert tuple(block for hunk in hunks for block in hunk.hunks) == find_hunks(before, after)
    assert all(one.old_start + one.old_lines < other.old_start for one, other in pairwise(hunks))


@given(TEXTS, TEXTS)
def test_a_hunk_covers_the_same_unchanged_lines_on_both_sides(before: bytes, after: bytes) -> None:
    for hunk in find_context_hunks(before, after):
        inserted = sum(block.new_lines for block in hunk.hunks)
        deleted = sum(block.old_lines for block in hunk.hunks)
        assert hunk.new_lines - inserted == hunk.old_lines - deleted
        assert hunk.old_start + hunk.old_lines <= len(split_lines(before))
        assert hunk.new_start + hunk.new_lines <= len(split_lines(after))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (b"", b"a\nb\n", (BareHunk(0, 0, 0, 2),)),
        (b"a\nb", b"", (BareHunk(0, 2, 0, 0),)),
        (b"a\n", b"x\na\n", (BareHunk(0, 0, 0, 1),)),
        (b"a\n", b"a\nx\n", (BareHunk(1, 0, 1, 1),)),
        (b"a\nb\nc\n", b"a\nc\n", (BareHunk(1, 1, 1, 0),)),
        (b"a\nb\nc\nd\n", b"a\nB\nc\nD\n", (BareHunk(1, 1, 1, 1), BareHunk(3, 1, 3, 1))),
        (b"a", b"a\n", (BareHunk(0, 1, 0, 1),)),
        (b"a\r\n", b"a\n", (BareHunk(0, 1, 0, 1),)),
    ],
)
def test_small_texts_have_the_expected_hunks(before: bytes, after: bytes, expected: tuple[BareHunk, ...]) -> None:
    assert find_hunks(before, after) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), b"\n"),
        ((b"", b"a"), b"\n"),
        ((b"a\r\nb\n",), b"\r\n"),
        ((b"a\nb\r\n",), b"\n"),
        ((b"a\r\n", b"", b"b\r\n"), b"\r\n"),
        ((b"a\r\n", b"b\n"), b"\n"),
    ],
)
def test_a_new_line_gets_the_line_ending_common_to_all_texts(texts: tuple[bytes, ...], expected: bytes) -> None:
    assert detect_line_end(*texts) == expected


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [([], b""), ([b"a"], b"a"), ([b"a", b"b\n", b"c"], b"a\r\nb\nc"), ([b"a", b""], b"a"), ([b"", b"a\n", b"", b"b"], b"a\nb")],
)
def test_a_missing_final_newline_does_not_join_lines(pieces: list[bytes], expected: bytes) -> None:
    assert join_lines(pieces, b"\r\n") == expected


def test_nul_bytes_do_not_hide_changed_lines() -> None:
    assert find_hunks(b"\0\na\n", b"\0\nb\n") == (BareHunk(1, 1, 1, 1),)


def test_past_the_limit_a_file_is_one_hunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DIFF_SIZE", 8)
    assert find_hunks(b"a\nb\nc\nd\ne\n", b"a\nb\nc\nd\nE") == (BareHunk(0, 5, 0, 5),)


@pytest.mark.parametrize("side", [0, 1])
def test_a_file_with_more_lines_than_the_limit_is_one_hunk(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DIFF_LINES", 4)
    texts = [b"a\nb\nc\nd\n", b"A\nb\nc\nD\n"]
    assert find_hunks(*texts) == (BareHunk(0, 1, 0, 1), BareHunk(3, 1, 3, 1))
    texts[side] += b"e"
    lines = [4, 4]
    lines[side] = 5
    assert find_hunks(*texts) == (BareHunk(0, lines[0], 0, lines[1]),)


@pytest.mark.parametrize(("gap", "hunks"), [(6, 1), (7, 2)])
def test_changes_share_a_hunk_when_their_context_touches(gap: int, hunks: int) -> None:
    middle = b"".join(b"%d\n" % number for number in range(gap))
    assert len(list(find_context_hunks(b"a\n" + middle + b"b\n", b"A\n" + middle + b"B\n"))) == hunks


@pytest.mark.parametrize(
    ("hunk", "header"),
    [
        (ContextHunk(0, 0, 0, 3, ()), "@@ -0,0 +1,3 @@"),
        (ContextHunk(4, 1, 4, 1, ()), "@@ -5 +5 @@"),
        (ContextHunk(4, 2, 4, 0, ()), "@@ -5,2 +4,0 @@"),
    ],
)
def test_a_hunk_header_counts_like_git(hunk: ContextHunk, header: str) -> None:
    assert hunk.header == header


def test_a_nul_in_text_does_not_make_it_binary() -> None:
    text = b"import os\n\ndef main():\n    return 1\n"

    assert not is_binary(text + b"\0")
    assert not is_binary(b"\0" * 500 + text + "caf\u00e9\n".encode())
    assert is_binary(b"\0\1\2\3" * 20 + text)
    assert is_binary(text[:40].ljust(257, b"\0") + b"ustar\0" + text)
    assert is_binary(b"GIF89a\1\0\1\0\x80\xff\0\xff\xff\xff\0\0\0,")


@pytest.mark.parametrize(("at", "expected"), [(7999, True), (8000, False)])
def test_a_nul_in_the_first_8000_bytes_is_binary(at: int, *, expected: bool) -> None:
    assert is_binary(b"a" * at + b"\0") is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"a b.txt", b"a b.txt"),
        (b'a"b', b'"a\\"b"'),
        (b"a\\b", b'"a\\\\b"'),
        (b"a\n\t\x1b", b'"a\\n\\t\\033"'),
        ("é".encode(), b'"\\303\\251"'),
        (b"\x7f\xff", b'"\\177\\377"'),
    ],
)
def test_names_are_quoted_like_git(path: bytes, expected: bytes) -> None:
    assert quote_path(path) == expected


def test_lines_are_compared_on_a_machine_without_ca_certificates() -> None:
    missing = {"SSL_CERT_FILE": "/nonexistent/file", "SSL_CERT_DIR": "/nonexistent"}
    script = (
        "import os; from agent_dev.diff.hunks import find_hunks; "
        "print(len(find_hunks(b'a\\nb\\n', b'a\\nc\\n')), os.environ['SSL_CERT_DIR'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **missing}, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("1 /nonexistent\n", "")
