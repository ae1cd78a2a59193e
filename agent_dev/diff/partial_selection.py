"""Partial selection of a change by hunks and lines, and the resulting bytes."""

from collections.abc import Iterator
from enum import StrEnum

from agent_dev.diff.hunks import BareHunk, detect_line_end, find_hunks, is_diffable, join_lines, split_lines
from agent_dev.quick_dataclass import dataclass, replace


class InvalidSelection(ValueError):
    """A selection names a hunk or line that is not in the change."""


class DiffSide(StrEnum):
    """The text that a line belongs to: OLD is deleted, NEW is added."""

    OLD = "old"
    NEW = "new"


class SelectionState(StrEnum):
    """The part of a hunk that is selected."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class LineSelection:
    """A selection from one change: whole hunks by index, and single lines of other hunks by number, all from 0.

    `old_lines`: selected deletions, `new_lines`: selected insertions. Everything else stays unchanged.
    `mode`: a changed mode and attributes are selected, too.
    """

    hunks: frozenset[int] = frozenset()
    old_lines: frozenset[int] = frozenset()
    new_lines: frozenset[int] = frozenset()
    mode: bool = True

    @property
    def has_lines(self) -> bool:
        """Return whether any line is selected."""
        return bool(self.hunks or self.old_lines or self.new_lines)


NOTHING_SELECTED = LineSelection()
_EMPTY: frozenset[int] = frozenset()


def select_all(hunks: tuple[BareHunk, ...]) -> LineSelection:
    """Select all hunks."""
    return LineSelection(frozenset(range(len(hunks))))


def selection_state(selection: LineSelection, hunks: tuple[BareHunk, ...], index: int) -> SelectionState:
    """Return how much of a hunk is selected."""
    if index in selection.hunks:
        return SelectionState.ALL
    old, new = _single_lines(selection, hunks[index])
    if not old and not new:
        return SelectionState.NONE
    return (
        SelectionState.ALL if len(old) == hunks[index].old_lines and len(new) == hunks[index].new_lines else SelectionState.SOME
    )


def is_line_selected(selection: LineSelection, hunks: tuple[BareHunk, ...], side: DiffSide, number: int) -> bool:
    """Return whether a line is selected, alone or with its hunk. Raises InvalidSelection for a line outside all hunks."""
    single = selection.old_lines if side is DiffSide.OLD else selection.new_lines
    return number in single or find_hunk_index(hunks, side, number) in selection.hunks


def toggle_hunk(selection: LineSelection, hunks: tuple[BareHunk, ...], index: int) -> LineSelection:
    """Select a whole hunk, or deselect it if it was entirely selected."""
    others = _without(selection, hunks[index], index)
    if selection_state(selection, hunks, index) is SelectionState.ALL:
        return others
    return replace(others, hunks=others.hunks | {index})


def toggle_line(selection: LineSelection, hunks: tuple[BareHunk, ...], side: DiffSide, number: int) -> LineSelection:
    """Select or deselect a line; a hunk of which all lines are selected is selected as a whole. Raises InvalidSelection."""
    index = find_hunk_index(hunks, side, number)
    hunk = hunks[index]
    old, new = _all_lines(hunk) if index in selection.hunks else _single_lines(selection, hunk)
    if side is DiffSide.OLD:
        old ^= {number}
    else:
        new ^= {number}
    return select_lines(_without(selection, hunk, index), hunks, old, new)


def select_lines(
    selection: LineSelection, hunks: tuple[BareHunk, ...], old: frozenset[int], new: frozenset[int]
) -> LineSelection:
    """Add lines to a selection; a hunk of which all lines are selected is selected as a whole. Raises InvalidSelection."""
    touched = {find_hunk_index(hunks, DiffSide.OLD, number) for number in old} | {
        find_hunk_index(hunks, DiffSide.NEW, number) for number in new
    }
    whole, single_old, single_new = set(selection.hunks), set(selection.old_lines | old), set(selection.new_lines | new)
    for index in touched:
        olds, news = _all_lines(hunks[index])
        if index in whole or (olds <= single_old and news <= single_new):
            whole.add(index)
            single_old -= olds
            single_new -= news
    return replace(selection, hunks=frozenset(whole), old_lines=frozenset(single_old), new_lines=frozenset(single_new))


def find_hunk_index(hunks: tuple[BareHunk, ...], side: DiffSide, number: int) -> int:
    """Return the index of the hunk that contains a line. Raises InvalidSelection if none does."""
    low, high = 0, len(hunks)
    while low < high:
        middle = (low + high) // 2
        end = hunks[middle].old_end if side is DiffSide.OLD else hunks[middle].new_end
        low, high = (middle + 1, high) if end <= number else (low, middle)
    if low < len(hunks) and number >= (hunks[low].old_start if side is DiffSide.OLD else hunks[low].new_start):
        return low
    raise InvalidSelection(f"{side} line {number + 1} is not changed")


def apply_selection(before: bytes, after: bytes, selection: LineSelection) -> bytes:
    """Return `before` with the selected part of the change to `after`.

    Within a hunk the k-th old line, if kept, comes before the k-th new one, if selected: part of a replacement keeps the order of
    lines. A line without a line end gets one if another follows. A file that is not diffable is one hunk without lines.
    Raises InvalidSelection.
    """
    hunks = find_hunks(before, after)
    _validate(selection, hunks, has_lines=is_diffable(before, after))
    if selection.hunks == frozenset(range(len(hunks))):
        return after
    if not selection.has_lines:
        return before
    old, new = split_lines(before), split_lines(after)
    parts: list[bytes] = []
    position = 0
    for index, hunk in enumerate(hunks):
        parts += old[position : hunk.old_start]
        parts += new[hunk.new_start : hunk.new_end] if index in selection.hunks else _selected_lines(hunk, old, new, selection)
        position = hunk.old_end
    return join_lines(parts + old[position:], detect_line_end(before, after))


def _selected_lines(hunk: BareHunk, old: list[bytes], new: list[bytes], selection: LineSelection) -> Iterator[bytes]:
    for step in range(max(hunk.old_lines, hunk.new_lines)):
        if step < hunk.old_lines and hunk.old_start + step not in selection.old_lines:
            yield old[hunk.old_start + step]
        if step < hunk.new_lines and hunk.new_start + step in selection.new_lines:
            yield new[hunk.new_start + step]


def _validate(selection: LineSelection, hunks: tuple[BareHunk, ...], *, has_lines: bool) -> None:
    unknown = sorted(selection.hunks - frozenset(range(len(hunks))))
    if unknown:
        raise InvalidSelection(f"there is no hunk {unknown[0] + 1}, only {len(hunks)}")
    if not has_lines and (selection.old_lines or selection.new_lines):
        raise InvalidSelection("the file is too large to select lines of it")
    for side, numbers in ((DiffSide.OLD, selection.old_lines), (DiffSide.NEW, selection.new_lines)):
        for number in numbers:
            find_hunk_index(hunks, side, number)


def _all_lines(hunk: BareHunk) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(range(hunk.old_start, hunk.old_end)), frozenset(range(hunk.new_start, hunk.new_end))


def _single_lines(selection: LineSelection, hunk: BareHunk) -> tuple[frozenset[int], frozenset[int]]:
    """Return the single lines of a hunk that are selected."""
    if not selection.old_lines and not selection.new_lines:
        return _EMPTY, _EMPTY
    old, new = _all_lines(hunk)
    return selection.old_lines & old, selection.new_lines & new


def _without(selection: LineSelection, hunk: BareHunk, index: int) -> LineSelection:
    old, new = _single_lines(selection, hunk)
    return replace(
        selection, hunks=selection.hunks - {index}, old_lines=selection.old_lines - old, new_lines=selection.new_lines - new
    )
