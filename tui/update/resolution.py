"""Update the resolutions of a change's conflicts, and which of the agent's other edits in the same file are left out."""

from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs.entry import Key
from agent_dev.quick_dataclass import replace
from tui.effects import Resolutions, Resolve
from tui.events import Pane
from tui.model.document import DiffRow, RowKind
from tui.model.tabs import Tab
from tui.state import State, Transition
from tui.update import cursor

_IS_EDITED = "resolved in an editor: press the key again to drop that text (e: edit again)"


def resolve(state: State, side: ConflictSide) -> Transition:
    """Resolve the conflict under the cursor, or leave out or apply an edit of the agent's.

    When the last conflict of a change has a resolution, the change is resolved.
    """
    change, document = state.change, state.diff.document
    if change is None or document.conflict_count < 0:
        return replace(state, message="no conflict here"), ()
    if not document.conflict_count:
        return _with_answers(state, change.key, (side,))
    if document.is_edited and not state.replaces_edit:
        return replace(state, replaces_edit=True, message=_IS_EDITED), ()
    answers, row = _answers(state, change.key), _row_under_cursor(state)
    is_on = row is not None and row.kind in (RowKind.CONFLICT, RowKind.STACKED, RowKind.HEADING) and row.hunk >= 0
    unresolved = next((index for index, one in enumerate(answers) if one is None), document.default_resolutions.index(None))
    choice = row.hunk if is_on and row is not None else unresolved
    if document.is_edit(choice) and state.is_resolving:
        return replace(state, message="a commit is imported with all its edits (e: edit the file)"), ()
    if document.is_edit(choice) and side is ConflictSide.BOTH:
        return replace(state, message="no conflict here: < leaves the edit out, > applies it"), ()
    answers[choice] = side
    return _with_answers(state, change.key, tuple(answers))


def _answers(state: State, key: Key) -> list[ConflictSide | bytes | None]:
    """Return the resolutions of the current change's choices so far, else the default."""
    defaults = state.diff.document.default_resolutions
    given = state.resolutions.get(key, ())
    return [*(given if len(given) == len(defaults) else defaults)]


def _row_under_cursor(state: State) -> DiffRow | None:
    return state.diff.document.rows[state.diff.cursor] if state.diff.row_count and state.pane is Pane.DIFF else None


def edits_at(state: State, row: int | None, pane: Pane) -> tuple[int, ...]:
    """Return the agent's edits at a row (None: the marked rows) of a file with conflicts, as choices of its merge."""
    document = state.diff.document
    if pane is not Pane.DIFF or state.tab is not Tab.CHANGES or state.change is None or state.is_resolving:
        return ()
    if document.key != state.change.key or document.conflict_count <= 0:
        return ()
    marked = range(row, row + 1) if row is not None else state.diff.marked_rows
    found = {document.rows[index].hunk for index in marked if index < len(document.rows)}
    return tuple(sorted(choice for choice in found if document.is_edit(choice)))


def left_out(state: State, edits: tuple[int, ...]) -> tuple[int, ...]:
    """Return which of the agent's edits in the current change are left out."""
    key = state.diff.document.key
    answers = _answers(state, key) if key is not None else []
    return tuple(choice for choice in edits if answers[choice] is ConflictSide.YOURS)


def toggle_edits(state: State, edits: tuple[int, ...]) -> Transition:
    """Leave out edits of the agent's, or apply them if all are left out."""
    key = state.diff.document.key
    if key is None:
        return state, ()
    answers = _answers(state, key)
    are_left_out = left_out(state, edits) == edits
    for choice in edits:
        answers[choice] = ConflictSide.AGENT if are_left_out else ConflictSide.YOURS
    return _with_answers(state, key, tuple(answers))


def _with_answers(state: State, key: Key, answers: Resolutions) -> Transition:
    left = sum(answer is None for answer in answers)
    new = replace(state, resolutions={**state.resolutions, key: answers}, message=f"{left} more to resolve" if left else "")
    reloaded, effects = cursor.reload_current(new)
    return (reloaded, effects) if left else (replace(reloaded, awaits_resolution=True), (Resolve(key, answers), *effects))
