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


def count(changes: Iterable[Change]) -> Totals:
    """Count changes."""
    some = tuple(changes)
    return Totals(
        len(some),
        sum(change.kind is Kind.DELETED for change in some),
        sum(bool(change.risks) for change in some),
        sum(not change.is_clean for change in some),
    )
