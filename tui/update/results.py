"""Update the state with results of workers: diffs, syntax, counts, risks, conflicts, searches, merges."""

from collections.abc import Mapping
from typing import assert_never

from agent_dev.fs.entry import Key
from agent_dev.overlay import selection as core
from agent_dev.overlay.changes import Change, ChangeSet, Risk
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import replace
from tui.effects import Effect, Quit
from tui.events import (
    ChangesRefreshed,
    ChangesResult,
    ChangeUpdated,
    CommitsFound,
    DeletionsCounted,
    DiffLoaded,
    EntriesLoaded,
    Highlighted,
    LinesCounted,
    MessageReported,
    OperationFinished,
    Pane,
    ProgressReported,
    Resized,
    ResolutionFailed,
    Result,
    RisksAssessed,
    SearchFinished,
)
from tui.model import change_list, totals
from tui.model.change_list import ChangeRow
from tui.model.document import Document
from tui.model.totals import LineCount
from tui.source import Ending
from tui.state import ScreenPage, State, Transition, with_selection
from tui.update import cursor as moving
from tui.update import display, questions


def update_results(state: State, fact: Result) -> Transition:
    """Handle a result."""
    match fact:
        case DiffLoaded() | Highlighted() | SearchFinished():
            return _update_diff(state, fact)
        case LinesCounted() | CommitsFound() | RisksAssessed() | DeletionsCounted() | ChangeUpdated() | ChangesRefreshed():
            return _update_changes(state, fact)
        case ProgressReported() | OperationFinished() | EntriesLoaded():
            return _update_work(state, fact)
        case Resized(columns):
            new = replace(state, columns=columns)
            return moving.reload_current(new) if columns != state.columns else (new, ())
        case ResolutionFailed(message):
            return replace(state, awaits_resolution=False, message=message), ()
        case MessageReported(message):
            return replace(state, message=message), ()
        case _:
            assert_never(fact)


def _update_work(state: State, fact: ProgressReported | OperationFinished | EntriesLoaded) -> Transition:
    match fact:
        case ProgressReported(done, total):
            return replace(state, progress=(done, total)), ()
        case OperationFinished():
            return _finish_operation(state, fact)
        case EntriesLoaded(tab, entries):
            new = replace(state, tabs={**state.tabs, tab: entries}, has_commit_details=True)
            return moving.load_current(new) if state.tab is tab else (new, ())
        case _:
            assert_never(fact)


def _finish_operation(state: State, done: OperationFinished) -> Transition:
    """Show the result; after a merge without problems the notes that wait for it are sent back at once."""
    new = replace(
        state,
        page=ScreenPage.CONFLICTS if done.conflicts else ScreenPage.RESULT,
        result=done.lines,
        may_have_changed=done.may_have_changed,
        has_rest=done.has_rest,
        code=done.code if done.may_have_changed else state.code,
    )
    if state.ending is Ending.SEND_BACK and done.may_have_changed and not (done.code or done.conflicts):
        return replace(new, page=ScreenPage.REVIEW), (Quit(saves_selection=False),)
    return replace(new, ending=Ending.KEEP), ()


def _update_diff(state: State, fact: DiffLoaded | Highlighted | SearchFinished) -> Transition:
    match fact:
        case DiffLoaded(document):
            return _show_diff(state, document), ()
        case Highlighted(key, colours):
            is_current = state.diff.key == key
            return (replace(state, diff=replace(state.diff, highlighting=colours)) if is_current else state), ()
        case SearchFinished(key, line):
            return _finish_search(state, key, line)
        case _:
            assert_never(fact)


def _update_changes(state: State, fact: ChangesResult) -> Transition:
    match fact:
        case LinesCounted(counts):
            return _add_counts(state, counts), ()
        case CommitsFound(commits):
            return replace(state, change_commits=commits), ()
        case RisksAssessed(risks):
            return _add_risks(state, risks)
        case DeletionsCounted(selection, files):
            return questions.continue_summary(state, selection, files), ()
        case ChangeUpdated(change, message, is_taken, is_edited):
            answers = {key: some for key, some in state.resolutions.items() if not (is_edited and key == change.key)}
            state = replace(state, resolutions=answers, awaits_resolution=False)
            new, effects = _replace_change(state, change, message, is_selected=is_taken)
            return (new, effects) if is_edited or not is_taken else _at_next_conflict(new, effects, change)
        case ChangesRefreshed(changes):
            return _refresh(state, changes)
        case _:
            assert_never(fact)


def _show_diff(state: State, document: Document) -> State:
    """Show a loaded diff; the cursor stays on its line if the same diff was reloaded."""
    diff = state.diff
    if diff.key != document.key:
        return state  # outdated: the cursor has moved
    if state.pane is Pane.DIFF and not diff.cursor and not diff.is_loaded:  # entered before it was loaded
        cursor = moving.first_selectable_row(document)
    else:
        cursor = _find_same_line(diff.document, diff.cursor, document)
    return replace(state, diff=replace(diff, document=document, cursor=cursor, anchor=-1, is_loaded=True))


def _find_same_line(old: Document, cursor: int, new: Document) -> int:
    current = old.rows[cursor] if cursor < len(old.rows) else None
    if current is None or not cursor or old.key != new.key:
        return max(0, min(cursor, len(new.rows) - 1))
    lines = (current.old_line, current.new_line)
    for row, one in enumerate(new.rows):
        if lines != (-1, -1) and (
            (one.old_line, one.new_line) == lines or (one.old_line >= 0 and one.old_line == current.old_line)
        ):
            return row
    if 0 <= current.hunk < len(new.hunk_rows):
        return new.hunk_rows[current.hunk]
    return max(0, min(cursor, len(new.rows) - 1))


def _add_counts(state: State, counts: Mapping[Key, LineCount]) -> State:
    """Add line counts to the totals of all changes and of the selection."""
    table = state.changes.by_key()
    fresh = {key: count for key, count in counts.items() if key in table}
    counted = [table[key] for key in fresh]
    merged = state.counts.with_counts(fresh)
    whole = state.totals - totals.sum_changes(counted, state.counts, {}) + totals.sum_changes(counted, merged, {})
    selected = [change for change in counted if change.key in state.selection]
    selected_totals = (
        state.selected_totals
        - totals.sum_changes(selected, state.counts, state.parts)
        + totals.sum_changes(selected, merged, state.parts)
    )
    return replace(state, counts=merged, totals=whole, selected_totals=selected_totals)


def _add_risks(state: State, risks: Mapping[Key, tuple[Risk, ...]]) -> Transition:
    """Add the assessed risks to the changes, and continue to apply the selection."""
    if not risks.keys() & state.unassessed:
        return state, ()  # requested twice
    changes = tuple(replace(one, risks=risks[one.key]) if one.key in risks else one for one in state.changes.changes)
    current = state.change.key if state.change else None
    new = _with_changes(state, replace(state.changes, changes=changes))
    cursor = max(new.listing.row_of(current), 0) if current else new.cursor
    return questions.continue_apply(replace(new, unassessed=state.unassessed - risks.keys(), cursor=cursor))


def _with_changes(state: State, changes: ChangeSet) -> State:
    """Replace the changes; keep the selection where possible."""
    table = changes.by_key()
    keys = frozenset(key for key in state.selection.keys if key in table and table[key].is_clean)
    selection = Selection(keys, {key: part for key, part in state.selection.partial.items() if key in keys})
    parts = {key: count for key, count in state.parts.items() if key in selection.partial}
    new = replace(
        state,
        changes=changes,
        selection=selection,
        parts=parts,
        totals=totals.sum_changes(changes.changes, state.counts, {}),
        selected_totals=totals.sum_changes((table[key] for key in keys), state.counts, parts),
        undo_steps=(),
        redo_steps=(),
    )
    return display.rebuild_list(new)


def _replace_change(state: State, change: Change, message: str, *, is_selected: bool) -> Transition:
    current = state.change.key if state.change else None
    changes = tuple(change if one.key == change.key else one for one in state.changes.changes)
    left = sum(not one.is_clean for one in changes) if state.is_resolving else 0
    message += f"; {left} more to resolve (!: next)" if left else ""
    new = replace(_with_changes(state, replace(state.changes, changes=changes)), message=message)
    if is_selected and change.is_clean and change.key not in new.selection:
        new = with_selection(new, core.select(new.selection, frozenset((change.key,)), new.changes), message)
    row = new.listing.row_of(current) if current else -1
    new = replace(new, cursor=row) if row >= 0 else new
    return moving.reload_current(new) if new.diff.key == current else moving.load_current(new)


def _at_next_conflict(state: State, effects: tuple[Effect, ...], resolved: Change) -> Transition:
    """After a conflict was resolved in the list, move to the next one; in the diff the cursor stays on its lines."""
    if state.pane is Pane.DIFF or not resolved.is_clean or state.change is None or state.change.key != resolved.key:
        return state, effects
    conflicts = [one.key for one in state.changes.changes if one.conflict and state.listing.row_of(one.key) >= 0]
    if not conflicts:
        return state, effects
    key = next((one for one in conflicts if one > resolved.key), conflicts[0])
    return moving.move_list_to(state, state.listing.row_of(key))


def _refresh(state: State, changes: ChangeSet) -> Transition:
    if changes == state.changes:
        return state, ()
    new = _with_changes(state, changes)
    is_same_change = new.diff.key is not None and new.change is not None and new.change.key == new.diff.key
    return moving.reload_current(new) if is_same_change else moving.load_current(new)


def _finish_search(state: State, key: Key | None, line: int) -> Transition:
    """Move to the match that was found; its diff is loaded afterwards."""
    if key is None:
        return replace(state, message=f"not found: {state.search}", search=""), ()
    row = state.listing.row_of(key)
    if row < 0:
        return state, ()
    if not isinstance(state.listing.rows[row], ChangeRow):
        opened = change_list.with_group_closed(state.listing, state.listing.group_of[key], closed=False)
        state = replace(state, listing=opened)
        row = opened.row_of(key)
    new, effects = moving.move_list_to(replace(state, message="n: next match, N: previous match"), row)
    new = moving.focus_pane(new, Pane.DIFF)
    return replace(new, diff=replace(new.diff, cursor=line)), effects
