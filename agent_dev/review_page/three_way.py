"""A conflict as rows in three columns: the base version, yours and the agent's, with all changes of both sides."""

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

from agent_dev.diff.hunks import split_lines
from agent_dev.diff.merge3 import LineConflict, LineMerge, MergedRegion, RegionSource
from agent_dev.overlay.labels import format_count
from agent_dev.review_page.content import NumberedLine, ThreeWayHunk, ThreeWayRow, ThreeWayView

_CONTEXT = 3  # lines before and after a change
_AUTHORS = {RegionSource.YOURS: "you", RegionSource.AGENT: "the agent", RegionSource.SAME: "you and the agent"}

_Versions = tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]]  # lines of base, yours and agent
_Position = tuple[int, int, int]  # indices of their first lines


def compare_versions(merged: LineMerge, max_rows: int) -> ThreeWayView:
    """Return the conflicts and all other changes of a merge, up to `max_rows` rows."""
    shown: list[ThreeWayHunk] = []
    left, omitted = max_rows, 0
    for heading, is_conflict, rows in _hunks(merged):
        if part := tuple(islice(rows, left)):
            shown.append(ThreeWayHunk(heading, is_conflict, part))
            left -= len(part)
        omitted += sum(1 for _ in rows)
    return ThreeWayView(tuple(shown), omitted)


def _hunks(merged: LineMerge) -> Iterator[tuple[str, bool, Iterator[ThreeWayRow]]]:
    """Yield each changed region: a heading, whether it is a conflict, and its rows with their context."""
    at: _Position = (0, 0, 0)
    conflicts = 0
    regions = [(region, _versions(region)) for region in merged.regions]
    for index, (region, lines) in enumerate(regions):
        if not _is_unchanged(region):
            conflicts += isinstance(region, LineConflict)
            before = _context(regions[index - 1], is_before=True, is_shared=index > 1) if index else []
            after = _context(regions[index + 1], is_before=False) if index + 1 < len(regions) else []
            heading = _heading(region, conflicts, len(merged.conflicts))
            yield heading, isinstance(region, LineConflict), iter(_rows(before, lines, after, at))
        at = (at[0] + len(lines[0]), at[1] + len(lines[1]), at[2] + len(lines[2]))


def _versions(region: MergedRegion | LineConflict) -> _Versions:
    return split_lines(region.base), split_lines(region.yours), split_lines(region.agent)


def _is_unchanged(region: MergedRegion | LineConflict) -> bool:
    return isinstance(region, MergedRegion) and region.source is RegionSource.UNCHANGED


def _context(
    neighbour: tuple[MergedRegion | LineConflict, _Versions], *, is_before: bool, is_shared: bool = False
) -> Sequence[bytes]:
    """Return lines of an unchanged neighbour; `is_shared`: its first lines are already context of the change before it."""
    region, (lines, _, _) = neighbour
    if not _is_unchanged(region):
        return []
    if not is_before:
        return lines[:_CONTEXT]
    return lines[max(_CONTEXT if is_shared else 0, len(lines) - _CONTEXT) :]


def _heading(region: MergedRegion | LineConflict, number: int, count: int) -> str:
    if isinstance(region, LineConflict):
        return f"conflict {number} of {count}"
    lines = max(len(split_lines(region.base)), len(split_lines(region.data)))
    verb = "added" if not region.base else "deleted" if not region.data else "changed"
    return f"{format_count(lines, 'line')} {verb} by {_AUTHORS[region.source]}"


def _rows(before: Sequence[bytes], lines: _Versions, after: Sequence[bytes], at: _Position) -> Iterator[ThreeWayRow]:
    """Yield the rows of a region whose first lines are at these indices."""
    base, yours, agent = at
    yield from _same_rows(before, (base - len(before), yours - len(before), agent - len(before)))
    for index, (one, two, three) in enumerate(zip_longest(*lines), 1):
        yield ThreeWayRow((base + index, one), (yours + index, two), (agent + index, three))
    yield from _same_rows(after, (base + len(lines[0]), yours + len(lines[1]), agent + len(lines[2])))


def _same_rows(lines: Sequence[bytes], at: _Position) -> Iterator[ThreeWayRow]:
    for index, line in enumerate(lines, 1):
        base, yours, agent = ((start + index, line) for start in at)
        yield ThreeWayRow(base, yours, agent, is_changed=False)


def cells(row: ThreeWayRow) -> tuple[NumberedLine, NumberedLine, NumberedLine]:
    """Return the three cells of a row in the order of the columns."""
    return row.base, row.yours, row.agent
