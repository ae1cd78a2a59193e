"""Rows of a diff as a choice of blocks, lines and mode: what a key on a row takes, and what of a row is chosen."""

from collections.abc import Iterable
from dataclasses import replace

from agent_dev.diff import partial as core
from agent_dev.diff.partial import Choice, Side
from agent_dev.overlay.changes import Change, Kind
from agent_dev.overlay.selection import Selection
from tui.model.document import Document, Part, Row
from tui.model.totals import Count

State = core.State
Wish = Choice | bool  # a part; True: all of it, False: nothing


def choice_of(selection: Selection, document: Document) -> Choice:
    """Return what of a change is chosen, as blocks, lines and mode."""
    if document.key is None or document.key not in selection:
        return Choice(mode=False)
    return selection.choices.get(document.key) or core.everything(document.blocks)


def state_of(row: Row, choice: Choice, document: Document, *, is_lines: bool) -> State:
    """Return how much of what a row stands for is chosen."""
    if row.part is Part.MODE:
        return State.ALL if choice.mode else State.NONE
    if row.part is Part.WHOLE:
        return whole_state(choice, document)
    if row.block < 0:
        return State.NONE
    if not is_lines:
        return core.state(choice, document.blocks, row.block)
    found = [core.is_chosen(choice, document.blocks, side, number) for side, number in _lines(row)]
    if not found:
        return core.state(choice, document.blocks, row.block)
    return State.ALL if all(found) else State.SOME if any(found) else State.NONE


def whole_state(choice: Choice, document: Document) -> State:
    """Return how much of a change is chosen."""
    states = {core.state(choice, document.blocks, index) for index in range(len(document.blocks))}
    if document.has_mode:
        states.add(State.ALL if choice.mode else State.NONE)
    if not states:  # nothing that could be taken apart: the key itself says it
        return State.ALL if choice.mode else State.NONE
    return states.pop() if len(states) == 1 else State.SOME


def toggled(choice: Choice, rows: Iterable[Row], document: Document, *, is_lines: bool) -> Choice:
    """Take what rows stand for, or leave it when all of it is taken."""
    wanted = [row for row in rows if row.block >= 0 or row.part is not None]
    is_on = not all(state_of(row, choice, document, is_lines=is_lines) is State.ALL for row in wanted)
    for row in wanted:
        choice = _with(choice, row, document, is_lines=is_lines, is_on=is_on)
    return choice


def _with(choice: Choice, row: Row, document: Document, *, is_lines: bool, is_on: bool) -> Choice:
    if row.part is Part.MODE:
        return replace(choice, mode=is_on)
    if row.part is Part.WHOLE:
        return core.everything(document.blocks) if is_on else Choice(mode=False)
    if not is_lines or not _lines(row):
        is_all = core.state(choice, document.blocks, row.block) is State.ALL
        return choice if is_all == is_on else core.toggle_block(choice, document.blocks, row.block)
    for side, number in _lines(row):
        if core.is_chosen(choice, document.blocks, side, number) != is_on:
            choice = core.toggle_line(choice, document.blocks, side, number)
    return choice


def _lines(row: Row) -> list[tuple[Side, int]]:
    return [(side, number) for side, number in ((Side.OLD, row.old), (Side.NEW, row.new)) if number >= 0]


def settled(choice: Choice, change: Change, document: Document) -> tuple[Wish, str]:
    """Correct a choice that means nothing by itself, with a word about it.

    A new file without any of its lines is not taken; without all of them it is created nevertheless. A deletion of which
    a line is left is an edit, of which none is left the deletion.
    """
    is_full = choice.blocks == frozenset(range(len(document.blocks)))
    if is_full and (choice.mode or not document.has_mode):
        return True, ""
    if not choice.has_lines:
        only_mode = document.has_mode and choice.mode and change.kind is Kind.EDITED
        return (replace(choice, mode=True), "") if only_mode else (False, "")
    if not document.has_mode:
        choice = replace(choice, mode=True)
    if change.kind is Kind.ADDED:
        return choice, "the file is created with these lines" if not is_full else ""
    if change.kind is Kind.DELETED:
        return choice, "the file stays, without these lines"
    return choice, ""


def count(choice: Choice, document: Document) -> Count:
    """Count what is chosen."""
    found = document.blocks
    whole = [found[index] for index in choice.blocks]
    touched = {core.block_of(found, Side.OLD, n) for n in choice.old} | {core.block_of(found, Side.NEW, n) for n in choice.new}
    return Count(
        len(whole) + len(touched),
        sum(block.new_lines for block in whole) + len(choice.new),
        sum(block.old_lines for block in whole) + len(choice.old),
    )
