"""Select hunks, lines and the mode of a change by rows of its diff, and find out which rows are selected."""

from collections.abc import Sequence

from agent_dev.diff import partial_selection as core
from agent_dev.diff.partial_selection import DiffSide, LineSelection
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import replace
from tui.model.document import ChangePart, DiffRow, Document
from tui.model.totals import LineCount

SelectionState = core.SelectionState
NormalizedSelection = LineSelection | bool  # a part of a change; True: all of it, False: nothing


def selection_of(selection: Selection, document: Document) -> LineSelection:
    """Return the selected hunks, lines and mode of a change."""
    if document.key is None or document.key not in selection:
        return LineSelection(mode=False)
    return selection.partial.get(document.key) or core.select_all(document.hunks)


def row_state(row: DiffRow, choice: LineSelection, document: Document, *, is_lines: bool) -> SelectionState:
    """Return how much of a row's item is selected."""
    if row.part is ChangePart.MODE:
        return SelectionState.ALL if choice.mode else SelectionState.NONE
    if row.part is ChangePart.WHOLE:
        return change_state(choice, document)
    if row.hunk < 0:
        return SelectionState.NONE
    if not is_lines:
        return core.selection_state(choice, document.hunks, row.hunk)
    selected = [core.is_line_selected(choice, document.hunks, side, number) for side, number in _lines(row)]
    if not selected:
        return core.selection_state(choice, document.hunks, row.hunk)
    return SelectionState.ALL if all(selected) else SelectionState.SOME if any(selected) else SelectionState.NONE


def change_state(choice: LineSelection, document: Document) -> SelectionState:
    """Return how much of a change is selected."""
    states = {core.selection_state(choice, document.hunks, index) for index in range(len(document.hunks))}
    if document.has_selectable_mode:
        states.add(SelectionState.ALL if choice.mode else SelectionState.NONE)
    if not states:  # no selectable parts: then `mode` stands for the whole change
        return SelectionState.ALL if choice.mode else SelectionState.NONE
    return states.pop() if len(states) == 1 else SelectionState.SOME


def toggle_rows(choice: LineSelection, rows: Sequence[DiffRow], document: Document, *, is_lines: bool) -> LineSelection:
    """Select the items of some selectable rows, or deselect them if all are selected."""
    is_on = not all(row_state(row, choice, document, is_lines=is_lines) is SelectionState.ALL for row in rows)
    for row in rows:
        choice = _with(choice, row, document, is_lines=is_lines, is_on=is_on)
    return choice


def _with(choice: LineSelection, row: DiffRow, document: Document, *, is_lines: bool, is_on: bool) -> LineSelection:
    if row.part is ChangePart.MODE:
        return replace(choice, mode=is_on)
    if row.part is ChangePart.WHOLE:
        return core.select_all(document.hunks) if is_on else LineSelection(mode=False)
    if not is_lines or not _lines(row):
        is_all = core.selection_state(choice, document.hunks, row.hunk) is SelectionState.ALL
        return choice if is_all == is_on else core.toggle_hunk(choice, document.hunks, row.hunk)
    for side, number in _lines(row):
        if core.is_line_selected(choice, document.hunks, side, number) != is_on:
            choice = core.toggle_line(choice, document.hunks, side, number)
    return choice


def _lines(row: DiffRow) -> list[tuple[DiffSide, int]]:
    return [(side, number) for side, number in ((DiffSide.OLD, row.old_line), (DiffSide.NEW, row.new_line)) if number >= 0]


def normalize(choice: LineSelection, change: Change, document: Document) -> tuple[NormalizedSelection, str]:
    """Normalize a partial selection, and return it with a status message.

    A new file is deselected if none of its lines is selected, and is otherwise created with the selected lines. A deletion of
    which some lines are selected is an edit.
    """
    is_full = choice.hunks == frozenset(range(len(document.hunks)))
    if is_full and (choice.mode or not document.has_selectable_mode):
        return True, ""
    if not choice.has_lines:
        only_mode = document.has_selectable_mode and choice.mode and change.kind in (ChangeKind.EDITED, ChangeKind.RENAMED)
        return (replace(choice, mode=True), "") if only_mode else (False, "")
    if not document.has_selectable_mode:
        choice = replace(choice, mode=True)
    if change.kind is ChangeKind.ADDED:
        return choice, "creates the file with these lines only" if not is_full else ""
    if change.kind is ChangeKind.DELETED:
        return choice, "keeps the file, without these lines"
    return choice, ""


def count_selected(choice: LineSelection, document: Document) -> LineCount:
    """Count the selected hunks and lines."""
    hunks = document.hunks
    whole = [hunks[index] for index in choice.hunks]
    partial = {core.find_hunk_index(hunks, DiffSide.OLD, n) for n in choice.old_lines} | {
        core.find_hunk_index(hunks, DiffSide.NEW, n) for n in choice.new_lines
    }
    return LineCount(
        len(whole) + len(partial),
        sum(hunk.new_lines for hunk in whole) + len(choice.new_lines),
        sum(hunk.old_lines for hunk in whole) + len(choice.old_lines),
    )
