"""Notes to the agent on the screen: written on lines and files, shown in the diff, sent back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.review_note import ReviewNote
from tests.unit.tui.tui_states import after, change, effects, on, row, shop
from tui.effects import Apply, LoadDiff, Quit
from tui.events import (
    NO,
    YES,
    Answered,
    ApplyRequested,
    Cancelled,
    CursorMovedTo,
    OperationFinished,
    Pane,
    PromptClosed,
    PromptEdited,
    PromptKind,
    PromptOpened,
    SendBackRequested,
    Toggled,
)
from tui.model.document import DiffRow, Document, RowKind
from tui.model.note_rows import NOTE_SIGN, with_notes
from tui.source import Ending
from tui.state import ScreenPage, State

WRITE = PromptOpened(PromptKind.NOTE)
DONE = OperationFinished(("1 change merged",), 0, has_rest=True)


def write(state: State, text: str) -> State:
    """Write a note at the cursor."""
    return after(state, WRITE, PromptEdited(text), PromptClosed(is_accepted=True))


def test_a_note_in_the_list_is_about_the_whole_file() -> None:
    state = write(shop(), " explain this ")
    assert state.notes == (ReviewNote(0, b"README.md", "explain this"),)
    assert state.page is ScreenPage.REVIEW
    assert state.message.startswith("1 note")


def test_a_note_in_the_diff_is_about_its_line() -> None:
    state = on(change("README.md"))
    for at, shown in enumerate(state.diff.document.rows):
        noted = write(after(state, CursorMovedTo(at, Pane.DIFF)), "why?").notes[0]
        if shown.kind is RowKind.ADDED:
            assert (noted.line, noted.is_old) == (shown.new_line + 1, False)
            assert noted.quote == state.diff.document.new_lines[shown.new_line].decode().rstrip("\n")
        elif shown.kind is RowKind.REMOVED:
            assert (noted.line, noted.is_old) == (shown.old_line + 1, True)
        elif shown.kind is RowKind.HEADING:
            assert noted.line >= 1
    kinds = {shown.kind for shown in state.diff.document.rows}
    assert {RowKind.ADDED, RowKind.REMOVED, RowKind.HEADING} <= kinds


def test_the_prompt_holds_the_note_that_is_there_and_an_empty_one_removes_it() -> None:
    state = write(shop(), "first")
    opened = after(state, WRITE)
    assert opened.prompt is not None
    assert opened.prompt.text == "first"
    assert after(opened, PromptEdited("other"), PromptClosed(is_accepted=False)).notes == state.notes
    assert write(state, "  ").notes == ()


def test_no_note_is_written_about_a_heading_or_while_the_agent_runs() -> None:
    heading = after(shop(), CursorMovedTo(0))
    assert after(heading, WRITE).page is ScreenPage.REVIEW
    running = replace(shop(), is_running=True)
    assert after(running, WRITE).message == "the agent is still running"


def test_a_diff_is_loaded_with_the_notes_about_its_change() -> None:
    state = write(shop(), "here")
    loads = effects(state, CursorMovedTo(row(state, "src/a.py")), CursorMovedTo(row(state, "README.md")))
    assert [len(one.notes) for one in loads if isinstance(one, LoadDiff)] == [1]


def test_sending_back_asks_first_and_needs_a_note() -> None:
    assert after(shop(), SendBackRequested()).message.startswith("no notes yet")
    state = after(write(shop(), "x"), SendBackRequested())
    assert (state.page, state.focused_answer) == (ScreenPage.SEND_BACK, NO)
    assert after(state, Answered(NO)).ending is Ending.KEEP
    assert after(state, Answered(YES)).ending is Ending.SEND_BACK
    assert effects(state, Answered(YES)) == (Quit(),)


def test_the_selection_can_be_applied_before_the_notes_are_sent() -> None:
    asked = after(write(shop(), "x"), Toggled(), SendBackRequested(), Answered(2))
    assert asked.page is ScreenPage.SUMMARY
    assert effects(asked, Answered(YES)) == (Apply(asked.selection),)
    applying = after(asked, Answered(YES))
    assert effects(applying, DONE) == (Quit(saves_selection=False),)
    assert after(applying, DONE).ending is Ending.SEND_BACK


@pytest.mark.parametrize("failed", [replace(DONE, code=1), replace(DONE, may_have_changed=False)])
def test_nothing_is_sent_after_a_merge_with_problems(failed: OperationFinished) -> None:
    applying = after(write(shop(), "x"), Toggled(), SendBackRequested(), Answered(2), Answered(YES))
    state = after(applying, failed)
    assert (state.page, state.ending) == (ScreenPage.RESULT, Ending.KEEP)


def test_going_back_from_the_summary_sends_nothing_later() -> None:
    asked = after(write(shop(), "x"), Toggled(), SendBackRequested(), Answered(2), Cancelled())
    assert asked.ending is Ending.KEEP
    assert effects(after(asked, ApplyRequested(), Answered(YES)), DONE) == ()


@pytest.mark.parametrize(("answer", "ending"), [(0, Ending.KEEP), (1, Ending.DISCARD), (2, Ending.SEND_BACK)])
def test_the_result_offers_what_to_do_with_the_rest(answer: int, ending: Ending) -> None:
    state = after(write(shop(), "x"), Toggled(), ApplyRequested(), Answered(YES), DONE)
    assert state.page is ScreenPage.RESULT
    assert after(state, Answered(answer)).ending is ending
    assert effects(state, Answered(answer)) == (Quit(saves_selection=False),)
    assert after(state, Cancelled()).ending is Ending.KEEP


@pytest.mark.parametrize("answer", [1, 2])
def test_without_a_rest_the_result_has_no_other_answers(answer: int) -> None:
    state = after(write(shop(), "x"), Toggled(), ApplyRequested(), Answered(YES), replace(DONE, has_rest=False))
    assert after(state, Answered(answer)).ending is Ending.KEEP


def test_without_notes_nothing_can_be_sent_from_the_result() -> None:
    state = after(shop(), Toggled(), ApplyRequested(), Answered(YES), DONE)
    assert after(state, Answered(2)).ending is Ending.KEEP


LINES = st.integers(-1, 5)
ROWS = st.lists(st.builds(DiffRow, st.sampled_from(RowKind), old_line=LINES, new_line=LINES), min_size=1, max_size=12)
TEXTS = st.text(min_size=1, max_size=200)
NOTES = st.lists(st.builds(ReviewNote, st.just(0), st.just(b"a"), TEXTS, st.integers(0, 7), st.booleans()), max_size=4)


@given(ROWS, NOTES, st.data())
def test_notes_only_add_rows_and_hunks_stay_at_theirs(rows: list[DiffRow], notes: list[ReviewNote], data: st.DataObject) -> None:
    starts = tuple(sorted(data.draw(st.sets(st.integers(0, len(rows) - 1)))))
    shown = with_notes(Document(None, tuple(rows), starts), notes)
    remaining = iter(shown.rows)
    assert all(any(one is wanted for one in remaining) for wanted in rows)
    assert [shown.rows[at] for at in shown.hunk_rows] == [rows[at] for at in starts]
    assert sum(NOTE_SIGN in one.text[:4] for one in shown.rows) == len(notes)
