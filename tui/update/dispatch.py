"""The update function of the review screen, and its initial state."""

from collections.abc import Mapping

from agent_dev.overlay.changes import ChangeSet
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import replace
from tui.events import (
    ConflictResolved,
    DisplayEvent,
    Event,
    Movement,
    Navigation,
    PromptEvent,
    QuestionEvent,
    Result,
    SelectionEvent,
    TabSelected,
)
from tui.model import change_list, totals
from tui.model.change_list import ChangeRow
from tui.model.tabs import Tab, TabEntry
from tui.source import Draft
from tui.state import ScreenPage, State, Transition, with_selection
from tui.update import cursor, display, navigation, prompt, questions, results, typed_ahead
from tui.update import selection as choosing

_NO_DRAFT = Draft()


def initial_state(
    changes: ChangeSet,
    columns: int = 80,
    *,
    draft: Draft = _NO_DRAFT,
    tabs: Mapping[Tab, tuple[TabEntry, ...]] | None = None,
    is_running: bool = False,
    is_resolving: bool = False,
) -> Transition:
    """Return the initial state: the previous selection is restored, and the cursor is on the first change.

    If there are only commits, their tab is shown.
    """
    listing = change_list.build_listing(changes)
    state = State(
        changes=changes,
        listing=listing,
        totals=totals.sum_changes(changes.changes, {}, {}),
        selected_per_group=(0,) * len(listing.groups),
        columns=columns,
        tabs=tabs or {},
        reviewed=draft.reviewed,
        is_running=is_running,
        is_resolving=is_resolving,
        resolutions=draft.resolutions or {},
        notes=draft.notes,
    )
    if tabs and Tab.COMMITS in tabs and not (changes.changes or changes.problems):
        return navigation.navigate(state, TabSelected(Tab.COMMITS))
    if draft.selection.keys:
        state = with_selection(state, _applicable(draft.selection, changes), "previous selection restored", draft.parts)
    return cursor.move_list_to(state, _initial_cursor(state, draft))


def _applicable(selection: Selection, changes: ChangeSet) -> Selection:
    table = changes.by_key()
    keys = frozenset(key for key in selection.keys if key in table and table[key].is_clean)
    return Selection(keys, {key: part for key, part in selection.partial.items() if key in keys})


def _initial_cursor(state: State, draft: Draft) -> int:
    row = state.listing.row_of(draft.cursor) if draft.cursor else -1
    if row >= 0:
        return row
    return next((at for at, one in enumerate(state.listing.rows) if isinstance(one, ChangeRow)), 0)


def update(state: State, event: Event) -> Transition:
    """Return the state after an event, and the effects to run; an event that needs a result of a worker waits for it."""
    if typed_ahead.must_wait(state, event):
        return typed_ahead.hold(state, event), ()
    state, effects = _update(state, event)
    state, held = typed_ahead.next_event(state)
    while held is not None:
        state, more = _update(state, held)
        effects = (*effects, *more)
        state, held = typed_ahead.next_event(state)
    return state, effects


def _update(state: State, event: Event) -> Transition:
    if isinstance(event, Result):
        return results.update_results(state, event)
    if isinstance(event, QuestionEvent):
        return questions.update_question(state, event)
    if isinstance(event, PromptEvent):
        is_possible = state.page is ScreenPage.PROMPT or (state.page is ScreenPage.REVIEW and not state.prompt)
        return prompt.update_prompt(state, event) if is_possible else (state, ())
    if isinstance(event, Movement) and state.page is ScreenPage.PROMPT:
        return prompt.move_palette_cursor(state, getattr(event, "by", 0)), ()
    if state.page is not ScreenPage.REVIEW:
        return state, ()
    is_repeated = state.replaces_edit and isinstance(event, ConflictResolved)
    return _update_review(replace(state, message="", replaces_edit=is_repeated), event)


def _update_review(state: State, event: Movement | Navigation | SelectionEvent | DisplayEvent) -> Transition:
    if isinstance(event, Movement):
        return cursor.update_cursor(state, event)
    if isinstance(event, Navigation):
        return navigation.navigate(state, event)
    if isinstance(event, DisplayEvent):
        return display.update_display(state, event)
    return choosing.update_selection(state, event)
