"""The list of changes as rows: directories with their files below them, and what git ignores behind one row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent_dev.core.changes import Change, ChangeSet, Key


@dataclass(frozen=True, slots=True)
class Group:
    """Changes under one heading: those directly in one directory, or (`path` None) all that git ignores."""

    root: int
    path: bytes | None
    changes: tuple[Change, ...]
    possible: int  # how many of them can be merged

    @property
    def is_ignored(self) -> bool:
        """Whether this is what git ignores."""
        return self.path is None


@dataclass(frozen=True, slots=True)
class HeadRow:
    """A group's heading."""

    group: int


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change below its group's heading."""

    group: int
    change: Change


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """Something that could not be read, with the reason: said, never hidden."""

    text: str


@dataclass(frozen=True, slots=True)
class NoteRow:
    """Something to know of all the changes."""

    text: str


Row = HeadRow | ChangeRow | ProblemRow | NoteRow


@dataclass(frozen=True, slots=True)
class Listing:
    """All groups, which of them are closed, and the rows that follow from it. `group_of` knows every change."""

    groups: tuple[Group, ...]
    problems: tuple[str, ...]
    closed: frozenset[int]
    rows: tuple[Row, ...] = ()
    group_of: Mapping[Key, tuple[int, Change]] = field(default_factory=dict, compare=False, repr=False)
    notes: tuple[str, ...] = ()

    def head(self, group: int) -> int:
        """Return the row of a group's heading."""
        return next(at for at, row in enumerate(self.rows) if isinstance(row, HeadRow) and row.group == group)


def listing(changes: ChangeSet) -> Listing:
    """Return the rows of a change set, the ignored ones closed.

    Ignored changes with a risk, or that cannot be merged, stand among the others: they must not hide behind a fold.
    """
    shown: dict[tuple[int, bytes], list[Change]] = {}
    ignored: list[Change] = []
    for change in changes.changes:
        if is_foldable(change):
            ignored.append(change)
        else:
            shown.setdefault((change.key.root, folder(change.key.path)), []).append(change)
    groups = [_group(root, path, some) for (root, path), some in sorted(shown.items())]
    closed = frozenset((len(groups),)) if ignored else frozenset()
    if ignored:
        groups.append(_group(0, None, ignored))
    group_of = {change.key: (at, change) for at, group in enumerate(groups) for change in group.changes}
    made = Listing(tuple(groups), changes.problems, closed, group_of=group_of, notes=changes.notes)
    return replace(made, rows=tuple(_rows(made)))


def _group(root: int, path: bytes | None, some: list[Change]) -> Group:
    return Group(root, path, tuple(some), sum(change.is_clean for change in some))


def is_foldable(change: Change) -> bool:
    """Whether a change goes behind the row of what git ignores."""
    return change.ignored and change.is_clean and not change.risks


def folder(path: bytes) -> bytes:
    """Return the directory that a path lies in; empty for the root."""
    return path.rpartition(b"/")[0]


def with_closed(old: Listing, group: int, *, closed: bool) -> Listing:
    """Return the listing with one group closed or open."""
    some = old.closed | {group} if closed else old.closed - {group}
    made = replace(old, closed=some)
    return replace(made, rows=tuple(_rows(made)))


def _rows(made: Listing) -> Iterable[Row]:
    for at, group in enumerate(made.groups):
        yield HeadRow(at)
        if at not in made.closed:
            for change in group.changes:
                yield ChangeRow(at, change)
    for text in made.problems:
        yield ProblemRow(text)
    for text in made.notes:
        yield NoteRow(text)
