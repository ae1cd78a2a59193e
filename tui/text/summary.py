"""What a merge would do, in words: numbers, and by name all that wants a second look."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from agent_dev.diff.merge3 import Merged
from agent_dev.overlay.changes import Change, FileType, Key, Kind
from tui.model import outcome, totals
from tui.model.document import Line, Tone
from tui.model.outcome import Outcome
from tui.state import State
from tui.text import labels as words
from tui.text.cells import clean, crop_start, wrap

_INDENT = 6

Words = Callable[[Change], str]
Merges = Callable[[Key], Merged | None]


def landing(state: State) -> list[Change]:
    """Return what of the chosen lands: not what was answered with yours, of which there is nothing to merge."""
    return [change for change in _chosen(state) if not change.is_dropped]


def _chosen(state: State) -> list[Change]:
    return [change for change in state.changes.changes if change.key in state.selection]


def question(state: State) -> tuple[str, str]:
    """Return what is asked before a merge, and the yes to it."""
    lands = len(landing(state))
    if state.chosen.changes and not lands:
        one = state.chosen.changes == 1
        return f"Keep yours, and merge nothing of {'it' if one else 'them'}?", "Yes, keep yours"
    said = words.number(lands, "change")
    return f"Merge {said}?", f"Yes, merge {said}"


def summary(state: State, roots: Sequence[str], commits: int, cells: int, merged: Merges) -> tuple[Line, ...]:
    """Return the page that is read before a merge, at most `cells` wide; `merged` knows the lines of what both changed."""
    chosen, page = landing(state), _Page(roots, cells)
    kept = [change for change in _chosen(state) if change.is_dropped]
    both = [change for change in chosen if change.has_yours]
    how = {change.key: outcome.of(change, state.answers.get(change.key, ())) for change in both}
    said = _outcome(state, merged)
    parts = [*page.section("Risky", filter(_is_risky, chosen), _risks, Tone.RISK)]
    parts += page.section("In part", (c for c in chosen if c.key in state.selection.choices), _part_of(state), Tone.CHANGED)
    parts += page.section("In place of yours", (c for c in both if how[c.key] is Outcome.AGENTS), said, Tone.WRONG)
    parts += page.section("With what you changed", (c for c in both if how[c.key] is Outcome.TOGETHER), said, Tone.CHANGED)
    gone = (c for c in chosen if _is_deleted(c) and c.key not in state.selection.choices)
    parts += page.section("Deleted", gone, _nothing, Tone.REMOVED)
    parts += page.section("Modes", filter(words.mode, chosen), words.mode, Tone.CHANGED)
    parts += page.section("Links", filter(_is_link, chosen), _target, Tone.CHANGED)
    parts += page.section("Other types", filter(_is_retyped, chosen), words.kind, Tone.CHANGED)
    parts += page.section("Files", filter(_is_plain, chosen), _nothing, Tone.PLAIN)
    blocked = [change for change in state.changes.changes if not change.is_clean]
    parts += page.section("Yours stays", kept, said, Tone.CHANGED)
    parts += page.section("Stay as you have them", blocked, _why, Tone.WRONG)
    return (*_numbers(state, chosen, roots), *parts, *_left(state, commits))


def _numbers(state: State, chosen: Sequence[Change], roots: Sequence[str]) -> Iterator[Line]:
    if roots:
        yield Line(Tone.DIM, f"into {', '.join(roots)}")
    of_these = totals.count(chosen, state.counts, state.parts)
    numbers = [
        f"{len(chosen):,} of {words.number(state.whole.changes, 'change')}",
        words.number(of_these.deletions, "deletion"),
        f"{of_these.risky:,} risky",
        words.lines(of_these.insertions, of_these.deleted_lines),
    ]
    yield Line(Tone.STRONG, " · ".join(filter(None, numbers)))


def _left(state: State, commits: int) -> Iterator[Line]:
    left = state.whole.changes - state.chosen.changes
    yield Line(Tone.PLAIN, "")
    if left:
        yield Line(Tone.DIM, f"{words.number(left, 'change')} stay{'s' * (left == 1)} in the session")
    if commits:
        yield Line(Tone.DIM, stay(commits))


def stay(commits: int) -> str:
    """Return what is said about the agent's commits."""
    stays = f"{words.number(commits, 'commit')} stay{'s' * (commits == 1)} in the session"
    return f"{stays}: agent-dev merge --commits brings them home"


class _Page:
    def __init__(self, roots: Sequence[str], cells: int) -> None:
        self._roots, self._cells = roots, cells

    def section(self, title: str, some: Iterable[Change], say: Words, tone: Tone) -> Iterator[Line]:
        """Yield a heading with a number and each change with its words; nothing for no changes."""
        changes = list(some)
        if not changes:
            return
        yield Line(Tone.PLAIN, "")
        yield Line(Tone.STRONG, f"{title} ({len(changes):,})")
        for change in changes:
            yield from self._item(change, say(change), tone)

    def _item(self, change: Change, said: str, tone: Tone) -> Iterator[Line]:
        sign = words.BLOCKED if not change.is_clean else words.SIGNS[change.kind]
        risk = words.RISK if change.risks else " "
        name = crop_start(clean(words.name(change.key, self._roots)), self._cells - _INDENT)
        yield Line(tone, f"  {sign}{risk} {name}")
        for paragraph in said.split("\n") if said else ():
            for part in wrap(clean(paragraph), self._cells - _INDENT):
                yield Line(Tone.DIM, " " * _INDENT + part)


def _outcome(state: State, merged: Merges) -> Words:
    def said(change: Change) -> str:
        return outcome.sentence(change, merged(change.key), state.answers.get(change.key, ()))

    return said


def _is_risky(change: Change) -> bool:
    return bool(change.risks)


def _is_deleted(change: Change) -> bool:
    return change.kind is Kind.DELETED


def _is_link(change: Change) -> bool:
    return change.after is not None and change.after.type is FileType.SYMLINK


def _is_retyped(change: Change) -> bool:
    return change.kind is Kind.RETYPED


def _is_plain(change: Change) -> bool:
    return not (_is_risky(change) or _is_deleted(change) or words.mode(change) or _is_link(change) or _is_retyped(change))


def _part_of(state: State) -> Words:
    def said(change: Change) -> str:
        part = state.parts.get(change.key)
        if part is None:
            return ""
        whole = state.counts.get(change.key)
        of = f" of {whole.blocks:,}" if whole else ""
        lines = words.lines(part.insertions, part.deletions)
        return f"{part.blocks:,}{of} block{'s' * (part.blocks != 1)} {lines}" if part.blocks else "only its mode"

    return said


def risk(state: State, key: Key, roots: Sequence[str], cells: int) -> tuple[Line, ...]:
    """Return the page that is read before one risky change is taken."""
    change = state.changes.by_key()[key]
    said = [(Tone.STRONG, words.name(key, roots)), (Tone.DIM, words.kind(change)), (Tone.PLAIN, "")]
    for one in change.risks:
        said += [(Tone.RISK, f"{words.RISK} {one.why} ({one.rule})"), (Tone.DIM, f"look at: {words.look(one)}")]
    said += [(Tone.PLAIN, ""), (Tone.DIM, "no leaves it in the session; esc goes back to look at it")]
    return tuple(Line(tone, part) for tone, text in said for part in wrap(clean(text), cells))


def _nothing(_change: Change) -> str:
    return ""


def _risks(change: Change) -> str:
    return "\n".join(risk.why.replace("\n", " ") for risk in change.risks)


def _why(change: Change) -> str:
    return change.obstacle or change.conflict or ""


def _target(change: Change) -> str:
    return f"→ {words.text(change.after.target)}" if change.after else ""
