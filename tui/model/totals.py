"""The totals that the screen shows: of all changes, and of the selection."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeKind


class LineCount(NamedTuple):
    """Counts of a file, or of its selected part: hunks, insertions, deletions."""

    hunks: int = 0
    insertions: int = 0
    deletions: int = 0


class Totals(NamedTuple):
    """The numbers of changes, of deletions, of risky and unmergeable changes, and of the hunks and lines counted so far.

    `uncounted`: the number of changes not counted yet.
    """

    changes: int = 0
    deletions: int = 0
    risky: int = 0
    unmergeable: int = 0
    hunks: int = 0
    insertions: int = 0
    deleted_lines: int = 0
    uncounted: int = 0

    def __add__(self, other: "Totals") -> "Totals":  # type: ignore[override]
        return Totals(*(one + two for one, two in zip(self, other, strict=True)))

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(*(one - two for one, two in zip(self, other, strict=True)))

    @property
    def lines(self) -> int:
        """Number of inserted and deleted lines."""
        return self.insertions + self.deleted_lines


ZERO = Totals()
Counts = Mapping[Key, LineCount]


class LayeredCounts(Mapping[Key, LineCount]):
    """Counts by change, in layers, each smaller than the one before.

    100,000 changes are counted in batches; copying one dictionary per batch would copy 25 million entries.
    """

    def __init__(self, layers: tuple[dict[Key, LineCount], ...] = ()) -> None:
        self.layers = layers

    def with_counts(self, counts: Counts) -> "LayeredCounts":
        """Return the counts with these added; they replace older ones."""
        layers, top = self.layers, dict(counts)
        while layers and len(layers[-1]) <= len(top):
            top = {**layers[-1], **top}
            layers = layers[:-1]
        return LayeredCounts((*layers, top))

    def __getitem__(self, key: Key) -> LineCount:
        for layer in reversed(self.layers):
            if key in layer:
                return layer[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[Key]:
        return iter(dict.fromkeys(chain.from_iterable(self.layers)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def sum_changes(changes: Iterable[Change], counts: Counts, parts: Counts) -> Totals:
    """Sum up changes; their lines come from `parts` for partial selections, otherwise from `counts`."""
    files = deletions = risky = blocked = blocks = insertions = deleted = uncounted = 0
    for change in changes:
        files += 1
        deletions += change.kind is ChangeKind.DELETED and change.key not in parts
        risky += bool(change.risks)
        blocked += not change.is_clean
        known = parts.get(change.key) or counts.get(change.key)
        if known is None:
            uncounted += 1
        else:
            blocks += known.hunks
            insertions += known.insertions
            deleted += known.deletions
    return Totals(files, deletions, risky, blocked, blocks, insertions, deleted, uncounted)


def format_totals(selected: Totals, total: Totals, cells: int) -> tuple[str, str]:
    """Format the totals as text in two parts: the number of selected changes, and the rest; shorter if space is short."""
    plus = "+" if total.uncounted else ""
    files, short = f"{selected.changes:,} of {total.changes:,}", f"{selected.changes:,}/{total.changes:,}"
    hunks = f"{selected.hunks:,}/{total.hunks:,}{plus}"
    lines = f"{selected.lines:,}/{total.lines:,}{plus}"
    deletions, risky = f"{selected.deletions:,}/{total.deletions:,}", f"{selected.risky:,}/{total.risky:,}"
    blocked = f" · {total.unmergeable:,} cannot be merged" if total.unmergeable else ""
    sign = f" · ✗ {total.unmergeable:,}" if total.unmergeable else ""
    first = f" selected {files} change{'s' * (total.changes != 1)}"
    variants = (
        (first, f" · hunks {hunks} · lines {lines} · deletions {deletions} · risky {risky}{blocked}"),
        (f" selected {files}", f" · hunks {hunks} · lines {lines} · deletions {deletions} · risky {risky}{sign}"),
        (f" selected {files}", f" · {hunks} hunks · {lines} lines · -{deletions} · !{risky}{sign}"),
        (f" selected {short}", f" · {hunks} hunks · {lines} lines · -{deletions} · !{risky}{sign}"),
        (f" {short}", f" · ={lines} · -{deletions} · !{risky}"),
        (f" {short}", f" · -{deletions} · !{risky}"),
    )
    return next((one for one in variants if len(one[0]) + len(one[1]) <= cells), variants[-1])
