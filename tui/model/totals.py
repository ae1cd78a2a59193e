"""The numbers that the screen always shows: how much is there, and how much of it is chosen."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from agent_dev.overlay.changes import Change, Key, Kind


class Count(NamedTuple):
    """Of one file, or of what is chosen of it: blocks, lines that come, lines that go."""

    blocks: int = 0
    insertions: int = 0
    deletions: int = 0


class Totals(NamedTuple):
    """How many changes; of them deletions, risky ones, ones that cannot be merged; of those counted the blocks and lines.

    `uncounted`: how many were not counted yet.
    """

    changes: int = 0
    deletions: int = 0
    risky: int = 0
    blocked: int = 0
    blocks: int = 0
    insertions: int = 0
    deleted_lines: int = 0
    uncounted: int = 0

    def __add__(self, other: "Totals") -> "Totals":  # type: ignore[override]
        return Totals(*(one + two for one, two in zip(self, other, strict=True)))

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(*(one - two for one, two in zip(self, other, strict=True)))

    @property
    def lines(self) -> int:
        """Lines that come or go."""
        return self.insertions + self.deleted_lines


NONE = Totals()
Counts = Mapping[Key, Count]


class Tally(Mapping[Key, Count]):
    """What was counted, in layers of which each is smaller than the one before.

    100,000 changes are counted a few at a time; a dictionary made anew for each time would copy 25 million entries.
    """

    def __init__(self, layers: tuple[dict[Key, Count], ...] = ()) -> None:
        self.layers = layers

    def plus(self, counts: Counts) -> "Tally":
        """Return a tally that knows these as well; the newer count of a change holds."""
        layers, top = self.layers, dict(counts)
        while layers and len(layers[-1]) <= len(top):
            top = {**layers[-1], **top}
            layers = layers[:-1]
        return Tally((*layers, top))

    def __getitem__(self, key: Key) -> Count:
        for layer in reversed(self.layers):
            if key in layer:
                return layer[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[Key]:
        return iter(dict.fromkeys(chain.from_iterable(self.layers)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def count(changes: Iterable[Change], counts: Counts, parts: Counts) -> Totals:
    """Count changes: the files by what they are, their lines by `parts` where only a part is meant, else by `counts`."""
    files = deletions = risky = blocked = blocks = insertions = deleted = uncounted = 0
    for change in changes:
        files += 1
        deletions += change.kind is Kind.DELETED and change.key not in parts
        risky += bool(change.risks)
        blocked += not change.is_clean
        known = parts.get(change.key) or counts.get(change.key)
        if known is None:
            uncounted += 1
        else:
            blocks += known.blocks
            insertions += known.insertions
            deleted += known.deletions
    return Totals(files, deletions, risky, blocked, blocks, insertions, deleted, uncounted)


def sentence(chosen: Totals, whole: Totals, cells: int) -> tuple[str, str]:
    """Return the numbers in words: how many are chosen, and the rest; in fewer words where there is little room."""
    more = "+" if whole.uncounted else ""
    files, short = f"{chosen.changes:,} of {whole.changes:,}", f"{chosen.changes:,}/{whole.changes:,}"
    blocks = f"{chosen.blocks:,}/{whole.blocks:,}{more}"
    lines = f"{chosen.lines:,}/{whole.lines:,}{more}"
    deletions, risky = f"{chosen.deletions:,}/{whole.deletions:,}", f"{chosen.risky:,}/{whole.risky:,}"
    blocked = f" · {whole.blocked:,} cannot be merged" if whole.blocked else ""
    sign = f" · ✗ {whole.blocked:,}" if whole.blocked else ""
    first = f" chosen {files} change{'s' * (whole.changes != 1)}"
    variants = (
        (first, f" · blocks {blocks} · lines {lines} · deletions {deletions} · risky {risky}{blocked}"),
        (f" chosen {files}", f" · blocks {blocks} · lines {lines} · deletions {deletions} · risky {risky}{sign}"),
        (f" chosen {files}", f" · {blocks} blocks · {lines} lines · -{deletions} · !{risky}{sign}"),
        (f" chosen {short}", f" · {blocks} blocks · {lines} lines · -{deletions} · !{risky}{sign}"),
        (f" {short}", f" · ={lines} · -{deletions} · !{risky}"),
        (f" {short}", f" · -{deletions} · !{risky}"),
    )
    return next((one for one in variants if len(one[0]) + len(one[1]) <= cells), variants[-1])
