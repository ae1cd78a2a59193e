"""The view of a conflict: the columns hold both sides and the result in full, whoever changed a region."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff import hunks, merge3
from agent_dev.diff.merge3 import ConflictSide, LineConflict, MergedRegion, RegionSource
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.merge.reconcile import ThreeVersions, reconcile_change
from agent_dev.overlay.changes import Change, ChangeKind
from tui.model import conflict, wrapping
from tui.model.document import WHOLE_FILE, DiffOptions, Document, RowKind

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n", b"x", b"\0\n", b"\xff\n"]), max_size=14).map(b"".join)
FILE = Entry(FileType.FILE, 0o644, 1, 2, 3, 4, 1)
CHANGE = Change(Key(0, b"f"), ChangeKind.EDITED, FILE, FILE, conflict="changed by both")
EDITS = st.sampled_from([ConflictSide.YOURS, ConflictSide.AGENT])
ANSWERS = st.sampled_from(list(ConflictSide)) | LINES


def column(document: Document, at: int) -> list[bytes]:
    rows = [row for row in document.rows if row.kind is RowKind.CONFLICT and row is not conflict._HEADS]
    return [cell for row in rows if (cell := row.cells[at]) is not None]


def joined(cells: Iterable[bytes], end: bytes) -> bytes:
    return hunks.join_lines(list(cells), end)


@given(LINES, LINES, LINES, st.data())
def test_the_screen_shows_the_bytes_that_a_merge_writes(base: bytes, yours: bytes, agent: bytes, data: st.DataObject) -> None:
    merged = merge3.merge_lines(base, yours, agent)
    edits = st.just(ConflictSide.AGENT) if merged.is_clean else EDITS  # a merge without conflicts is selected as a diff
    answers = [data.draw(ANSWERS if isinstance(one, LineConflict) else edits) for one in merged.choices]
    shown = conflict.conflict_document(CHANGE, (), merged, answers, DiffOptions(context=WHOLE_FILE))
    assert joined(column(shown, 0), merged.line_end) == yours
    assert joined(column(shown, 1), merged.line_end) == merged.resolve(answers)
    assert joined(column(shown, 2), merged.line_end) == agent


@given(LINES, LINES, LINES)
def test_every_changed_region_shows_its_base(base: bytes, yours: bytes, agent: bytes) -> None:
    merged = merge3.merge_lines(base, yours, agent)
    shown = conflict.conflict_document(CHANGE, (), merged, (), DiffOptions(context=WHOLE_FILE, shows_base=True))
    regions = (one for one in merged.regions if isinstance(one, LineConflict) or one.source is not RegionSource.UNCHANGED)
    wanted = [line for one in regions for line in hunks.split_lines(one.base)]
    found = [row.text.removeprefix("base: ") for row in shown.rows if row.text.startswith("base: ")]
    assert found == [line.rstrip(b"\n").decode("utf-8", "surrogateescape") for line in wanted]


@given(LINES, LINES, LINES)
def test_every_choice_of_a_merge_with_conflicts_is_a_hunk(base: bytes, yours: bytes, agent: bytes) -> None:
    merged = merge3.merge_lines(base, yours, agent)
    shown = conflict.conflict_document(CHANGE, (), merged, (), DiffOptions(context=WHOLE_FILE))
    choices = () if merged.is_clean else merged.choices
    assert [shown.rows[row].hunk for row in shown.hunk_rows] == list(range(len(choices)))
    boxes = [shown.rows[row].is_applied for row in shown.hunk_rows]
    assert boxes == [None if isinstance(one, LineConflict) else True for one in choices]


@given(LINES, LINES, LINES, LINES)
def test_the_screen_shows_the_text_saved_in_an_editor(base: bytes, yours: bytes, agent: bytes, edited: bytes) -> None:
    merged = merge3.merge_lines(base, yours, agent)
    shown = conflict.edited_document(CHANGE, (), merged, edited, DiffOptions(context=WHOLE_FILE))
    assert [b"".join(column(shown, at)) for at in range(3)] == [yours, edited, agent]


@given(LINES, LINES, LINES)
def test_only_lines_equal_in_all_three_versions_are_folded(base: bytes, yours: bytes, agent: bytes) -> None:
    merged = merge3.merge_lines(base, yours, agent)
    shown = conflict.conflict_document(CHANGE, (), merged, (), DiffOptions(context=1))
    folded = sum(int(row.text.split()[1].replace(",", "")) for row in shown.rows if row.text.startswith("… "))
    assert len(column(shown, 0)) + folded == len(hunks.split_lines(yours))
    assert len(column(shown, 2)) + folded == len(hunks.split_lines(agent))


@pytest.mark.parametrize(
    ("base", "yours", "agent", "heading"),
    [
        (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\n", "1 line deleted by the agent"),
        (b"a\nb\nc\n", b"a\nb\n", b"A\nb\nc\n", "1 line deleted by you"),
        (b"a\nb\n", b"A\nb\n", b"a\nb\nc\nd\n", "2 lines added by the agent"),
        (b"a\nb\nc\n", b"A\nb\nC\n", b"a\nb\nC\n", "1 line changed by you and the agent"),
    ],
)
def test_a_cleanly_merged_region_names_its_side(base: bytes, yours: bytes, agent: bytes, heading: str) -> None:
    merged = merge3.merge_lines(base, yours, agent)
    assert heading in [row.text for row in conflict.conflict_document(CHANGE, (), merged, (), DiffOptions()).rows]
    regions = (one for one in merged.regions if isinstance(one, MergedRegion) and one.source is not RegionSource.UNCHANGED)
    assert heading in (line for one in regions for line in conflict.region_lines(one))


def test_a_missing_final_newline_is_shown() -> None:
    merged = merge3.merge_lines(b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nc")
    texts = [row.text for row in conflict.conflict_document(CHANGE, (), merged, (), DiffOptions()).rows]
    assert "\\ No newline at end of file: result, agent" in texts


LONG = b"word " * 12


def stacked(document: Document, at: int) -> list[bytes]:
    """Return the lines of one side that are shown below the others."""
    rows = [row for row in document.rows if row.kind is RowKind.STACKED and not row.wrap_index]
    return [cell for row in rows if (cell := row.cells[at]) is not None]


@pytest.mark.parametrize("longest", range(3))
def test_a_conflict_with_too_many_lines_is_one_of_whole_files(longest: int) -> None:
    sides = [b"base\n", b"yours\n", b"agents\n"]
    sides[longest] *= hunks.MAX_DIFF_LINES + 1
    made = reconcile_change(CHANGE, FILE, ThreeVersions(*sides))
    assert made.change is not None
    assert (bool(made.change.conflict), made.merged) == (True, None)
    shown = conflict.whole_file_document(made.change, (), (sides[1], sides[2]), (None,), DiffOptions())
    assert any(row.kind is RowKind.CONFLICT for row in shown.rows) == (longest == 0)


def test_lines_too_long_for_columns_are_shown_below_each_other() -> None:
    merged = merge3.merge_lines(LONG + b"1\n", LONG + b"2\n", LONG + b"3\n")
    shown = conflict.conflict_document(CHANGE, (), merged, (), DiffOptions(columns=80))
    assert (stacked(shown, 0), stacked(shown, 1), stacked(shown, 2)) == ([LONG + b"2\n"], [], [LONG + b"3\n"])
    assert [row.text for row in shown.rows if row.kind is RowKind.STACKED] == ["yours", "agent"]
    answered = conflict.conflict_document(CHANGE, (), merged, (ConflictSide.AGENT,), DiffOptions(columns=80))
    assert stacked(answered, 1) == [LONG + b"3\n"]
    assert shown.max_width == len(LONG) + 1  # the diff can be scrolled to its end


def test_lines_that_fit_are_shown_in_columns_and_others_if_wanted() -> None:
    merged = merge3.merge_lines(b"1\n", b"2\n", b"3\n")
    assert not stacked(conflict.conflict_document(CHANGE, (), merged, (), DiffOptions(columns=80)), 0)
    long = merge3.merge_lines(LONG + b"1\n", LONG + b"2\n", LONG + b"3\n")
    assert not stacked(conflict.conflict_document(CHANGE, (), long, (), DiffOptions(columns=80, is_split=True)), 0)
    assert not stacked(conflict.conflict_document(CHANGE, (), long, (), DiffOptions(columns=200)), 0)


def test_wrapped_lines_below_each_other_are_shown_in_full() -> None:
    merged = merge3.merge_lines(LONG + b"1\n", LONG * 3 + b"2\n", LONG + b"3\n")
    shown = conflict.conflict_document(CHANGE, (), merged, (), DiffOptions(columns=80, is_wrapped=True))
    cells = wrapping.stacked_width(DiffOptions(columns=80))
    rows = [row for row in shown.rows if row.kind is RowKind.STACKED and row.cells[0] is not None]
    assert [row.wrap_index for row in rows] == list(range(-(-(len(LONG) * 3 + 1) // cells)))


@given(LINES, LINES, LINES, st.data())
def test_below_each_other_no_line_of_a_conflict_is_missing(base: bytes, yours: bytes, agent: bytes, data: st.DataObject) -> None:
    merged = merge3.merge_lines(base, yours, agent)
    answers = [data.draw(ANSWERS) if isinstance(one, LineConflict) else ConflictSide.AGENT for one in merged.choices]
    shown = conflict.conflict_document(CHANGE, (), merged, answers, DiffOptions(columns=2, context=WHOLE_FILE))
    result = [cell for cell in stacked(shown, 1) if cell]
    assert joined(result, merged.line_end) == merged.resolve(answers)
