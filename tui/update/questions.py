"""Update the questions: risky changes and the summary before applying, import modes, notes, quitting, the rest, help."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import assert_never

from agent_dev.fs.entry import Key
from agent_dev.overlay import selection as core
from agent_dev.overlay.changes import MAX_FEW_DELETIONS, ChangeKind, Risk
from agent_dev.overlay.labels import format_count
from agent_dev.quick_dataclass import replace
from tui.effects import Apply, AssessRisks, CountDeletions, DeclineCommits, Effect, ImportCommits, Quit
from tui.events import (
    NO,
    ONE_BY_ONE,
    YES,
    Answered,
    AnswerFocusMoved,
    ApplyRequested,
    Cancelled,
    DeclineRequested,
    HelpRequested,
    PromptKind,
    QuestionEvent,
    QuestionRequested,
    QuitRequested,
    SendBackRequested,
)
from tui.model.tabs import ImportMode, Tab
from tui.page_text import commits
from tui.source import Ending
from tui.state import Prompt, ScreenPage, State, Transition, with_selection
from tui.update import navigation

IMPORT_MODES = tuple(ImportMode)  # answers to "how to import", after No
_ANSWER_COUNTS = {
    ScreenPage.DELETIONS: 2,
    ScreenPage.SUMMARY: 2,
    ScreenPage.QUIT: 2,
    ScreenPage.IMPORT: 1 + len(IMPORT_MODES),
    ScreenPage.DECLINE: 2,
    ScreenPage.CONFLICTS: 2,
}


def update_question(state: State, event: QuestionEvent) -> Transition:
    """Handle an event of a question: asked, answered, cancelled."""
    match event:
        case Answered(answer):
            return _answer(state, state.focused_answer if answer is None else answer)
        case AnswerFocusMoved(by):
            return replace(state, focused_answer=(state.focused_answer + by) % _answer_count(state)), ()
        case Cancelled():
            return _close(state)
        case ApplyRequested() | DeclineRequested() | SendBackRequested() | QuitRequested() | HelpRequested():
            return _begin(state, event) if state.page is ScreenPage.REVIEW else (state, ())
        case _:
            assert_never(event)


def _answer_count(state: State) -> int:
    if state.page is ScreenPage.RISK:
        return 2 + (len(state.unconfirmed[0]) > 1)
    if state.page is ScreenPage.SEND_BACK:
        return 2 + bool(state.selection.keys)
    if state.page is ScreenPage.RESULT:
        return (2 + bool(state.notes)) if state.has_rest and state.may_have_changed else 1
    return _ANSWER_COUNTS.get(state.page, 1)


def _begin(state: State, event: QuestionRequested) -> Transition:
    match event:
        case ApplyRequested():
            state = replace(state, ending=Ending.KEEP)
            return (_ask_import(state), ()) if state.tab is Tab.COMMITS else _apply(state)
        case DeclineRequested():
            return _ask_decline(replace(state, ending=Ending.KEEP)), ()
        case SendBackRequested():
            return _ask_send_back(state), ()
        case QuitRequested():
            return navigation.quit_review(state)
        case HelpRequested():
            return replace(state, page=ScreenPage.HELP, focused_answer=NO, message=""), ()
        case _:
            assert_never(event)


def _ask_send_back(state: State) -> State:
    if state.is_running or state.is_resolving:
        reason = "the agent is still running" if state.is_running else "import the commits first, or quit"
        return replace(state, message=reason)
    if not state.notes:
        return replace(state, message="no notes yet (m: write one)")
    return replace(state, page=ScreenPage.SEND_BACK, focused_answer=NO, message="")


def _answer_send_back(state: State, answer: int) -> Transition:
    """Send the notes back now, or after the selection was applied."""
    new = replace(state, page=ScreenPage.REVIEW, ending=Ending.SEND_BACK, focused_answer=NO)
    if answer == YES:
        return new, (Quit(),)
    return _apply(replace(new, tab=Tab.CHANGES)) if answer > YES else _close(state)


def _answer_result(state: State, answer: int) -> Transition:
    """Keep the rest of the session, discard it, or send it back with the notes."""
    endings = (Ending.KEEP, Ending.DISCARD, Ending.SEND_BACK)
    if not (state.has_rest and state.may_have_changed and answer < _answer_count(state)):
        return _close(state)
    return _close(replace(state, ending=endings[answer]))


def _apply(state: State) -> Transition:
    unassessed = state.selection.keys & state.unassessed
    if not unassessed or state.is_running or state.is_resolving:
        return _with_summary(_ask_apply(state))
    files = format_count(len(unassessed), "selected ignored file")
    return replace(state, message=f"assessing the risks of {files}"), (AssessRisks(unassessed),)


def _with_summary(state: State) -> Transition:
    """Before the summary of many deletions, request the count of the files that they delete."""
    if state.page is not ScreenPage.SUMMARY or state.is_resolving or len(state.selection) <= MAX_FEW_DELETIONS:
        return state, ()
    table = state.changes.by_key()
    deletions = sum(table[key].kind in (ChangeKind.DELETED, ChangeKind.RETYPED) for key in state.selection.keys)
    if deletions <= MAX_FEW_DELETIONS:
        return state, ()
    counting = replace(state, page=ScreenPage.REVIEW, message=f"counting {format_count(deletions, 'deletion')}")
    return counting, (CountDeletions(state.selection),)


def continue_summary(state: State, selection: core.Selection, files: int) -> State:
    """Show the question about many deleted files, or the summary, unless the selection or the page has changed since."""
    if state.page is not ScreenPage.REVIEW or state.selection != selection:
        return state
    page = ScreenPage.DELETIONS if files else ScreenPage.SUMMARY
    return replace(state, page=page, many_deletions=files, focused_answer=NO, message="")


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
    risky = [c for c in state.changes.changes if c.risks and c.key in state.selection and c.key not in state.confirmed]
    return _ask_risks(state, _grouped({c.key: c.risks for c in risky}), ScreenPage.SUMMARY)


def _grouped(risks: Mapping[Key, tuple[Risk, ...]]) -> list[tuple[Key, ...]]:
    """Return the keys in groups with the same risks, in the order of their first keys."""
    groups: dict[tuple[str, ...], list[Key]] = {}
    for key, some in risks.items():
        groups.setdefault(tuple(one.rule for one in some), []).append(key)
    return [tuple(keys) for keys in groups.values()]


def _ask_risks(state: State, groups: Sequence[tuple[Key, ...]], afterwards: ScreenPage) -> State:
    """Ask about the first group of risky changes; without one, show the page that follows."""
    page = ScreenPage.RISK if groups else afterwards
    return replace(state, page=page, unconfirmed=tuple(groups), focused_answer=NO, message="")


def _ask_import(state: State) -> State:
    if state.is_running:
        return replace(state, message="the agent is still running; import its commits when it has exited")
    if not state.selected_commit_entries:
        return replace(state, message="no commit selected (space: select, A: all, 1: files)")
    if not state.has_commit_details:
        return replace(state, message="still reading the commits; try again")
    risky = commits.risky_paths(state.selected_commit_entries)
    return _ask_risks(state, _grouped({key: one.risks for key, one in risky.items()}), ScreenPage.IMPORT)


def _ask_decline(state: State) -> State:
    if state.tab is not Tab.COMMITS:
        return replace(state, message="nothing to decline here: d declines commits (2: Commits tab)")
    if state.is_running:
        return replace(state, message="the agent is still running; decline its commits when it has exited")
    if not state.selected_commit_entries:
        return replace(state, message="no commit selected (space: select, A: all)")
    return replace(state, page=ScreenPage.DECLINE, focused_answer=NO, message="")


def start_import(state: State, mode: ImportMode, name: str = "") -> Transition:
    """Start the import of the selected commits."""
    return _start(state, ImportCommits(_selected_ids(state), mode, name))


def _selected_ids(state: State) -> tuple[str, ...]:
    return tuple(one.id for one in state.selected_commit_entries)


def _start(state: State, effect: Effect) -> Transition:
    """Start an operation that changes the user's files or the session, and show its progress."""
    return replace(state, page=ScreenPage.PROGRESS, focused_answer=NO, progress=(0, 0)), (effect,)


def _answer(state: State, answer: int) -> Transition:
    match state.page:
        case ScreenPage.RISK:
            return _with_summary(_answer_risk(state, answer))
        case ScreenPage.SEND_BACK if answer != NO:
            return _answer_send_back(state, answer)
        case ScreenPage.RESULT:
            return _answer_result(state, answer)
        case ScreenPage.IMPORT if answer != NO:
            return _import(state, IMPORT_MODES[answer - 1])
        case _:
            return _confirm(state) if answer == YES else _close(state)


def _confirm(state: State) -> Transition:
    """Go on after a question: show the summary, apply the selection, resolve conflicts, quit."""
    match state.page:
        case ScreenPage.DELETIONS:
            return replace(state, page=ScreenPage.SUMMARY, focused_answer=NO), ()
        case ScreenPage.SUMMARY:
            return _start(state, Apply(state.selection))
        case ScreenPage.DECLINE:
            return _start(state, DeclineCommits(_selected_ids(state)))
        case ScreenPage.CONFLICTS:
            return replace(state, page=ScreenPage.REVIEW, resolves_next=True), (Quit(),)
        case ScreenPage.QUIT:
            return replace(state, page=ScreenPage.REVIEW), (Quit(),)
        case _:
            return _close(state)


def _close(state: State) -> Transition:
    """Return to the review, or quit after a result."""
    if state.page is ScreenPage.PROGRESS:
        return state, ()  # a merge is not interrupted
    if state.page is ScreenPage.RESULT and state.may_have_changed:
        return state, (Quit(saves_selection=False),)
    return replace(state, page=ScreenPage.REVIEW, focused_answer=NO, unconfirmed=(), ending=Ending.KEEP), ()


def _import(state: State, mode: ImportMode) -> Transition:
    """Start the import, or ask for the name of a new branch first."""
    if mode is ImportMode.NEW_BRANCH:
        return replace(state, page=ScreenPage.PROMPT, prompt=Prompt(PromptKind.BRANCH), focused_answer=NO), ()
    return start_import(state, mode)


def _answer_risk(state: State, answer: int) -> State:
    """Keep or deselect the first group of risky changes, or ask about each of them; then ask about the next group."""
    group, *rest = state.unconfirmed
    if answer == ONE_BY_ONE:
        return _ask_risks(state, (*((key,) for key in group), *rest), ScreenPage.SUMMARY)
    if state.tab is Tab.COMMITS:
        return _answer_risk_of_commits(state, group, rest, is_yes=answer == YES)
    if answer == YES:
        state = replace(state, confirmed=state.confirmed | frozenset(group))
    else:
        remaining = core.deselect(state.selection, frozenset(group), state.changes)
        state = with_selection(state, remaining, "")
        rest = _remaining(rest, remaining.keys)
    if not state.selection.keys:
        kept = replace(state, page=ScreenPage.REVIEW, unconfirmed=(), focused_answer=NO, ending=Ending.KEEP)
        return replace(kept, message="nothing selected any more")
    return _ask_risks(state, rest, ScreenPage.SUMMARY)


def _remaining(groups: Iterable[tuple[Key, ...]], keys: Container[Key]) -> list[tuple[Key, ...]]:
    """Return the groups with these keys only."""
    kept = (tuple(key for key in group if key in keys) for group in groups)
    return [group for group in kept if group]


def _answer_risk_of_commits(state: State, group: tuple[Key, ...], rest: list[tuple[Key, ...]], *, is_yes: bool) -> State:
    """Keep or deselect the commits that change some risky paths; then ask about the next ones, or how to import."""
    if not is_yes:
        paths = {key.path for key in group}
        affected = frozenset(
            one.id for one in state.selected_commit_entries if any(risky.path in paths for risky in one.risky_paths)
        )
        state = replace(state, selected_commits=state.selected_commits - affected)
        rest = _remaining(rest, commits.risky_paths(state.selected_commit_entries))
    if not state.selected_commit_entries:
        return replace(state, page=ScreenPage.REVIEW, unconfirmed=(), focused_answer=NO, message="no commit selected any more")
    return _ask_risks(state, rest, ScreenPage.IMPORT)
