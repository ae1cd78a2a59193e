"""Rows side by side: every changed line is there once, with its own number, next to its counterpart."""

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.hunks import split_lines
from agent_dev.diff.patch_parser import parse_patch
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.patch_write import change_patch
from agent_dev.review_page.content import Diff, PageRow
from agent_dev.review_page.side_by_side import compare_texts, convert_patch

ENDLESS = 1 << 30
LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"-- x\n", b"++ y\n", b"\n", b"\r\n"]), max_size=40)
CONTENT = st.builds(lambda lines, last: b"".join(lines) + last, LINES, st.sampled_from([b"", b"end"]))


def rows(diff: Diff) -> list[PageRow]:
    return [row for hunk in diff.hunks for row in hunk.rows]


@given(CONTENT, CONTENT)
def test_each_line_has_its_own_number(before: bytes, after: bytes) -> None:
    old, new = split_lines(before), split_lines(after)
    for row in rows(compare_texts(before, after, ENDLESS)):
        assert row.old is None or old[row.old_number - 1] == row.old
        assert row.new is None or new[row.new_number - 1] == row.new
        assert row.is_changed or row.old == row.new


@given(CONTENT, CONTENT)
def test_lines_without_a_row_are_the_same_on_both_sides(before: bytes, after: bytes) -> None:
    shown = rows(compare_texts(before, after, ENDLESS))
    old = {row.old_number for row in shown if row.old is not None}
    new = {row.new_number for row in shown if row.new is not None}

    assert [line for number, line in enumerate(split_lines(before), 1) if number not in old] == [
        line for number, line in enumerate(split_lines(after), 1) if number not in new
    ]


@given(CONTENT, CONTENT)
def test_a_patch_yields_the_rows_of_its_two_texts(before: bytes, after: bytes) -> None:
    entry = Entry(FileType.FILE)
    change = Change(Key(0, b"x"), ChangeKind.EDITED, entry, entry)
    parsed = parse_patch(change_patch(change, b"x", before, after))
    found = [convert_patch(patch.hunks, ENDLESS) for patch in parsed]

    if "\r" not in before.decode() + after.decode():  # such a patch is a binary one
        assert found == ([compare_texts(before, after, ENDLESS)] if before != after else [])


@given(CONTENT, CONTENT, st.integers(0, 20))
def test_rows_beyond_the_limit_are_counted(before: bytes, after: bytes, limit: int) -> None:
    whole, part = rows(compare_texts(before, after, ENDLESS)), compare_texts(before, after, limit)

    assert rows(part) == whole[:limit]
    assert part.omitted == max(0, len(whole) - limit)
