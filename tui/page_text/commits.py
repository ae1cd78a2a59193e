"""Texts about the commits of a session: the status message, and the pages shown before an import."""

from collections.abc import Iterable, Iterator, Sequence

from agent_dev.fs.entry import Key
from agent_dev.overlay.labels import RISK_SIGN, display_path, format_count
from tui.model.document import PageLine, Tone
from tui.model.tabs import ImportMode, RiskyPath, Tab, TabEntry
from tui.state import State
from tui.text import labels
from tui.text.cells import clean_text, crop, crop_start, wrap

_DESCRIPTIONS = {
    ImportMode.ONTO_BRANCH: "fast-forward, else rebase or merge onto your branch; updates your files and index",
    ImportMode.NEW_BRANCH: "a new branch that you name; your files do not change",
    ImportMode.SQUASHED: (
        "one commit whose message lists all of them; updates your files and index "
        "(for your own message: agent-dev merge --commits --squash -m TEXT)"
    ),
}
_INDENT = 6


def count_commits(state: State) -> int:
    """Return the number of commits that can be selected."""
    return sum(bool(one.id) for one in state.tabs.get(Tab.COMMITS, ()))


def status_message(state: State) -> str:
    """Return the default status message."""
    if state.tab is Tab.COMMITS:
        return "import commits with their files: space selects, c imports, d declines"
    return f"{format_count(count_commits(state), 'commit')} not imported (press 2)"


def import_summary(state: State, roots: Sequence[str], cells: int) -> tuple[PageLine, ...]:
    """Return the summary page before an import, at most `cells` wide."""
    selected = state.selected_commit_entries
    lines = [PageLine(Tone.PLAIN, f"  {crop(clean_text(one.title), cells - 2)}") for one in selected]
    return (
        *lines,
        *_risky_section(tuple(risky_paths(selected).values()), roots, cells),
        PageLine(Tone.PLAIN, ""),
        *_modes_section(cells),
    )


def decline_summary(state: State, cells: int) -> tuple[PageLine, ...]:
    """Return the page before commits are declined, at most `cells` wide."""
    about = "They stay in the session, marked as declined, and are no longer reported as not imported. agent-dev undo reverts it."
    lines = [PageLine(Tone.PLAIN, f"  {crop(clean_text(one.title), cells - 2)}") for one in state.selected_commit_entries]
    return (*lines, PageLine(Tone.PLAIN, ""), *(PageLine(Tone.DIM, part) for part in wrap(about, cells)))


def risky_paths(entries: Iterable[TabEntry]) -> dict[Key, RiskyPath]:
    """Return the risky paths of some commits, with the risks and details of all of them."""
    paths: dict[Key, RiskyPath] = {}
    for one in (one for entry in entries for one in entry.risky_paths):
        key = Key(0, one.path)
        old = paths.get(key, RiskyPath(one.path, ()))
        new = tuple(risk for risk in one.risks if risk.rule not in {known.rule for known in old.risks})
        paths[key] = RiskyPath(one.path, (*old.risks, *new), (*old.details, *one.details))
    return paths


def risky_paths_page(state: State, keys: Sequence[Key], roots: Sequence[str], cells: int) -> tuple[PageLine, ...]:
    """Return the page about one or more paths with the same risks before their commits are imported."""
    found = risky_paths(state.selected_commit_entries)
    some, paths = [found[key] for key in keys], {key.path for key in keys}
    lines = [*((Tone.STRONG, display_path(key, roots)) for key in keys), (Tone.PLAIN, "")]
    for each in some[0].risks:
        lines += [(Tone.RISK, f"{RISK_SIGN} {each.why} ({each.rule})"), (Tone.DIM, f"check: {labels.risk_check(each)}")]
    lines += [(Tone.PLAIN, text) for one in some for text in one.details]
    lines += [(Tone.PLAIN, ""), (Tone.DIM, "in these commits:")]
    lines += [
        (Tone.DIM, f"  {entry.title}")
        for entry in state.selected_commit_entries
        if any(one.path in paths for one in entry.risky_paths)
    ]
    lines += [(Tone.PLAIN, ""), (Tone.DIM, "no: skip these commits; esc: go back")]
    return tuple(PageLine(tone, part) for tone, text in lines for part in wrap(clean_text(text), cells))


def _risky_section(some: Sequence[RiskyPath], roots: Sequence[str], cells: int) -> Iterator[PageLine]:
    if not some:
        return
    yield PageLine(Tone.PLAIN, "")
    yield PageLine(Tone.STRONG, f"Risky ({len(some):,})")
    for one in some:
        yield PageLine(
            Tone.RISK,
            f"  {RISK_SIGN}  {crop_start(clean_text(display_path(Key(0, one.path), roots)), cells - _INDENT)}",
        )
        for each in one.risks:
            yield from (PageLine(Tone.DIM, " " * _INDENT + part) for part in wrap(clean_text(each.why), cells - _INDENT))


def _modes_section(cells: int) -> Iterator[PageLine]:
    for mode, description in _DESCRIPTIONS.items():
        yield PageLine(Tone.STRONG, f"{mode.value}:")
        yield from (PageLine(Tone.DIM, f"  {part}") for part in wrap(description, cells - 2))
