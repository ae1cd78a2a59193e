"""Rows of a diff side by side, from two texts or from a hunk of a patch."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest

from agent_dev.diff.hunks import ContextHunk, find_context_hunks, split_lines
from agent_dev.diff.patch_parser import PatchHunk
from agent_dev.review_page.content import Diff, DiffHunk, PageRow

_SignedLine = tuple[bytes, bytes]  # a sign (space, - or +) and a line


def compare_texts(before: bytes, after: bytes, max_rows: int) -> Diff:
    """Return the diff of two texts, up to `max_rows` rows."""
    old, new = split_lines(before), split_lines(after)
    return _limited(((hunk, _signed_lines(hunk, old, new)) for hunk in find_context_hunks(before, after)), max_rows)


def convert_patch(hunks: Iterable[PatchHunk], max_rows: int) -> Diff:
    """Return the diff that a file's patch contains, up to `max_rows` rows."""
    return _limited(_with_ranges(hunks), max_rows)


def _with_ranges(hunks: Iterable[PatchHunk]) -> Iterator[tuple[ContextHunk, Iterable[_SignedLine]]]:
    shift = 0  # lines that the previous hunks added
    for hunk in hunks:
        old = sum(sign != b"+" for sign, _ in hunk.lines)
        new = sum(sign != b"-" for sign, _ in hunk.lines)
        yield ContextHunk(hunk.old_start, old, hunk.old_start + shift, new, ()), hunk.lines
        shift += new - old


def _limited(hunks: Iterable[tuple[ContextHunk, Iterable[_SignedLine]]], max_rows: int) -> Diff:
    shown: list[DiffHunk] = []
    left, omitted = max_rows, 0
    for hunk, lines in hunks:
        rows = _paired(lines, hunk.old_start, hunk.new_start)
        if part := tuple(islice(rows, left)):
            shown.append(DiffHunk(hunk.header, part))
            left -= len(part)
        omitted += sum(1 for _ in rows)
    return Diff(tuple(shown), omitted)


def _signed_lines(hunk: ContextHunk, old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[_SignedLine]:
    position = hunk.old_start
    for bare in hunk.hunks:
        yield from ((b" ", line) for line in old[position : bare.old_start])
        yield from ((b"-", line) for line in old[bare.old_start : bare.old_end])
        yield from ((b"+", line) for line in new[bare.new_start : bare.new_end])
        position = bare.old_end
    yield from ((b" ", line) for line in old[position : hunk.old_start + hunk.old_lines])


def _paired(lines: Iterable[_SignedLine], old_start: int, new_start: int) -> Iterator[PageRow]:
    """Yield the rows of a hunk whose first lines have these indices; deleted lines are next to the added lines after them."""
    old, new = old_start + 1, new_start + 1
    deleted: list[bytes] = []
    added: list[bytes] = []
    for sign, line in (*lines, (b" ", b"")):  # the last pair ends the last run
        if sign == b"-" and not added:
            deleted.append(line)
            continue
        if sign == b"+":
            added.append(line)
            continue
        yield from _changed_rows(deleted, added, old, new)
        old, new = old + len(deleted), new + len(added)
        deleted, added = ([line], []) if sign == b"-" else ([], [])
        if sign == b" " and line:
            yield PageRow(old, line, new, line, is_changed=False)
            old, new = old + 1, new + 1


def _changed_rows(deleted: Sequence[bytes], added: Sequence[bytes], old: int, new: int) -> Iterator[PageRow]:
    for index, (before, after) in enumerate(zip_longest(deleted, added)):
        yield PageRow(old + index, before, new + index, after)
