"""The numbers that the screen always shows: how much is there, and how much of it is chosen."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent_dev.core.changes import Change, Kind


@dataclass(frozen=True, slots=True)
class Totals:
    """How many changes; of them deletions, risky ones, and ones that cannot be merged."""

    changes: int = 0
    deletions: int = 0
    risky: int = 0
    blocked: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.changes + other.changes,
            self.deletions + other.deletions,
            self.risky + other.risky,
            self.blocked + other.blocked,
        )

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(
            self.changes - other.changes,
            self.deletions - other.deletions,
            self.risky - other.risky,
            self.blocked - other.blocked,
        )


NONE = Totals()


def count(changes: Iterable[Change]) -> Totals:
    """Count changes."""
    some = tuple(changes)
    return Totals(
        len(some),
        sum(change.kind is Kind.DELETED for change in some),
        sum(bool(change.risks) for change in some),
        sum(not change.is_clean for change in some),
    )


def sentence(chosen: Totals, whole: Totals, cells: int) -> tuple[str, str]:
    """Return the numbers in words: how many are chosen, and the rest; in fewer words where there is little room."""
    long, short = f"{chosen.changes:,} of {whole.changes:,}", f"{chosen.changes:,}/{whole.changes:,}"
    deletions, risky = f"{chosen.deletions:,}/{whole.deletions:,}", f"{chosen.risky:,}/{whole.risky:,}"
    blocked = f" · {whole.blocked:,} cannot be merged" if whole.blocked else ""
    deleted = f"{chosen.deletions:,} of {whole.deletions:,} deletion{'s' * (whole.deletions != 1)}"
    first = f" chosen {long} change{'s' * (whole.changes != 1)}"
    variants = (
        (first, f" · {deleted} · {chosen.risky:,} of {whole.risky:,} risky{blocked}"),
        (f" chosen {short}", f" · deletions {deletions} · risky {risky}{blocked}"),
        (f" chosen {short}", f" · deletions {deletions} · risky {risky}" + (f" · ✗ {whole.blocked:,}" if whole.blocked else "")),
        (f" {short}", f" · -{deletions} · !{risky}"),
    )
    return next((one for one in variants if len(one[0]) + len(one[1]) <= cells), variants[-1])
