"""What is said of the commits that come home, or stay."""

from collections.abc import Iterator, Sequence

from agent_dev.core.changes import Change, Key
from tui import words
from tui.cells import clean, crop, crop_start, wrap
from tui.document import Line, Tone
from tui.entries import Tab, Way
from tui.state import State

_WHAT = {
    Way.YOURS: "fast-forward, or on top of what you committed meanwhile; your files and your index come along",
    Way.BRANCH: "a new branch with a name of your choice; your files stay as they are",
    Way.ONE: "all of it as one commit that you write; your files and your index come along",
}
_INDENT = 6


def count(state: State) -> int:
    """Return how many commits there are to choose from."""
    return sum(bool(one.id) for one in state.tabs.get(Tab.COMMITS, ()))


def word(state: State) -> str:
    """Return what is said of them while nothing else is to be said."""
    if state.tab is Tab.COMMITS:
        return "commits come home with their files: space chooses, c asks how"
    some = count(state)
    return f"{words.number(some, 'commit')} stay{'s' * (some == 1)} in the session: 2 chooses what comes home"


def summary(state: State, roots: Sequence[str], cells: int) -> tuple[Line, ...]:
    """Return the page that is read before commits come home, at most `cells` wide."""
    chosen = state.picked_entries
    lines = [Line(Tone.PLAIN, f"  {crop(clean(one.line), cells - 2)}") for one in chosen]
    paths = {Key(0, path) for one in chosen for path in one.paths}
    risky = [change for change in state.changes.changes if change.risks and change.key in paths]
    return (*lines, *_risky(risky, roots, cells), Line(Tone.PLAIN, ""), *_ways(cells))


def _risky(some: Sequence[Change], roots: Sequence[str], cells: int) -> Iterator[Line]:
    if not some:
        return
    yield Line(Tone.PLAIN, "")
    yield Line(Tone.STRONG, f"Risky, and with them ({len(some):,})")
    for change in some:
        yield Line(Tone.RISK, f"  {words.RISK}  {crop_start(clean(words.name(change.key, roots)), cells - _INDENT)}")
        for risk in change.risks:
            yield from (Line(Tone.DIM, " " * _INDENT + part) for part in wrap(clean(risk.why), cells - _INDENT))


def _ways(cells: int) -> Iterator[Line]:
    for way, what in _WHAT.items():
        yield Line(Tone.STRONG, f"{way.value}:")
        yield from (Line(Tone.DIM, f"  {part}") for part in wrap(what, cells - 2))
