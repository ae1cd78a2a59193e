"""Hold back keys that need a result of a worker: the diff under the cursor, or the resolution of a conflict.

Without this, a key typed before the diff was read would apply to nothing, or to the whole file instead of a hunk. Reading may
take long, so quitting never waits, and a second Escape drops what waits.
"""

from agent_dev.quick_dataclass import replace
from tui.events import (
    ChangeMoved,
    ConflictResolved,
    CursorMoved,
    CursorMovedTo,
    EditRequested,
    EnterPressed,
    EscapePressed,
    Event,
    HunkMoved,
    Pane,
    PromptKind,
    PromptOpened,
    QuitRequested,
    Result,
    ScrolledHorizontally,
    Toggled,
)
from tui.state import ScreenPage, State

_WAITING = "still working: keys wait (esc twice: drop them)"


def must_wait(state: State, event: Event) -> bool:
    """Return whether an event waits for a result; all that follow it wait too, so that their order is kept."""
    if isinstance(event, (Result, QuitRequested)) or state.page is not ScreenPage.REVIEW:
        return False
    return bool(state.typed_ahead) or _lacks_result(state, event)


def hold(state: State, event: Event) -> State:
    """Hold an event back, or drop all at the second of two Escapes."""
    if isinstance(event, EscapePressed) and state.typed_ahead[-1:] == (event,):
        return replace(state, typed_ahead=(), message="keys dropped")
    return replace(state, typed_ahead=(*state.typed_ahead, event), message=_WAITING)


def next_event(state: State) -> tuple[State, Event | None]:
    """Return the first held event, removed from the state, if it waits no longer; else None.

    What was typed for the review is no answer to a question, so it is dropped if another page was opened.
    """
    if not state.typed_ahead:
        return state, None
    if state.page is not ScreenPage.REVIEW:
        return replace(state, typed_ahead=()), None
    first, *rest = state.typed_ahead
    return (state, None) if _lacks_result(state, first) else (replace(state, typed_ahead=tuple(rest)), first)


def _lacks_result(state: State, event: Event) -> bool:
    """Return whether an event must wait. A resolved conflict moves in the list, and with it the cursor, so all wait for it."""
    return state.awaits_resolution or (not state.diff.is_loaded and _needs_diff(state, event))


def _needs_diff(state: State, event: Event) -> bool:
    """Return whether an event depends on the rows of the diff."""
    match event:
        case ConflictResolved() | EditRequested() | HunkMoved() | ScrolledHorizontally():
            return True
        case Toggled(_, pane) | CursorMovedTo(_, pane):
            return (pane or state.pane) is Pane.DIFF
        case CursorMoved() | EnterPressed() | PromptOpened(PromptKind.NOTE):
            return state.pane is Pane.DIFF
        case ChangeMoved():
            return bool(state.search)  # moves to the next match, which may be in this diff
        case _:
            return False
