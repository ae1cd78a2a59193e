"""A line that is typed: a filter that works with every letter, a search, the palette of all that can be done."""

from dataclasses import replace
from typing import assert_never

from tui.effects import Do
from tui.events import Asking, LineAsked, Pane, Typed, TypedOut, Typing
from tui.model.tabs import Tab, Way
from tui.state import Face, Prompt, State, Step
from tui.update import cursor as moving
from tui.update import questions as asking
from tui.update import view as viewing


def write(state: State, event: Typing) -> Step:
    """Begin, go on with, or end a line."""
    match event:
        case LineAsked(what):
            before = state.listing.sieve.text if what is Asking.FILTER else ""
            return replace(state, face=Face.PROMPT, prompt=Prompt(what, before, before), word=""), ()
        case Typed(text):
            return _typed(state, text)
        case TypedOut(is_meant):
            return _ended(state, is_meant=is_meant)
        case _:
            assert_never(event)


def _typed(state: State, text: str) -> Step:
    if state.prompt is None:
        return state, ()
    made = replace(state, prompt=replace(state.prompt, text=text, at=0))
    if state.prompt.what is not Asking.FILTER:
        return made, ()
    return moving.shown(viewing.filtered(made, text))


def chosen(state: State, by: int) -> State:
    """Move the palette's cursor."""
    if state.prompt is None:
        return state
    last = max(0, len(state.found_actions) - 1)
    return replace(state, prompt=replace(state.prompt, at=max(0, min(state.prompt.at + by, last))))


def _ended(state: State, *, is_meant: bool) -> Step:
    prompt = state.prompt
    done = replace(state, face=Face.REVIEW, prompt=None)
    if prompt is None:
        return done, ()
    match prompt.what:
        case Asking.FILTER:
            if not is_meant:
                return moving.shown(viewing.filtered(done, prompt.before))
            count = len(done.listing.group_of)
            return replace(done, word=f"{count:,} match; esc shows all again" if prompt.text else ""), ()
        case Asking.SEARCH:
            return _search(done, prompt.text) if is_meant and prompt.text else (done, ())
        case Asking.PALETTE:
            found = state.found_actions
            return done, ((Do(found[prompt.at][0]),) if is_meant and found else ())
        case Asking.BRANCH:
            return asking.brought(done, Way.BRANCH, prompt.text.strip()) if is_meant and prompt.text.strip() else (done, ())
        case _:
            assert_never(prompt.what)


def _search(state: State, text: str) -> Step:
    """Go to the first match from the cursor on: in this diff, then in those of the other changes."""
    made = replace(state, search=text)
    if state.tab is not Tab.CHANGES:
        return moving.seek(made, 1)
    document = made.diff.document
    start = made.diff.cursor if made.pane is Pane.DIFF else 0
    for row in range(start, len(document.rows)):
        if moving.holds(document, row, text):
            there = moving.on_pane(made, Pane.DIFF)
            return replace(there, diff=replace(there.diff, cursor=row), word="n and N go to the next match"), ()
    return moving.seek(made, 1)
