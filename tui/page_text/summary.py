"""The summary page before a selection is applied: totals, and the changes in sections."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from agent_dev.diff.merge3 import LineMerge
from agent_dev.fs.entry import FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.labels import BLOCKED_SIGN, RISK_SIGN, SIGNS, MergeOutcome, display_path, format_count, path_text
from tui.model import outcome, totals
from tui.model.document import PageLine, Tone
from tui.state import State
from tui.text import labels
from tui.text.cells import clean_text, wrap

_INDENT = 6

DescribeChange = Callable[[Change], str]
LineMerges = Callable[[Key], LineMerge | None]
UNDO_NOTE = "agent-dev undo reverts the merge and restores what it deletes"


def changes_to_apply(state: State) -> list[Change]:
    """Return the selected changes that are applied: all but those resolved with yours."""
    return [change for change in _selected(state) if not change.is_session_only]


def _selected(state: State) -> list[Change]:
    return [change for change in state.changes.changes if change.key in state.selection]


def apply_question(state: State) -> tuple[str, str]:
    """Return the question before the selection is applied, and the affirmative answer."""
    count = len(changes_to_apply(state))
    if state.selected_totals.changes and not count:
        return "Keep yours, and apply nothing?", "Yes, keep yours"
    changes = format_count(count, "change")
    return f"Apply {changes}?", f"Yes, apply {changes}"


def apply_summary(state: State, roots: Sequence[str], commits: int, cells: int, merged: LineMerges) -> tuple[PageLine, ...]:
    """Return the summary page, at most `cells` wide; `merged` returns the three-way merge of a change."""
    applied, page = changes_to_apply(state), _Page(roots, cells)
    kept = [change for change in _selected(state) if change.is_session_only]
    both = [change for change in applied if change.is_combined]
    by_outcome: dict[MergeOutcome, list[Change]] = {one: [] for one in MergeOutcome}
    for change in both:
        by_outcome[outcome.outcome_of(change)].append(change)
    describe = _outcome(state, merged)
    choices = state.selection.partial
    parts = [*page.section("Risky", filter(_is_risky, applied), _risks, Tone.RISK)]
    parts += page.section("Partly selected", (c for c in applied if c.key in choices), _part_of(state), Tone.CHANGED)
    parts += page.section(MergeOutcome.REPLACED_YOURS.capitalize(), by_outcome[MergeOutcome.REPLACED_YOURS], describe, Tone.ERROR)
    parts += page.section(MergeOutcome.MERGED.capitalize(), by_outcome[MergeOutcome.MERGED], describe, Tone.CHANGED)
    deleted = (c for c in applied if _is_deleted(c) and c.key not in choices)
    parts += page.section("Deleted", deleted, _nothing, Tone.REMOVED)
    modes = (c for c in applied if _has_mode(state, c))
    parts += page.section("Modes", modes, labels.describe_mode, Tone.CHANGED)
    parts += page.section("Links", filter(_is_link, applied), _target, Tone.CHANGED)
    parts += page.section("Type changes", filter(_is_retyped, applied), labels.describe_kind, Tone.CHANGED)
    parts += page.section("Files", (c for c in applied if _is_plain(state, c)), _nothing, Tone.PLAIN)
    parts += page.section(MergeOutcome.KEPT_YOURS.capitalize(), kept, describe, Tone.CHANGED)
    parts += page.section("Conflicts", (c for c in state.changes.changes if c.conflict), _reason, Tone.ERROR)
    parts += page.section("Cannot be merged", (c for c in state.changes.changes if c.obstacle), _reason, Tone.ERROR)
    return (*_totals(state, applied, roots), *parts, *_not_applied(state, commits))


def _totals(state: State, applied: Sequence[Change], roots: Sequence[str]) -> Iterator[PageLine]:
    if roots:
        yield PageLine(Tone.DIM, f"into {', '.join(roots)}")
    sums = totals.sum_changes(applied, state.counts, state.parts)
    numbers = [
        f"{len(applied):,} of {format_count(state.totals.changes, 'change')}",
        format_count(sums.deletions, "deletion"),
        f"{sums.risky:,} risky",
        labels.format_line_counts(sums.insertions, sums.deleted_lines),
    ]
    yield PageLine(Tone.STRONG, " · ".join(filter(None, numbers)))
    if sums.deletions:
        yield PageLine(Tone.DIM, UNDO_NOTE)


def _not_applied(state: State, commits: int) -> Iterator[PageLine]:
    count = state.totals.changes - state.selected_totals.changes
    yield PageLine(Tone.PLAIN, "")
    if count:
        yield PageLine(Tone.DIM, f"{format_count(count, 'change')} not applied")
    if commits:
        yield PageLine(Tone.DIM, commits_not_imported(commits))


def commits_not_imported(commits: int) -> str:
    """Return the line about commits that are not imported."""
    return f"{format_count(commits, 'commit')} not imported (agent-dev merge --commits)"


class _Page:
    def __init__(self, roots: Sequence[str], cells: int) -> None:
        self._roots, self._cells = roots, cells

    def section(self, title: str, some: Iterable[Change], describe: DescribeChange, tone: Tone) -> Iterator[PageLine]:
        """Yield a heading with a count, and each change with its description; nothing if there are no changes."""
        changes = list(some)
        if not changes:
            return
        yield PageLine(Tone.PLAIN, "")
        yield PageLine(Tone.STRONG, f"{title} ({len(changes):,})")
        for change in changes:
            yield from self._item(change, describe(change), tone)

    def _item(self, change: Change, description: str, tone: Tone) -> Iterator[PageLine]:
        sign = BLOCKED_SIGN if not change.is_clean else SIGNS[change.kind]
        risk = RISK_SIGN if change.risks else " "
        name = wrap(clean_text(display_path(change.key, self._roots)), self._cells - _INDENT)
        for part, start in zip_longest(name, (f"  {sign}{risk} ",), fillvalue=" " * (_INDENT - 1)):
            yield PageLine(tone, start + part)
        for paragraph in description.split("\n") if description else ():
            for part in wrap(clean_text(paragraph), self._cells - _INDENT):
                yield PageLine(Tone.DIM, " " * _INDENT + part)


def _outcome(state: State, merged: LineMerges) -> DescribeChange:
    def describe(change: Change) -> str:
        return outcome.describe_outcome(change, merged(change.key), state.resolutions.get(change.key, ()))

    return describe


def _is_risky(change: Change) -> bool:
    return bool(change.risks)


def _is_deleted(change: Change) -> bool:
    return change.kind is ChangeKind.DELETED


def _is_link(change: Change) -> bool:
    return change.after is not None and change.after.type is FileType.SYMLINK


def _is_retyped(change: Change) -> bool:
    return change.kind is ChangeKind.RETYPED


def _has_mode(state: State, change: Change) -> bool:
    """Return whether a changed or unusual mode is applied."""
    choice = state.selection.partial.get(change.key)
    return bool(labels.describe_mode(change)) and (choice is None or choice.mode)


def _is_plain(state: State, change: Change) -> bool:
    return not (_is_risky(change) or _is_deleted(change) or _has_mode(state, change) or _is_link(change) or _is_retyped(change))


def _part_of(state: State) -> DescribeChange:
    def describe(change: Change) -> str:
        part = state.parts.get(change.key)
        if part is None:
            return ""
        whole = state.counts.get(change.key)
        hunks = format_count(part.hunks, "hunk")
        hunks = f"{part.hunks:,} of {format_count(whole.hunks, 'hunk')}" if whole else hunks
        return f"{hunks} {labels.format_line_counts(part.insertions, part.deletions)}" if part.hunks else "mode only"

    return describe


def risky_changes_page(state: State, keys: Sequence[Key], roots: Sequence[str], cells: int) -> tuple[PageLine, ...]:
    """Return the page about one or more changes with the same risks before they are applied."""
    changes = [state.changes.by_key()[key] for key in keys]
    kinds, is_one = [labels.describe_kind(one) for one in changes], len(changes) == 1
    lines = [(Tone.STRONG, display_path(keys[0], roots)), (Tone.DIM, kinds[0]), (Tone.PLAIN, "")] if is_one else []
    for one in changes[0].risks:
        lines += [(Tone.RISK, f"{RISK_SIGN} {one.why} ({one.rule})"), (Tone.DIM, f"check: {labels.risk_check(one)}")]
    if not is_one:
        lines += [(Tone.PLAIN, "")]
        lines += [(Tone.STRONG, f"{display_path(key, roots)}  {kind}") for key, kind in zip(keys, kinds, strict=True)]
    lines += [(Tone.PLAIN, ""), (Tone.DIM, f"no: deselect {'it' if is_one else 'them'}; esc: go back")]
    return tuple(PageLine(tone, part) for tone, text in lines for part in wrap(clean_text(text), cells))


def deletions_page(state: State, roots: Sequence[str], cells: int) -> tuple[PageLine, ...]:
    """Return the page about a selection that deletes a large share of the tree."""
    gone = [one for one in changes_to_apply(state) if one.kind in (ChangeKind.DELETED, ChangeKind.RETYPED)]
    page = _Page(roots, cells)
    note = PageLine(Tone.DIM, UNDO_NOTE)
    return (note, *page.section("Deleted", gone, _nothing, Tone.REMOVED))


def _nothing(_change: Change) -> str:
    return ""


def _risks(change: Change) -> str:
    return "\n".join(risk.why.replace("\n", " ") for risk in change.risks)


def _reason(change: Change) -> str:
    return change.obstacle or change.conflict or ""


def _target(change: Change) -> str:
    return f"→ {path_text(change.after.target)}" if change.after else ""
