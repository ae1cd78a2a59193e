"""The three-way view of a conflict: every line that either side changed is there once, under its version, with its number."""

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.hunks import split_lines
from agent_dev.diff.merge3 import LineConflict, RegionSource, merge_lines
from agent_dev.review_page.content import ThreeWayRow, ThreeWayView
from agent_dev.review_page.three_way import cells, compare_versions

ENDLESS = 1 << 30
LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n", b"\r\n"]), max_size=25)
CONTENT = st.builds(lambda lines, last: b"".join(lines) + last, LINES, st.sampled_from([b"", b"end"]))


def rows(view: ThreeWayView) -> list[ThreeWayRow]:
    return [row for hunk in view.hunks for row in hunk.rows]


@given(CONTENT, CONTENT, CONTENT)
def test_each_line_is_shown_with_its_own_number(base: bytes, yours: bytes, agent: bytes) -> None:
    versions = [split_lines(text) for text in (base, yours, agent)]
    for row in rows(compare_versions(merge_lines(base, yours, agent), ENDLESS)):
        for lines, (number, line) in zip(versions, cells(row), strict=True):
            assert line is None or lines[number - 1] == line
        assert row.is_changed or len({line for _, line in cells(row)}) == 1


@given(CONTENT, CONTENT, CONTENT)
def test_nothing_that_a_side_changed_is_hidden(base: bytes, yours: bytes, agent: bytes) -> None:
    merged = merge_lines(base, yours, agent)
    shown = rows(compare_versions(merged, ENDLESS))
    changed = [
        region for region in merged.regions if isinstance(region, LineConflict) or region.source is not RegionSource.UNCHANGED
    ]

    for index, name in enumerate(("base", "yours", "agent")):
        lines = [line for row in shown if row.is_changed and (line := cells(row)[index][1]) is not None]
        assert lines == [line for region in changed for line in split_lines(getattr(region, name))]
        numbers = [cells(row)[index][0] for row in shown if cells(row)[index][1] is not None]
        assert numbers == sorted(set(numbers))  # no line is shown twice


@given(CONTENT, CONTENT, CONTENT, st.integers(0, 30))
def test_rows_beyond_the_limit_are_counted(base: bytes, yours: bytes, agent: bytes, limit: int) -> None:
    merged = merge_lines(base, yours, agent)
    view = compare_versions(merged, limit)
    assert len(rows(view)) + view.omitted == len(rows(compare_versions(merged, ENDLESS)))
    assert len(rows(view)) <= limit


def test_conflicts_are_numbered_and_edits_name_their_author() -> None:
    base = b"".join(b"%d\n" % number for number in range(30))
    yours = base.replace(b"2\n", b"zwei\n", 1).replace(b"28\n", b"")
    agent = base.replace(b"2\n", b"two\n", 1).replace(b"15\n", b"fifteen\nand\n")
    view = compare_versions(merge_lines(base, yours, agent), ENDLESS)
    assert [hunk.heading for hunk in view.hunks] == ["conflict 1 of 1", "2 lines changed by the agent", "1 line deleted by you"]
    assert [hunk.is_conflict for hunk in view.hunks] == [True, False, False]
    first = [row for row in view.hunks[0].rows if row.is_changed]
    assert first == [ThreeWayRow((3, b"2\n"), (3, b"zwei\n"), (3, b"two\n"))]
    assert [row.base[0] for row in view.hunks[1].rows if not row.is_changed] == [13, 14, 15, 17, 18, 19]
