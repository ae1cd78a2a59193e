"""Update the questions: each risky change and the summary before applying, import modes, quitting, help."""

from dataclasses import replace
from typing import assert_never

from agent_dev.overlay import selection as core
from agent_dev.overlay.labels import format_count
from tui.effects import Apply, AssessRisks, ImportCommits, Quit
from tui.events import (
    NO,
    YES,
    Answered,
    AnswerFocusMoved,
    ApplyRequested,
    Cancelled,
    HelpRequested,
    PromptKind,
    QuestionEvent,
    QuitRequested,
)
from tui.model.tabs import ImportMode, Tab
from tui.state import Prompt, ScreenPage, State, Transition, with_selection
from tui.text import commits
from tui.update import navigation

IMPORT_MODES = tuple(ImportMode)  # answers to "how to import", after No
_ANSWER_COUNTS = {
    ScreenPage.RISK: 2,
    ScreenPage.SUMMARY: 2,
    ScreenPage.QUIT: 2,
    ScreenPage.IMPORT: 1 + len(IMPORT_MODES),
    ScreenPage.CONFLICTS: 2,
}


def update_question(state: State, event: QuestionEvent) -> Transition:
    """Handle an event of a question: asked, answered, cancelled."""
    match event:
        case Answered(answer):
            return _answer(state, state.focused_answer if answer is None else answer)
        case AnswerFocusMoved(by):
            return replace(state, focused_answer=(state.focused_answer + by) % _ANSWER_COUNTS.get(state.page, 1)), ()
        case Cancelled():
            return _close(state)
        case ApplyRequested() | QuitRequested() | HelpRequested():
            return _begin(state, event) if state.page is ScreenPage.REVIEW else (state, ())
        case _:
            assert_never(event)


def _begin(state: State, event: ApplyRequested | QuitRequested | HelpRequested) -> Transition:
    match event:
        case ApplyRequested():
            return (_ask_import(state), ()) if state.tab is Tab.COMMITS else _apply(state)
        case QuitRequested():
            return navigation.quit_review(state)
        case HelpRequested():
            return replace(state, page=ScreenPage.HELP, focused_answer=NO, message=""), ()
        case _:
            assert_never(event)


def _apply(state: State) -> Transition:
    unassessed = state.selection.keys & state.unassessed
    if not unassessed or state.is_running or state.is_resolving:
        return _ask_apply(state), ()
    files = format_count(len(unassessed), "selected ignored file")
    return replace(state, message=f"assessing the risks of {files}"), (AssessRisks(unassessed),)


def continue_apply(state: State) -> Transition:
    """Continue to apply the selection once its risks were assessed."""
    return _apply(state) if state.page is ScreenPage.REVIEW and state.tab is not Tab.COMMITS else (state, ())


def _ask_apply(state: State) -> State:
    if state.is_running:
        return replace(state, message="the agent is still running; apply when it has exited")
    if state.is_resolving and (left := len(state.changes.changes) - len(state.selection)):
        return replace(state, message=f"{left} more to resolve: < yours, > agent's, b both, e edit")
    if not state.selection.keys:
        return replace(state, message="nothing selected (space: select, A: all safe, q: quit)")
    risky = tuple(c.key for c in state.changes.changes if c.risks and c.key in state.selection)
    return replace(state, page=ScreenPage.RISK if risky else ScreenPage.SUMMARY, unconfirmed=risky, focused_answer=NO, message="")


def _ask_import(state: State) -> State:
    if state.is_running:
        return replace(state, message="the agent is still running; import its commits when it has exited")
    if not state.selected_commit_entries:
        return replace(state, message="no commit selected (space: select, A: all, 1: files)")
    if not state.has_commit_details:
        return replace(state, message="still reading the commits; try again")
    risky = tuple(commits.risky_paths(state.selected_commit_entries))
    return replace(state, page=ScreenPage.RISK if risky else ScreenPage.IMPORT, unconfirmed=risky, focused_answer=NO, message="")


def start_import(state: State, mode: ImportMode, name: str = "") -> Transition:
    """Start the import of the selected commits."""
    ids = tuple(one.id for one in state.selected_commit_entries)
    return replace(state, page=ScreenPage.PROGRESS, focused_answer=NO, progress=(0, 0)), (ImportCommits(ids, mode, name),)


def _answer(state: State, answer: int) -> Transition:
    match state.page:
        case ScreenPage.RISK:
            return _answer_risk(state, is_yes=answer == YES)
        case ScreenPage.SUMMARY if answer == YES:
            return replace(state, page=ScreenPage.PROGRESS, focused_answer=NO, progress=(0, 0)), (Apply(state.selection),)
        case ScreenPage.CONFLICTS if answer == YES:
            return replace(state, page=ScreenPage.REVIEW, resolves_next=True), (Quit(),)
        case ScreenPage.QUIT if answer == YES:
            return replace(state, page=ScreenPage.REVIEW), (Quit(),)
        case ScreenPage.IMPORT if answer != NO:
            return _import(state, IMPORT_MODES[answer - 1])
        case _:
            return _close(state)


def _close(state: State) -> Transition:
    """Return to the review, or quit after a result."""
    if state.page is ScreenPage.PROGRESS:
        return state, ()  # a merge is not interrupted
    if state.page is ScreenPage.RESULT and state.may_have_changed:
        return state, (Quit(saves_selection=False),)
    return replace(state, page=ScreenPage.REVIEW, focused_answer=NO, unconfirmed=()), ()


def _import(state: State, mode: ImportMode) -> Transition:
    """Start the import, or ask for the name of a new branch first."""
    if mode is ImportMode.NEW_BRANCH:
        return replace(state, page=ScreenPage.PROMPT, prompt=Prompt(PromptKind.BRANCH), focused_answer=NO), ()
    return start_import(state, mode)


def _answer_risk(state: State, *, is_yes: bool) -> Transition:
    """Keep or deselect a risky change; then ask about the next one, or show the summary."""
    if state.tab is Tab.COMMITS:
        return _answer_risk_of_commits(state, is_yes=is_yes), ()
    key, *rest = state.unconfirmed
    if not is_yes:
        remaining = core.deselect(state.selection, frozenset((key,)), state.changes)
        state = with_selection(state, remaining, "")
        rest = [one for one in rest if one in remaining]
    if rest:
        return replace(state, unconfirmed=tuple(rest), focused_answer=NO), ()
    if not state.selection.keys:
        return replace(state, page=ScreenPage.REVIEW, unconfirmed=(), focused_answer=NO, message="nothing selected any more"), ()
    return replace(state, page=ScreenPage.SUMMARY, unconfirmed=(), focused_answer=NO), ()


def _answer_risk_of_commits(state: State, *, is_yes: bool) -> State:
    """Keep or deselect the commits that change a risky path; then ask about the next path, or how to import."""
    key, *rest = state.unconfirmed
    if not is_yes:
        affected = frozenset(
            one.id for one in state.selected_commit_entries if any(risky.path == key.path for risky in one.risky_paths)
        )
        state = replace(state, selected_commits=state.selected_commits - affected)
        remaining = commits.risky_paths(state.selected_commit_entries)
        rest = [one for one in rest if one in remaining]
    if not state.selected_commit_entries:
        return replace(state, page=ScreenPage.REVIEW, unconfirmed=(), focused_answer=NO, message="no commit selected any more")
    return replace(state, page=ScreenPage.RISK if rest else ScreenPage.IMPORT, unconfirmed=tuple(rest), focused_answer=NO)
