"""The pages over the review: what a merge would do, leaving with something chosen, and the keys."""

from collections.abc import Callable, Sequence

from tui.events import Event
from tui.keys.bindings import REVIEW
from tui.keys.key_names import Keys
from tui.model.document import Line, Tone
from tui.model.tabs import Tab
from tui.screens.question import PageScreen, QuestionScreen, as_pieces
from tui.source import Source
from tui.state import State
from tui.text import commits
from tui.text import labels as words
from tui.text.cells import clean, wrap
from tui.text.summary import question, risk, summary
from tui.update.questions import WAYS
from tui.widgets.paint import Piece

Send = Callable[[Event], None]

_WIDEST = 104  # columns of a page's text at most
_FRAME = 6  # columns that a page's frame, margin and scrollbar take
_KEYS, _NARROW = 15, 10  # columns of the keys, and of what they do at least
_SETTLE = ("No, leave all as it is", "Yes, settle it")
_LEGEND = (
    ("[x] [ ] [~]", "chosen, not chosen, some of it"),
    ("x ·", "a line of a block: chosen, not chosen"),
    ("✓", "looked at"),
    ("✗", "cannot be merged, for the reason beside it"),
    ("+ ~ -", "new, edited, deleted"),
    ("% m", "other type now; only mode or attributes"),
    ("!", "risky: never taken with the others"),
)


def summary_screen(state: State, source: Source, send: Send) -> QuestionScreen:
    """Return the last page before a merge."""
    kept = len(state.tabs.get(Tab.COMMITS, ()))
    lines = summary(state, source.roots, kept, min(state.columns - _FRAME, _WIDEST), source.merged)
    if state.is_settling:
        answers = ("No, go back", "Yes, bring them home")
        return QuestionScreen(("Bring the commits home with this?", as_pieces(lines)), answers, send)
    asked, yes = question(state)
    return QuestionScreen((asked, as_pieces(lines)), ("No, go back", yes), send)


def bring_screen(state: State, source: Source, send: Send) -> QuestionScreen:
    """Return the question how commits come home."""
    lines = commits.summary(state, source.roots, min(state.columns - _FRAME, _WIDEST))
    title = f"Bring {words.number(len(state.picked_entries), 'commit')} home?"
    return QuestionScreen((title, as_pieces(lines)), ("No", *(way.value for way in WAYS)), send)


def risk_screen(state: State, source: Source, send: Send) -> QuestionScreen:
    """Return the question about one risky change."""
    is_commits, left = state.tab is Tab.COMMITS, len(state.asked)
    said = commits.risk if is_commits else risk
    lines = said(state, state.asked[0], source.roots, min(state.columns - _FRAME, _WIDEST))
    answers = ("No, leave its commits", "Yes, bring it") if is_commits else ("No, leave it out", "Yes, take it")
    title = "Bring this risky change home?" if is_commits else "Take this risky change?"
    return QuestionScreen((f"{title} ({left} to confirm)" if left > 1 else title, as_pieces(lines)), answers, send)


def result_screen(state: State, send: Send) -> PageScreen:
    """Return what came of a merge."""
    wrapped = [part for line in state.result for part in wrap(clean(line), state.columns - _FRAME)]
    title = "Nothing was changed" if not state.is_done else "Merged in part" if state.code else "Merged"
    page = as_pieces([Line(Tone.PLAIN, text) for text in wrapped])
    return PageScreen(title, page, send, way_out="done, leave" if state.is_done else "back")


def clash_screen(state: State, send: Send) -> QuestionScreen:
    """Return the question whether conflicts of commits are to be settled now."""
    wrapped = [part for line in state.result for part in wrap(clean(line), state.columns - _FRAME)]
    page = as_pieces([Line(Tone.PLAIN, text) for text in wrapped])
    return QuestionScreen(("These commits and yours are in each other's way. Settle that now?", page), _SETTLE, send)


def leave_screen(state: State, source: Source, send: Send) -> QuestionScreen:
    """Return the question before a choice is thrown away."""
    some = [(state.chosen.changes, "change"), (len(state.picked_entries), "commit")]
    chosen = " and ".join(words.number(*one) for one in some if one[0])
    kept = f"session {source.session} keeps everything, and the choice too"
    lines = [
        Line(Tone.PLAIN, f"{chosen} {'is' if sum(count for count, _ in some) == 1 else 'are'} chosen and not merged."),
        Line(Tone.DIM, f"Nothing is lost: {kept}."),
    ]
    wrapped = [Line(line.tone, part) for line in lines for part in wrap(clean(line.text), state.columns - _FRAME)]
    return QuestionScreen(("Leave without merging?", as_pieces(wrapped)), ("No, stay", "Yes, leave"), send)


def help_screen(known: Keys, meanings: dict[str, str], send: Send, columns: int) -> PageScreen:
    """Return the keys, as they are bound now, and the signs, at most so many columns wide."""
    names = sorted(meanings, key=[*REVIEW, *meanings].index)  # a key that was rebound stands where it always does
    cells = min(columns - _FRAME, _WIDEST) - _KEYS - 2
    rows: list[Sequence[Piece]] = [row for name in names for row in _help_rows(" ".join(known[name]), meanings[name], cells)]
    rows += [[], [Piece(" Signs", Tone.STRONG)]]
    rows += [row for sign, meaning in _LEGEND for row in _help_rows(sign, meaning, cells)]
    return PageScreen("Keys", rows, send)


def _help_rows(left: str, right: str, cells: int) -> list[list[Piece]]:
    parts = wrap(right, max(cells, _NARROW))
    return [[Piece(f" {'' if at else left:<{_KEYS}} ", "accent"), Piece(part)] for at, part in enumerate(parts)]
