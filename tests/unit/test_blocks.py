"""Blocks: applied to before they give after; they are as small and as few as the lines allow."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff import hunks as module
from agent_dev.diff.hunks import Block, Hunk, blocks, count, is_binary, joined, line_end, lines, quoted, unified

PIECES = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\r", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8\n", b"\xff\n", b"\0", b"x"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join) | st.binary(max_size=40)


def applied(before: bytes, after: bytes, found: tuple[Block, ...]) -> bytes:
    """Put the new lines of every block into the old text."""
    old, new = lines(before), lines(after)
    pieces, at = [], 0
    for block in found:
        pieces += old[at : block.old_start] + new[block.new_start : block.new_end]
        at = block.old_end
    return b"".join(pieces + old[at:])


@given(TEXTS)
def test_lines_joined_are_the_text(data: bytes) -> None:
    assert b"".join(lines(data)) == data


@given(TEXTS)
def test_lines_end_at_newlines_and_nowhere_else(data: bytes) -> None:
    assert [line.count(b"\n") for line in lines(data)[:-1]] == [1] * max(0, len(lines(data)) - 1)
    assert all(line for line in lines(data))


@given(TEXTS, TEXTS)
def test_all_blocks_applied_to_before_give_after(before: bytes, after: bytes) -> None:
    assert applied(before, after, blocks(before, after)) == after


@given(TEXTS, TEXTS)
def test_between_two_blocks_stand_equal_lines(before: bytes, after: bytes) -> None:
    old, new = lines(before), lines(after)
    ends = [(0, 0), *((block.old_end, block.new_end) for block in blocks(before, after))]
    starts = [*((block.old_start, block.new_start) for block in blocks(before, after)), (len(old), len(new))]
    gaps = [(old[a:c], new[b:d]) for (a, b), (c, d) in zip(ends, starts, strict=True)]
    assert all(mine == theirs for mine, theirs in gaps)
    assert all(mine for mine, _ in gaps[1:-1])


@given(TEXTS)
def test_equal_texts_have_no_blocks(data: bytes) -> None:
    assert blocks(data, data) == ()


@given(TEXTS, TEXTS)
def test_every_block_is_in_exactly_one_hunk(before: bytes, after: bytes) -> None:
    hunks = list(unified(before, after, 1))
    assert tuple(block for hunk in hunks for block in hunk.blocks) == blocks(before, after)
    assert all(one.old_start + one.old_lines < other.old_start for one, other in pairwise(hunks))


@given(TEXTS, TEXTS)
def test_a_hunk_covers_as_much_unchanged_text_on_both_sides(before: bytes, after: bytes) -> None:
    for hunk in unified(before, after):
        inserted = sum(block.new_lines for block in hunk.blocks)
        deleted = sum(block.old_lines for block in hunk.blocks)
        assert hunk.new_lines - inserted == hunk.old_lines - deleted
        assert hunk.old_start + hunk.old_lines <= len(lines(before))
        assert hunk.new_start + hunk.new_lines <= len(lines(after))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (b"", b"a\nb\n", (Block(0, 0, 0, 2),)),
        (b"a\nb", b"", (Block(0, 2, 0, 0),)),
        (b"a\n", b"x\na\n", (Block(0, 0, 0, 1),)),
        (b"a\n", b"a\nx\n", (Block(1, 0, 1, 1),)),
        (b"a\nb\nc\n", b"a\nc\n", (Block(1, 1, 1, 0),)),
        (b"a\nb\nc\nd\n", b"a\nB\nc\nD\n", (Block(1, 1, 1, 1), Block(3, 1, 3, 1))),
        (b"a", b"a\n", (Block(0, 1, 0, 1),)),
        (b"a\r\n", b"a\n", (Block(0, 1, 0, 1),)),
    ],
)
def test_blocks_of_small_texts(before: bytes, after: bytes, expected: tuple[Block, ...]) -> None:
    assert blocks(before, after) == expected


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
def test_a_new_line_ends_as_all_texts_begin_to(texts: tuple[bytes, ...], expected: bytes) -> None:
    assert line_end(*texts) == expected


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [([], b""), ([b"a"], b"a"), ([b"a", b"b\n", b"c"], b"a\r\nb\nc"), ([b"a", b""], b"a"), ([b"", b"a\n", b"", b"b"], b"a\nb")],
)
def test_joined_lines_do_not_grow_together(pieces: list[bytes], expected: bytes) -> None:
    assert joined(pieces, b"\r\n") == expected


def test_nul_bytes_do_not_hide_changed_lines() -> None:
    assert blocks(b"\0\na\n", b"\0\nb\n") == (Block(1, 1, 1, 1),)


def test_count_says_insertions_then_deletions() -> None:
    assert count(b"a\nb\nc\n", b"a\nx\ny\nz\n") == (3, 2)


def test_past_the_limit_a_file_is_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 8)
    assert blocks(b"a\nb\nc\nd\ne\n", b"a\nb\nc\nd\nE") == (Block(0, 5, 0, 5),)


@pytest.mark.parametrize(("gap", "hunks"), [(6, 1), (7, 2)])
def test_blocks_share_a_hunk_when_their_context_touches(gap: int, hunks: int) -> None:
    middle = b"".join(b"%d\n" % number for number in range(gap))
    assert len(list(unified(b"a\n" + middle + b"b\n", b"A\n" + middle + b"B\n"))) == hunks


@pytest.mark.parametrize(
    ("hunk", "header"),
    [
        (Hunk(0, 0, 0, 3, ()), "@@ -0,0 +1,3 @@"),
        (Hunk(4, 1, 4, 1, ()), "@@ -5 +5 @@"),
        (Hunk(4, 2, 4, 0, ()), "@@ -5,2 +4,0 @@"),
    ],
)
def test_a_hunk_header_counts_as_git_does(hunk: Hunk, header: str) -> None:
    assert hunk.header == header


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
def test_names_are_quoted_as_git_quotes_them(path: bytes, expected: bytes) -> None:
    assert quoted(path) == expected
