"""Update the text prompt: an incremental filter, a search, the command palette, a branch name, a note."""

from typing import assert_never

from agent_dev.quick_dataclass import replace
from tui.effects import RunAction
from tui.events import Pane, PromptClosed, PromptEdited, PromptEvent, PromptKind, PromptOpened
from tui.model.tabs import ImportMode, Tab
from tui.state import Prompt, ScreenPage, State, Transition
from tui.update import cursor, display, notes, questions


def update_prompt(state: State, event: PromptEvent) -> Transition:
    """Handle an event of the prompt: opened, edited, closed."""
    match event:
        case PromptOpened(PromptKind.NOTE):
            return notes.open_note(state), ()
        case PromptOpened(kind):
            text = state.listing.filter.text if kind is PromptKind.FILTER else ""
            return replace(state, page=ScreenPage.PROMPT, prompt=Prompt(kind, text, text), message=""), ()
        case PromptEdited(text):
            return _edit(state, text)
        case PromptClosed(is_meant):
            return _close(state, is_accepted=is_meant)
        case _:
            assert_never(event)


def _edit(state: State, text: str) -> Transition:
    if state.prompt is None:
        return state, ()
    new = replace(state, prompt=replace(state.prompt, text=text, cursor=0))
    if state.prompt.kind is not PromptKind.FILTER:
        return new, ()
    return cursor.load_current(display.with_filter(new, text))


def move_palette_cursor(state: State, by: int) -> State:
    """Move the palette's cursor."""
    if state.prompt is None:
        return state
    last = max(0, len(state.matching_actions) - 1)
    return replace(state, prompt=replace(state.prompt, cursor=max(0, min(state.prompt.cursor + by, last))))


def _close(state: State, *, is_accepted: bool) -> Transition:
    prompt = state.prompt
    done = replace(state, page=ScreenPage.REVIEW, prompt=None)
    if prompt is None:
        return done, ()
    if prompt.kind is PromptKind.FILTER and not is_accepted:
        return cursor.load_current(display.with_filter(done, prompt.initial_text))
    return _accept(done, prompt, state.matching_actions) if is_accepted else (done, ())


def _accept(state: State, prompt: Prompt, actions: tuple[tuple[str, str], ...]) -> Transition:
    """Carry out an accepted prompt; `actions` are the palette's matching actions."""
    match prompt.kind:
        case PromptKind.FILTER:
            count = len(state.listing.group_of)
            return replace(state, message=f"{count:,} match (esc: show all)" if prompt.text else ""), ()
        case PromptKind.SEARCH:
            return _search(state, prompt.text) if prompt.text else (state, ())
        case PromptKind.PALETTE:
            return state, ((RunAction(actions[prompt.cursor][0]),) if actions else ())
        case PromptKind.BRANCH:
            name = prompt.text.strip()
            return questions.start_import(state, ImportMode.NEW_BRANCH, name) if name else (state, ())
        case PromptKind.NOTE:
            return notes.close_note(state, prompt.text)
        case _:
            assert_never(prompt.kind)


def _search(state: State, text: str) -> Transition:
    """Move to the first match from the cursor on, in this diff or else in those of the next changes."""
    new = replace(state, search=text)
    if state.tab is not Tab.CHANGES:
        return cursor.search_changes(new, 1)
    document = new.diff.document
    start = new.diff.cursor if new.pane is Pane.DIFF else 0
    for row in range(start, len(document.rows)):
        if cursor.row_contains(document, row, text):
            focused = cursor.focus_pane(new, Pane.DIFF)
            return replace(focused, diff=replace(focused.diff, cursor=row), message="n: next match, N: previous match"), ()
    return cursor.search_changes(new, 1)
