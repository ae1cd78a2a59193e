"""Keys in a file with conflicts: conflicts are resolved, and the agent's other edits are left out or applied."""

from dataclasses import replace

import pytest

from agent_dev.diff.merge3 import ConflictSide, merge_lines
from tests.unit.tui.tui_states import after, change, changes
from tui.effects import Resolutions, Resolve
from tui.events import (
    ChangeUpdated,
    ConflictResolved,
    CursorMoved,
    CursorMovedTo,
    DiffLoaded,
    EnterPressed,
    HunkMoved,
    Pane,
    Toggled,
)
from tui.model import conflict
from tui.model.document import DiffOptions, Document
from tui.state import State
from tui.update.dispatch import initial_state, update

YOURS, AGENT, BOTH = ConflictSide.YOURS, ConflictSide.AGENT, ConflictSide.BOTH
CHANGE = change("f", conflict="both")
MERGED = merge_lines(b"1\n\n2\n\n3\n", b"1\n\nyours\n\n3\n", b"one\n\ntwo\n\nthree\n")  # edit, conflict, edit


def document(*answers: ConflictSide | None) -> Document:
    return conflict.conflict_document(CHANGE, (), MERGED, answers, DiffOptions())


def opened(*, is_resolving: bool = False) -> State:
    """Return the screen with the diff open; the cursor is on the first edit."""
    state = initial_state(changes(CHANGE), is_resolving=is_resolving)[0]
    return after(state, DiffLoaded(document()), EnterPressed())


def resolutions(state: State) -> Resolutions | None:
    return state.resolutions.get(CHANGE.key)


def test_space_leaves_out_an_edit_and_applies_it_again() -> None:
    left_out = after(opened(), Toggled())
    assert resolutions(left_out) == (YOURS, None, AGENT)
    assert resolutions(after(left_out, Toggled())) == (AGENT, None, AGENT)
    assert resolutions(after(left_out, HunkMoved(1), HunkMoved(1), Toggled())) == (YOURS, None, YOURS)


def test_enter_applies_an_edit_that_is_left_out_and_keeps_others() -> None:
    kept = after(opened(), EnterPressed())
    assert (resolutions(kept), kept.diff.cursor) == (None, document().hunk_rows[1])
    assert resolutions(after(opened(), Toggled(), EnterPressed())) == (AGENT, None, AGENT)


def test_both_sides_leave_out_and_apply_an_edit() -> None:
    left_out = after(opened(), ConflictResolved(YOURS))
    assert resolutions(left_out) == (YOURS, None, AGENT)
    assert resolutions(after(left_out, ConflictResolved(AGENT))) == (AGENT, None, AGENT)
    assert resolutions(after(left_out, HunkMoved(1), ConflictResolved(BOTH))) == (YOURS, BOTH, AGENT)


def test_an_edit_is_not_resolved_with_both() -> None:
    state = after(opened(), ConflictResolved(BOTH))
    assert (resolutions(state), "no conflict here" in state.message) == (None, True)


def test_a_range_leaves_out_every_edit_in_it() -> None:
    state = after(opened(), CursorMoved(100, extends_range=True), Toggled())
    assert resolutions(state) == (YOURS, None, YOURS)
    assert resolutions(after(state, CursorMovedTo(0, Pane.DIFF), CursorMoved(100, extends_range=True), Toggled())) == (
        AGENT,
        None,
        AGENT,
    )


def test_in_the_list_a_key_resolves_the_conflict_and_no_edit() -> None:
    state = replace(opened(), pane=Pane.LIST)
    new, effects = update(state, ConflictResolved(YOURS))
    assert resolutions(new) == (AGENT, YOURS, AGENT)
    assert Resolve(CHANGE.key, (AGENT, YOURS, AGENT)) in effects


def test_an_edit_is_toggled_after_the_conflict_was_resolved() -> None:
    resolved = ChangeUpdated(replace(CHANGE, conflict=None))
    state = after(opened(), HunkMoved(1), ConflictResolved(AGENT), resolved, HunkMoved(1))
    _, effects = update(state, Toggled())
    assert Resolve(CHANGE.key, (AGENT, AGENT, YOURS)) in effects


def test_a_commit_is_imported_with_all_its_edits() -> None:
    state = after(opened(is_resolving=True), ConflictResolved(YOURS))
    assert (resolutions(state), "with all its edits" in state.message) == (None, True)
    assert resolutions(after(state, Toggled())) is None


@pytest.mark.parametrize(("answers", "boxes"), [((), [True, None, True]), ((YOURS, None, AGENT), [False, None, True])])
def test_the_heading_of_an_edit_has_a_checkbox(answers: tuple[ConflictSide | None, ...], boxes: list[bool | None]) -> None:
    shown = document(*answers)
    assert [shown.rows[row].is_applied for row in shown.hunk_rows] == boxes


def test_a_text_from_the_editor_is_dropped_only_by_a_second_key() -> None:
    edited = conflict.edited_document(CHANGE, (), MERGED, b"1\n\nby hand\n\n3\n", DiffOptions())
    state = after(initial_state(changes(CHANGE))[0], DiffLoaded(edited), EnterPressed())
    once, effects = update(state, ConflictResolved(YOURS))
    assert (effects, resolutions(once)) == ((), None)
    assert "press the key again" in once.message
    moved = after(once, CursorMoved(1), ConflictResolved(YOURS))
    assert resolutions(moved) is None  # another key in between
    assert resolutions(after(once, ConflictResolved(YOURS))) == (AGENT, YOURS, AGENT)
