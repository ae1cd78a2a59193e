"""Questions and pages: before a merge each risky change by itself, then all of it; before leaving; the keys."""

from dataclasses import replace
from typing import assert_never

from agent_dev.core import selection as core
from tui.effects import Apply, Finish
from tui.events import Answered, AnswerMoved, ApplyAsked, GivenUp, HelpAsked, LeaveAsked, Question
from tui.state import Face, State, Step, with_selection
from tui.steps import walking

_ASKING = (Face.RISK, Face.SUMMARY, Face.LEAVE)


def ask(state: State, event: Question) -> Step:
    """Ask, or take an answer."""
    match event:
        case Answered(is_yes):
            return _answer(state, is_yes=state.is_yes if is_yes is None else is_yes)
        case AnswerMoved():
            return replace(state, is_yes=not state.is_yes and state.face in _ASKING), ()
        case GivenUp():
            return _given_up(state)
        case ApplyAsked() | LeaveAsked() | HelpAsked():
            return _begin(state, event) if state.face is Face.REVIEW else (state, ())
        case _:
            assert_never(event)


def _begin(state: State, event: ApplyAsked | LeaveAsked | HelpAsked) -> Step:
    match event:
        case ApplyAsked():
            return _apply(state), ()
        case LeaveAsked():
            return walking.leave(state)
        case HelpAsked():
            return replace(state, face=Face.HELP, is_yes=False, word=""), ()
        case _:
            assert_never(event)


def _apply(state: State) -> State:
    if state.is_running:
        return replace(state, word="the agent is still working: merge when it has ended")
    if not state.selection.keys:
        return replace(state, word="nothing is chosen: space chooses, A takes all that is safe, q leaves")
    risky = tuple(c.key for c in state.changes.changes if c.risks and c.key in state.selection)
    return replace(state, face=Face.RISK if risky else Face.SUMMARY, asked=risky, is_yes=False, word="")


def _answer(state: State, *, is_yes: bool) -> Step:
    match state.face:
        case Face.RISK:
            return _about_risk(state, is_yes=is_yes)
        case Face.SUMMARY if is_yes:
            return replace(state, face=Face.PROGRESS, is_yes=False, progress=(0, 0)), (Apply(state.selection),)
        case Face.LEAVE if is_yes:
            return replace(state, face=Face.REVIEW), (Finish(),)
        case Face.RESULT:
            return state, (Finish(is_kept=False),)
        case Face.PROGRESS:
            return state, ()  # what was begun is brought to its end
        case _:
            return replace(state, face=Face.REVIEW, is_yes=False), ()


def _given_up(state: State) -> Step:
    if state.face in (Face.PROGRESS, Face.RESULT):
        return _answer(state, is_yes=False)
    return replace(state, face=Face.REVIEW, is_yes=False, asked=()), ()


def _about_risk(state: State, *, is_yes: bool) -> Step:
    """Keep a risky change or leave it out; then ask about the next, at last about all."""
    key, *rest = state.asked
    if not is_yes:
        left = core.leave(state.selection, frozenset((key,)), state.changes)
        state = with_selection(state, left, "")
        rest = [one for one in rest if one in left]
    if rest:
        return replace(state, asked=tuple(rest), is_yes=False), ()
    if not state.selection.keys:
        return replace(state, face=Face.REVIEW, asked=(), is_yes=False, word="nothing is chosen any more"), ()
    return replace(state, face=Face.SUMMARY, asked=(), is_yes=False), ()
