"""Update the notes to the agent: about the line under the diff's cursor, or about the file under the list's cursor."""

from agent_dev.diff.review_note import ReviewNote, find_note, with_note
from agent_dev.overlay.labels import format_count
from agent_dev.quick_dataclass import replace
from tui.events import Pane, PromptKind
from tui.model.document import RowKind
from tui.model.tabs import Tab
from tui.state import Prompt, ScreenPage, State, Transition
from tui.update import cursor


def open_note(state: State) -> State:
    """Open the prompt for a note, with the existing note."""
    note = _note_here(state, "")
    if note is None or state.is_resolving or state.is_running:
        return replace(state, message="the agent is still running" if state.is_running else "no change here for a note")
    old = find_note(state.notes, note.place)
    text = old.text if old else ""
    return replace(state, page=ScreenPage.PROMPT, prompt=Prompt(PromptKind.NOTE, text, text), message="")


def close_note(state: State, text: str) -> Transition:
    """Save the note of the prompt; remove it if it is empty."""
    note = _note_here(state, text.strip())
    if note is None:
        return state, ()
    notes = with_note(state.notes, note)
    message = f"{format_count(len(notes), 'note')} (M: send back to the agent)" if notes else "note removed"
    return cursor.reload_current(replace(state, notes=notes, message=message))


def _note_here(state: State, text: str) -> ReviewNote | None:
    """Return a note about the line or file under the cursor; None if there is no change."""
    change = state.change
    if change is None or state.tab is not Tab.CHANGES:
        return None
    whole = ReviewNote(change.key.root, change.key.path, text)
    if state.pane is Pane.LIST or not state.diff.row_count:
        return whole
    document = state.diff.document
    row = document.rows[state.diff.cursor]
    if row.kind is RowKind.HEADING:  # about the first changed line below it
        row = next((one for one in document.rows[state.diff.cursor :] if one.hunk >= 0), row)
    if row.new_line >= 0:
        return _line_note(state, whole, row.new_line, is_old=False)
    return _line_note(state, whole, row.old_line, is_old=True) if row.old_line >= 0 else whole


def _line_note(state: State, note: ReviewNote, index: int, *, is_old: bool) -> ReviewNote:
    document = state.diff.document
    lines = document.old_lines if is_old else document.new_lines
    quote = lines[index].decode("utf-8", "replace").rstrip("\r\n") if index < len(lines) else ""
    return replace(note, line=index + 1, is_old=is_old, quote=quote)
