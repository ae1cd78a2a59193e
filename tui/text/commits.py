"""What is said of the commits that come home, or stay."""

from collections.abc import Iterable, Iterator, Sequence

from agent_dev.overlay.changes import Key
from tui.model.document import Line, Tone
from tui.model.tabs import Entry, Risky, Tab, Way
from tui.state import State
from tui.text import labels as words
from tui.text.cells import clean, crop, crop_start, wrap

_WHAT = {
    Way.YOURS: "fast-forward, or on top of what you committed meanwhile; your files and your index come along",
    Way.BRANCH: "a new branch with a name of your choice; your files stay as they are",
    Way.ONE: (
        "all of it as one commit, whose message names each of them; your files and your index come along "
        "(a message of your own: agent-dev merge --commits --squash -m TEXT)"
    ),
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
    return (*lines, *_risky(tuple(risky(chosen).values()), roots, cells), Line(Tone.PLAIN, ""), *_ways(cells))


def risky(entries: Iterable[Entry]) -> dict[Key, Risky]:
    """Return what of some commits wants a look, by path: all that any of them says of it."""
    found: dict[Key, Risky] = {}
    for one in (one for entry in entries for one in entry.risky):
        key = Key(0, one.path)
        old = found.get(key, Risky(one.path, ()))
        new = tuple(risk for risk in one.risks if risk.rule not in {known.rule for known in old.risks})
        found[key] = Risky(one.path, (*old.risks, *new), (*old.about, *one.about))
    return found


def risk(state: State, key: Key, roots: Sequence[str], cells: int) -> tuple[Line, ...]:
    """Return the page that is read before commits with one risky path come home."""
    one = risky(state.picked_entries)[key]
    said = [(Tone.STRONG, words.name(key, roots)), (Tone.PLAIN, "")]
    for each in one.risks:
        said += [(Tone.RISK, f"{words.RISK} {each.why} ({each.rule})"), (Tone.DIM, f"look at: {words.look(each)}")]
    said += [(Tone.PLAIN, text) for text in one.about]
    said += [(Tone.PLAIN, ""), (Tone.DIM, "in these commits:")]
    said += [(Tone.DIM, f"  {entry.line}") for entry in state.picked_entries if any(at.path == one.path for at in entry.risky)]
    said += [(Tone.PLAIN, ""), (Tone.DIM, "no leaves these commits in the session; esc goes back to look at them")]
    return tuple(Line(tone, part) for tone, text in said for part in wrap(clean(text), cells))


def _risky(some: Sequence[Risky], roots: Sequence[str], cells: int) -> Iterator[Line]:
    if not some:
        return
    yield Line(Tone.PLAIN, "")
    yield Line(Tone.STRONG, f"Risky, and with them ({len(some):,})")
    for one in some:
        yield Line(Tone.RISK, f"  {words.RISK}  {crop_start(clean(words.name(Key(0, one.path), roots)), cells - _INDENT)}")
        for each in one.risks:
            yield from (Line(Tone.DIM, " " * _INDENT + part) for part in wrap(clean(each.why), cells - _INDENT))


def _ways(cells: int) -> Iterator[Line]:
    for way, what in _WHAT.items():
        yield Line(Tone.STRONG, f"{way.value}:")
        yield from (Line(Tone.DIM, f"  {part}") for part in wrap(what, cells - 2))
