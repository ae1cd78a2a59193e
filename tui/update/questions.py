"""Questions and pages: before a merge each risky change by itself, then all of it; before leaving; the keys."""

from dataclasses import replace
from typing import assert_never

from agent_dev.overlay import selection as core
from tui.effects import Apply, Bring, Finish
from tui.events import NO, YES, Answered, AnswerMoved, ApplyAsked, Asking, GivenUp, HelpAsked, LeaveAsked, Question
from tui.model.tabs import Tab, Way
from tui.state import Face, Prompt, State, Step, with_selection
from tui.text import commits
from tui.update import navigation as walking

WAYS = tuple(Way)  # the answers to how commits come home, behind No
_ANSWERS = {Face.RISK: 2, Face.SUMMARY: 2, Face.LEAVE: 2, Face.BRING: 1 + len(WAYS), Face.CLASH: 2}


def ask(state: State, event: Question) -> Step:
    """Ask, or take an answer."""
    match event:
        case Answered(answer):
            return _answer(state, state.answer if answer is None else answer)
        case AnswerMoved(by):
            return replace(state, answer=(state.answer + by) % _ANSWERS.get(state.face, 1)), ()
        case GivenUp():
            return _closed(state)
        case ApplyAsked() | LeaveAsked() | HelpAsked():
            return _begin(state, event) if state.face is Face.REVIEW else (state, ())
        case _:
            assert_never(event)


def _begin(state: State, event: ApplyAsked | LeaveAsked | HelpAsked) -> Step:
    match event:
        case ApplyAsked():
            return (_bring(state) if state.tab is Tab.COMMITS else _apply(state)), ()
        case LeaveAsked():
            return walking.leave(state)
        case HelpAsked():
            return replace(state, face=Face.HELP, answer=NO, word=""), ()
        case _:
            assert_never(event)


def _apply(state: State) -> State:
    if state.is_running:
        return replace(state, word="the agent is still working: merge when it has ended")
    if state.is_settling and (left := len(state.changes.changes) - len(state.selection)):
        return replace(state, word=f"{left} more to settle: < takes yours, > the agent's, b both, e opens an editor")
    if not state.selection.keys:
        return replace(state, word="nothing is chosen: space chooses, A takes all that is safe, q leaves")
    risky = tuple(c.key for c in state.changes.changes if c.risks and c.key in state.selection)
    return replace(state, face=Face.RISK if risky else Face.SUMMARY, asked=risky, answer=NO, word="")


def _bring(state: State) -> State:
    if state.is_running:
        return replace(state, word="the agent is still working: bring its commits home when it has ended")
    if not state.picked_entries:
        return replace(state, word="no commit is chosen: space chooses, A takes all, 1 shows the files")
    if not state.is_told:
        return replace(state, word="the commits are still being read: once more, please")
    risky = tuple(commits.risky(state.picked_entries))
    return replace(state, face=Face.RISK if risky else Face.BRING, asked=risky, answer=NO, word="")


def brought(state: State, way: Way, name: str = "") -> Step:
    """Have the commits that are chosen brought home."""
    ids = tuple(one.id for one in state.picked_entries)
    return replace(state, face=Face.PROGRESS, answer=NO, progress=(0, 0)), (Bring(ids, way, name),)


def _answer(state: State, answer: int) -> Step:
    match state.face:
        case Face.RISK:
            return _about_risk(state, is_yes=answer == YES)
        case Face.SUMMARY if answer == YES:
            return replace(state, face=Face.PROGRESS, answer=NO, progress=(0, 0)), (Apply(state.selection),)
        case Face.CLASH if answer == YES:
            return replace(state, face=Face.REVIEW, is_onward=True), (Finish(),)
        case Face.LEAVE if answer == YES:
            return replace(state, face=Face.REVIEW), (Finish(),)
        case Face.BRING if answer != NO:
            return _way(state, WAYS[answer - 1])
        case _:
            return _closed(state)


def _closed(state: State) -> Step:
    """Go back to the review, or out when there was something to see the result of."""
    if state.face is Face.PROGRESS:
        return state, ()  # what was begun is brought to its end
    if state.face is Face.RESULT and state.is_done:
        return state, (Finish(is_kept=False),)
    return replace(state, face=Face.REVIEW, answer=NO, asked=()), ()


def _way(state: State, way: Way) -> Step:
    """Bring commits home one way; a branch first needs its name."""
    if way is Way.BRANCH:
        return replace(state, face=Face.PROMPT, prompt=Prompt(Asking.BRANCH), answer=NO), ()
    return brought(state, way)


def _about_risk(state: State, *, is_yes: bool) -> Step:
    """Keep a risky change or leave it out; then ask about the next, at last about all."""
    if state.tab is Tab.COMMITS:
        return _about_risk_of_commits(state, is_yes=is_yes), ()
    key, *rest = state.asked
    if not is_yes:
        left = core.leave(state.selection, frozenset((key,)), state.changes)
        state = with_selection(state, left, "")
        rest = [one for one in rest if one in left]
    if rest:
        return replace(state, asked=tuple(rest), answer=NO), ()
    if not state.selection.keys:
        return replace(state, face=Face.REVIEW, asked=(), answer=NO, word="nothing is chosen any more"), ()
    return replace(state, face=Face.SUMMARY, asked=(), answer=NO), ()


def _about_risk_of_commits(state: State, *, is_yes: bool) -> State:
    """Keep the commits that change a risky path, or leave them; then ask about the next, at last how all of them come."""
    key, *rest = state.asked
    if not is_yes:
        gone = frozenset(one.id for one in state.picked_entries if any(at.path == key.path for at in one.risky))
        state = replace(state, picked=state.picked - gone)
        left = commits.risky(state.picked_entries)
        rest = [one for one in rest if one in left]
    if not state.picked_entries:
        return replace(state, face=Face.REVIEW, asked=(), answer=NO, word="no commit is chosen any more")
    return replace(state, face=Face.RISK if rest else Face.BRING, asked=tuple(rest), answer=NO)
