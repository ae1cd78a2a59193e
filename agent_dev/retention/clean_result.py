"""The result of a cleaning."""

from collections.abc import Iterable

from agent_dev.merge.pack import PackedSession
from agent_dev.quick_dataclass import dataclass
from agent_dev.session.trash_retention import TrashEntry


@dataclass(frozen=True, slots=True)
class CleanedKind:
    """Counts and bytes of the entries of one kind that were removed (with a dry run: would be) and that are kept."""

    kind: str
    removed: int
    freed: int
    kept: int
    size: int

    @staticmethod
    def of(kind: str, removed: Iterable[int], kept: Iterable[int]) -> "CleanedKind":
        """Return the counts and sums of the given sizes."""
        gone, left = tuple(removed), tuple(kept)
        return CleanedKind(kind, len(gone), sum(gone), len(left), sum(left))


@dataclass(frozen=True, slots=True)
class CleanResult:
    """The removed trash entries (with a dry run: those to remove), and the remaining ones; the same by kind of state."""

    removed: tuple[TrashEntry, ...]
    kept: tuple[TrashEntry, ...]
    sessions: tuple[PackedSession, ...] = ()
    work_trees: tuple[str, ...] = ()  # paths of work trees made for sessions that were removed
    kinds: tuple[CleanedKind, ...] = ()
