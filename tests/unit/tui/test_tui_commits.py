"""Commits on the review screen: selection, questions, and the three import modes."""

from dataclasses import replace

import pytest

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Resolution, Risk
from agent_dev.overlay.selection import Selection
from tests.unit.tui.tui_states import after
from tui.effects import Apply, DeclineCommits, Effect, ImportCommits, LoadEntries, Quit
from tui.events import (
    NO,
    YES,
    AllDeselected,
    AllToggled,
    Answered,
    AnswerFocusMoved,
    ApplyRequested,
    Cancelled,
    ChangeUpdated,
    CursorMoved,
    CursorMovedTo,
    DeclineRequested,
    EnterPressed,
    EntriesLoaded,
    Event,
    KindToggled,
    OperationFinished,
    Pane,
    PromptClosed,
    PromptEdited,
    QuitRequested,
    SelectionUndone,
    TabSelected,
    Toggled,
)
from tui.model.tabs import ImportMode, RiskyPath, Tab
from tui.model.tabs import TabEntry as Row
from tui.page_text import commits
from tui.state import ScreenPage, State
from tui.update.dispatch import initial_state, update
from tui.update.questions import IMPORT_MODES

FILE = Entry(FileType.FILE)
HOOK = Risk("hook", "runs at the next commit")
QUICK = (Row("bbbb two", id="bbbb"), Row("aaaa one", id="aaaa"))
ONE = ChangeSet((Change(Key(0, b"a"), ChangeKind.EDITED, FILE, FILE),))
FULL = (Row("bbbb two", id="bbbb"), Row("aaaa one", id="aaaa"), Row("stash: x"))
MOVED = Risk("moved", "checks out another commit")
WITH_HOOK = Row("bbbb two", id="bbbb", risky_paths=(RiskyPath(b"hook", (HOOK,)),))
WITH_BOTH = Row("aaaa one", id="aaaa", risky_paths=(RiskyPath(b"lib", (MOVED,), ("1111 → 2222",)), RiskyPath(b"hook", (HOOK,))))
RISKY = (WITH_HOOK, WITH_BOTH, Row("cccc zero", id="cccc"))
PICKED = frozenset(("bbbb",))
ON_BRANCH, AS_BRANCH, AS_ONE = 1, 2, 3


def opened(reported: tuple[Row, ...] = FULL, *, is_running: bool = False) -> State:
    """Return the commits tab of a session with all entries loaded."""
    some = ChangeSet(
        (
            Change(Key(0, b"a"), ChangeKind.EDITED, FILE, FILE),
            Change(Key(0, b"hook"), ChangeKind.ADDED, None, FILE, risks=(HOOK,)),
        )
    )
    state, _ = initial_state(some, tabs={Tab.COMMITS: QUICK}, is_running=is_running)
    return after(state, TabSelected(Tab.COMMITS), EntriesLoaded(Tab.COMMITS, reported))


def asked(state: State, *events: Event) -> tuple[Effect, ...]:
    """Return the effects of the last event."""
    return update(after(state, *events[:-1]), events[-1])[1]


def test_enter_in_the_details_selects_a_commit_and_keeps_a_selected_one() -> None:
    state = after(opened(), CursorMovedTo(0, Pane.DIFF), EnterPressed())
    assert (state.selected_commits, state.cursor) == (PICKED, 1)
    again = after(state, CursorMovedTo(0, Pane.LIST), CursorMovedTo(0, Pane.DIFF), EnterPressed())
    assert (again.selected_commits, again.cursor) == (PICKED, 1)


def test_the_commits_tab_is_loaded_once_when_opened() -> None:
    state, _ = initial_state(ONE, tabs={Tab.COMMITS: QUICK})
    assert LoadEntries(Tab.COMMITS) in asked(state, TabSelected(Tab.COMMITS))
    read = after(state, TabSelected(Tab.COMMITS), EntriesLoaded(Tab.COMMITS, FULL), TabSelected(Tab.CHANGES))
    assert LoadEntries(Tab.COMMITS) not in asked(read, TabSelected(Tab.COMMITS))


def test_entries_loaded_while_their_tab_is_open_update_the_detail_pane() -> None:
    state, _ = initial_state(ONE, tabs={Tab.COMMITS: QUICK})
    reported = Row("bbbb two", ("by Ada",), id="bbbb")
    shown = after(state, TabSelected(Tab.COMMITS), EntriesLoaded(Tab.COMMITS, (reported, QUICK[1])))
    assert [row.text for row in shown.diff.document.rows] == ["bbbb two", "by Ada"]


def test_with_commits_only_the_screen_opens_on_their_tab() -> None:
    state, effects = initial_state(ChangeSet(()), tabs={Tab.COMMITS: QUICK})
    assert (state.tab, LoadEntries(Tab.COMMITS) in effects) == (Tab.COMMITS, True)
    assert initial_state(ChangeSet(()))[0].tab is Tab.CHANGES
    assert initial_state(ONE, tabs={Tab.COMMITS: QUICK})[0].tab is Tab.CHANGES


def test_space_selects_and_deselects_a_commit() -> None:
    assert after(opened(), Toggled()).selected_commits == PICKED
    assert after(opened(), Toggled(), Toggled()).selected_commits == frozenset()
    assert after(opened(), Toggled(1, Pane.LIST)).selected_commits == {"aaaa"}


def test_a_row_that_is_no_commit_cannot_be_selected() -> None:
    assert after(opened(), Toggled(2, Pane.LIST)).selected_commits == frozenset()
    assert after(opened(), Toggled(7, Pane.LIST)).selected_commits == frozenset()


def test_all_and_none_select_every_commit_or_none() -> None:
    every = after(opened(), AllToggled())
    assert every.selected_commits == {"aaaa", "bbbb"}
    assert after(every, AllToggled()).selected_commits == after(every, AllDeselected()).selected_commits == frozenset()


@pytest.mark.parametrize("event", [SelectionUndone(), KindToggled()])
def test_other_selection_keys_print_a_hint_and_do_nothing(event: Event) -> None:
    state = after(opened(), Toggled(), event)
    assert (state.selected_commits, "space" in state.message) == (PICKED, True)


def test_selecting_commits_selects_no_files() -> None:
    assert not after(opened(), AllToggled()).selection.keys


def test_apply_asks_nothing_while_no_commit_is_selected() -> None:
    state = after(opened(), ApplyRequested())
    assert (state.page, "no commit selected" in state.message) == (ScreenPage.REVIEW, True)


def test_apply_asks_nothing_before_the_files_of_commits_are_known() -> None:
    state, _ = initial_state(ONE, tabs={Tab.COMMITS: QUICK})
    asking = after(state, TabSelected(Tab.COMMITS), Toggled(), ApplyRequested())
    assert (asking.page, "still reading" in asking.message) == (ScreenPage.REVIEW, True)


def test_nothing_can_be_selected_while_the_agent_runs() -> None:
    assert not after(opened(is_running=True), AllToggled()).selected_commits
    assert after(opened(is_running=True), ApplyRequested()).page is ScreenPage.REVIEW


def test_no_is_focused_and_changes_nothing() -> None:
    state = after(opened(), Toggled(), ApplyRequested())
    assert (state.page, state.focused_answer) == (ScreenPage.IMPORT, NO)
    for event in (Answered(), Answered(NO), Cancelled()):
        there, effects = update(state, event)
        assert (there.page, there.selected_commits, effects) == (ScreenPage.REVIEW, PICKED, ())


def test_the_answers_can_be_cycled_in_both_directions() -> None:
    state = after(opened(), Toggled(), ApplyRequested())
    assert [after(state, *[AnswerFocusMoved()] * times).focused_answer for times in range(5)] == [
        NO,
        ON_BRANCH,
        AS_BRANCH,
        AS_ONE,
        NO,
    ]
    assert after(state, AnswerFocusMoved(-1)).focused_answer == AS_ONE


def test_yes_imports_onto_the_current_branch() -> None:
    state = after(opened(), AllToggled(), ApplyRequested())
    assert asked(state, Answered(YES)) == (ImportCommits(("bbbb", "aaaa"), ImportMode.ONTO_BRANCH),)
    assert after(state, Answered(YES)).page is ScreenPage.PROGRESS
    assert asked(state, AnswerFocusMoved(), Answered()) == (ImportCommits(("bbbb", "aaaa"), ImportMode.ONTO_BRANCH),)


def test_commits_can_be_imported_as_one_squashed_commit() -> None:
    assert asked(opened(), Toggled(), ApplyRequested(), Answered(AS_ONE)) == (ImportCommits(("bbbb",), ImportMode.SQUASHED),)


def test_declining_asks_first_and_needs_no_answer_about_risks() -> None:
    state = after(opened(RISKY), Toggled(), DeclineRequested())
    assert (state.page, state.focused_answer) == (ScreenPage.DECLINE, NO)
    assert asked(state, Answered(YES)) == (DeclineCommits(("bbbb",)),)
    assert asked(state, Answered(NO)) == asked(state, Cancelled()) == ()
    lines = [line.text for line in commits.decline_summary(state, 40)]
    assert lines[0] == "  bbbb two"
    assert all(len(line) <= 40 for line in lines)


@pytest.mark.parametrize("state", [opened(), after(opened(), TabSelected(Tab.CHANGES)), opened(is_running=True)])
def test_without_a_selection_or_with_a_running_agent_nothing_is_declined(state: State) -> None:
    events = (Toggled(), DeclineRequested()) if state.is_running else (DeclineRequested(),)
    assert after(state, *events).page is ScreenPage.REVIEW
    assert after(state, *events).message != ""


def test_a_branch_gets_the_typed_name() -> None:
    naming = (Toggled(), ApplyRequested(), Answered(AS_BRANCH))
    assert after(opened(), *naming).page is ScreenPage.PROMPT
    assert asked(opened(), *naming, PromptEdited(" topic "), PromptClosed(is_accepted=True)) == (
        ImportCommits(("bbbb",), ImportMode.NEW_BRANCH, "topic"),
    )


@pytest.mark.parametrize(("text", "is_meant"), [("topic", False), ("  ", True)])
def test_a_branch_without_a_name_is_not_created(text: str, is_meant: bool) -> None:  # noqa: FBT001  (a table's column)
    naming = (Toggled(), ApplyRequested(), Answered(AS_BRANCH), PromptEdited(text))
    there, effects = update(after(opened(), *naming), PromptClosed(is_accepted=is_meant))
    assert (there.page, effects) == (ScreenPage.REVIEW, ())


def test_after_the_import_the_screen_closes() -> None:
    state = after(opened(), Toggled(), ApplyRequested(), Answered(YES), OperationFinished(("took it",), 0))
    assert (state.page, state.result) == (ScreenPage.RESULT, ("took it",))
    assert asked(state, Answered()) == (Quit(saves_selection=False),)


def test_after_a_refusal_the_review_continues_with_its_selection() -> None:
    state = after(
        opened(), Toggled(), ApplyRequested(), Answered(YES), OperationFinished(("conflict: a",), 1, may_have_changed=False)
    )
    assert (state.page, state.code) == (ScreenPage.RESULT, 0)
    there, effects = update(state, Cancelled())
    assert (there.page, there.selected_commits, effects) == (ScreenPage.REVIEW, PICKED, ())


STOPPED = (
    Toggled(),
    ApplyRequested(),
    Answered(YES),
    OperationFinished(("conflict: a",), 1, may_have_changed=False, conflicts=1),
)


def test_resolvable_conflicts_open_a_question_with_no_focused() -> None:
    state = after(opened(), *STOPPED)
    assert (state.page, state.focused_answer, state.code) == (ScreenPage.CONFLICTS, NO, 0)
    for event in (Answered(), Answered(NO), Cancelled()):
        there, effects = update(state, event)
        assert (there.page, there.selected_commits, there.resolves_next, effects) == (ScreenPage.REVIEW, PICKED, False, ())


def test_yes_leads_to_the_conflict_screen() -> None:
    there, effects = update(after(opened(), *STOPPED), Answered(YES))
    assert (there.resolves_next, effects) == (True, (Quit(),))


def test_commits_are_imported_only_when_each_conflict_is_resolved() -> None:
    some = ChangeSet(tuple(Change(Key(0, path), ChangeKind.EDITED, FILE, FILE, conflict="both") for path in (b"a", b"b")))
    state, _ = initial_state(some, is_resolving=True)
    merged = (replace(change, conflict=None, resolution=Resolution.BOTH) for change in some.changes)
    one, two = (ChangeUpdated(change, is_selected=True) for change in merged)
    half = after(state, one, ApplyRequested())
    assert (half.page, half.message.startswith("1 more to resolve")) == (ScreenPage.REVIEW, True)
    assert after(state, one, two, ApplyRequested()).page is ScreenPage.SUMMARY
    assert asked(state, one, two, ApplyRequested(), Answered(YES)) == (Apply(Selection(frozenset(c.key for c in some.changes))),)


HOOKED, LIB = Key(0, b"hook"), Key(0, b"lib")


def test_each_risky_path_is_confirmed_once_before_the_import_question() -> None:
    state = after(opened(RISKY), AllToggled(), ApplyRequested())
    assert (state.page, state.focused_answer, state.unconfirmed) == (ScreenPage.RISK, NO, ((HOOKED,), (LIB,)))
    assert after(state, Answered(YES)).unconfirmed == ((LIB,),)
    asking = after(state, Answered(YES), Answered(YES))
    assert (asking.page, asking.unconfirmed, asking.focused_answer, len(asking.selected_commits)) == (
        ScreenPage.IMPORT,
        (),
        NO,
        3,
    )


def test_no_to_a_risky_path_deselects_every_commit_that_contains_it() -> None:
    state = after(opened(RISKY), AllToggled(), ApplyRequested())
    assert after(state, Answered(NO)).selected_commits == {"cccc"}
    assert after(state, Answered(NO)).page is ScreenPage.IMPORT
    without = after(state, Answered(YES), Answered(NO))
    assert (without.page, set(without.selected_commits)) == (ScreenPage.IMPORT, {"bbbb", "cccc"})


def test_without_remaining_commits_nothing_more_is_asked() -> None:
    state = after(opened(RISKY), Toggled(), ApplyRequested(), Answered(NO))
    assert (state.page, state.selected_commits, state.unconfirmed) == (ScreenPage.REVIEW, frozenset(), ())


def test_cancelling_at_a_risky_path_changes_nothing() -> None:
    state = after(opened(RISKY), AllToggled(), ApplyRequested(), Answered(YES), Cancelled())
    assert (state.page, len(state.selected_commits), state.unconfirmed) == (ScreenPage.REVIEW, 3, ())


def test_commits_without_risks_need_no_confirmation() -> None:
    assert after(opened(RISKY), Toggled(2, Pane.LIST), ApplyRequested()).page is ScreenPage.IMPORT


def test_the_page_of_a_risky_path_shows_reason_change_and_commits() -> None:
    state = after(opened(RISKY), AllToggled())
    text = "\n".join(line.text for line in commits.risky_paths_page(state, (LIB,), ("/r",), 74))
    assert all(part in text for part in ("lib", MOVED.why, "1111 → 2222", "aaaa one", "check:"))
    assert "bbbb two" not in text
    assert all(
        part in "".join(line.text for line in commits.risky_paths_page(state, (HOOKED,), ("/r",), 74))
        for part in ("aaaa", "bbbb")
    )


def test_quitting_with_selected_commits_asks() -> None:
    assert after(opened(), Toggled(), QuitRequested()).page is ScreenPage.QUIT
    assert asked(opened(), QuitRequested()) == (Quit(),)


def test_the_summary_lists_the_commits_and_their_risky_files() -> None:
    def printed(*events: Event) -> str:
        return "\n".join(line.text for line in commits.import_summary(after(opened(RISKY), *events), ("/r",), 74))

    with_hook, without = printed(Toggled()), printed(Toggled(2, Pane.LIST))
    assert "bbbb two" in with_hook
    assert "aaaa one" not in with_hook
    assert ("hook" in with_hook, HOOK.why in with_hook) == (True, True)
    assert "hook" not in without
    assert all(way.value in without for way in IMPORT_MODES)


@pytest.mark.parametrize("cells", [30, 40, 74])
def test_the_summary_fits_its_width(cells: int) -> None:
    state = after(opened(RISKY), AllToggled())
    lines = [
        *commits.import_summary(state, ("/a/long/root",), cells),
        *commits.risky_paths_page(state, (LIB,), ("/a/long/root",), cells),
    ]
    assert max(len(line.text) for line in lines) <= cells


def test_the_status_message_counts_commits_not_imported() -> None:
    state, _ = initial_state(ONE, tabs={Tab.COMMITS: QUICK})
    assert commits.status_message(state) == "2 commits not imported (press 2)"
    assert "space selects" in commits.status_message(after(state, TabSelected(Tab.COMMITS)))


def test_no_import_mode_promises_a_message_prompt() -> None:
    text = " ".join(line.text.strip() for line in commits.import_summary(after(opened(), Toggled()), ("/r",), 74))
    assert "one commit whose message lists all of them" in text
    assert "you write" not in text


def test_an_entry_without_a_commit_cannot_be_selected() -> None:
    state = after(opened(), *([CursorMoved(1)] * 2), Toggled())
    assert (state.selected_commits, "files on the Changes tab" in state.message) == (frozenset(), True)
