"""How things are shown: switches, context, what is listed."""

from dataclasses import replace

from tui.events import ContextChanged, Pane, Switch, View
from tui.model import change_list as rows
from tui.model.change_list import ChangeRow, Sieve
from tui.model.document import EVERYTHING
from tui.state import CONTEXT, Looks, State, Step, relisted
from tui.update import cursor as moving

_WORDS = {
    Switch.SPLIT: ("both sides beside each other", "one below the other"),
    Switch.SPACE: ("changes of white space alone are folded", "changes of white space are shown"),
    Switch.WRAP: ("long lines are wrapped", "long lines are cut: shift+→ shows more"),
    Switch.NUMBERS: ("line numbers", "no line numbers"),
    Switch.WHOLE: ("the whole file", "the lines around each block"),
    Switch.TREE: ("directories inside each other", "one heading for each directory"),
    Switch.UNREVIEWED: ("only what was not looked at yet", "all changes"),
    Switch.LINES: ("space takes single lines", "space takes whole blocks"),
    Switch.BASE: ("with what stood there before", "without what stood there before"),
}


def view(state: State, event: View) -> Step:
    """Show things another way."""
    if isinstance(event, ContextChanged):
        context = CONTEXT if state.looks.is_whole else max(0, state.looks.context + event.by)
        looks = replace(state.looks, context=context)
        return moving.reloaded(replace(state, looks=looks, word=f"{context} line{'s' * (context != 1)} around each block"))
    if event.what is Switch.RANGE:
        return _range(state), ()
    looks, is_on = _switched(state.looks, event.what)
    made = replace(state, looks=looks, word=_WORDS[event.what][not is_on])
    if event.what in (Switch.TREE, Switch.UNREVIEWED):
        return moving.shown(listed(made))
    return (made, ()) if event.what in (Switch.NUMBERS, Switch.LINES) else moving.reloaded(made)


def _switched(looks: Looks, what: Switch) -> tuple[Looks, bool]:
    if what is Switch.WHOLE:
        return replace(looks, context=CONTEXT if looks.is_whole else EVERYTHING), not looks.is_whole
    name = {
        Switch.SPLIT: "is_split",
        Switch.SPACE: "is_spaceless",
        Switch.WRAP: "is_wrapped",
        Switch.NUMBERS: "has_numbers",
        Switch.TREE: "is_tree",
        Switch.UNREVIEWED: "is_unreviewed",
        Switch.LINES: "is_lines",
        Switch.BASE: "has_base",
    }[what]
    is_on = not getattr(looks, name)
    return replace(looks, **{name: is_on}), is_on


def _range(state: State) -> State:
    if state.pane is not Pane.DIFF:
        return replace(state, word="a range is marked in the diff: enter goes there")
    anchor = -1 if state.diff.anchor >= 0 else state.diff.cursor
    word = "" if anchor < 0 else "move to mark a range of lines, space takes it, esc gives it up"
    return replace(state, diff=replace(state.diff, anchor=anchor), word=word)


def filtered(state: State, text: str) -> State:
    """List only changes whose names hold a text."""
    return listed(replace(state, listing=replace(state.listing, sieve=replace(state.listing.sieve, text=text))))


def listed(state: State) -> State:
    """List the changes as the switches and the filter say now; what is closed stays closed."""
    hidden = state.reviewed if state.looks.is_unreviewed else frozenset()
    sieve = Sieve(state.looks.is_tree, state.listing.sieve.text, hidden)
    closed = frozenset(rows.name(state.listing.groups[at]) for at in state.listing.closed)
    made = relisted(state, rows.listing(state.changes, sieve, closed if state.listing.groups else None))
    if made.change is None and made.listing.rows:
        first = next((at for at, row in enumerate(made.listing.rows) if isinstance(row, ChangeRow)), made.cursor)
        made = replace(made, cursor=first)
    return made
