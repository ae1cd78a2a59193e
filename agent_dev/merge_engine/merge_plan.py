"""Plan a merge: turn changes and a selection into ordered steps on a real tree, each with the entry that it expects."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_dev.fs.entry import Entry, FileType, Key, parents_of
from agent_dev.git.updates import GitUpdate
from agent_dev.merge_engine.journal import Intent, MemberMarks, Operation
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Resolution, ignored_place, is_mostly_emptied
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    """Create a directory unless it exists."""

    key: Key
    mode: int
    attributes: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class ContentSource:
    """A file to copy: its path below a directory, and its SHA-256 in hex, which is verified.

    `is_from_agent`: the agent's file, which may be unreadable.
    """

    folder: str
    path: bytes
    sha256: str
    is_from_agent: bool = False


@dataclass(frozen=True, slots=True)
class RemainderBase:
    """The new base version of a file that is merged in part; the session keeps the agent's difference from it."""

    content: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class PutEntry:
    """Apply the agent's file, link, FIFO or empty directory in place of `expected` (None: no entry).

    `content`: bytes other than the agent's file: selected hunks, or merged with the user's edit. `part`: see `ReconciledContent`.
    `source`: another file to copy.
    """

    key: Key
    after: Entry
    expected: Entry | None
    content: bytes | None = None
    part: RemainderBase | None = None
    source: ContentSource | None = None


@dataclass(frozen=True, slots=True)
class RemoveEntry:
    """Delete an entry; a directory only if it is empty."""

    key: Key
    expected: Entry


@dataclass(frozen=True, slots=True)
class PruneDirectory:
    """Delete a directory that the agent deleted with its content, if it is empty."""

    key: Key


@dataclass(frozen=True, slots=True)
class SetMode:
    """Change the mode and the `user.*` attributes of a directory."""

    key: Key
    after: Entry
    expected: Entry


Step = MakeDirectory | PutEntry | RemoveEntry | PruneDirectory | SetMode
SPECIAL_BITS = 0o7000  # setuid, setgid, sticky


@dataclass(frozen=True, slots=True)
class SkippedChange:
    """A change that was not merged, and why."""

    key: Key
    reason: str


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The steps in order (until they are staged), the changes that were not selected, and the selected ones in conflict.

    `dropped`: selected keys that are only removed from the session. `is_restore`: it restores the user's own files, including
    07000 bits and ACLs.
    """

    steps: list[Step]
    selected: tuple[Key, ...]
    skipped: tuple[SkippedChange, ...]
    conflicts: tuple[SkippedChange, ...]
    dropped: tuple[Key, ...] = ()
    is_restore: bool = False


def join_plans(plans: Iterable[MergePlan]) -> MergePlan:
    """Return one plan for several that change different roots."""
    found = tuple(plans)
    return MergePlan(
        [step for plan in found for step in plan.steps],
        tuple(key for plan in found for key in plan.selected),
        tuple(left for plan in found for left in plan.skipped),
        tuple(left for plan in found for left in plan.conflicts),
        tuple(key for plan in found for key in plan.dropped),
        any(plan.is_restore for plan in found),
    )


@dataclass(frozen=True, slots=True)
class ChangedDirectories:
    """Directories that the agent created, and those of the base that it deleted, by key."""

    created: dict[Key, Entry]
    removed: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class ReconciledContent:
    """Content to apply instead of the agent's file: bytes, mode and attributes.

    `part`: the base version with only the selected part, if the rest of the file's change stays in the session.
    """

    content: bytes
    mode: int
    attributes: tuple[tuple[str, bytes], ...] = ()
    part: RemainderBase | None = None


ContentByKey = Mapping[Key, ReconciledContent]
_NONE: ContentByKey = {}


def count_lost_files(planned: MergePlan, changes: ChangeSet) -> int:
    """Return how many files a plan deletes, empties, nearly empties, or replaces by another type; renamed ones do not count."""
    renamed = frozenset(changes.renames.values())
    return sum(_is_lost(step, renamed) for step in planned.steps)


def _is_lost(step: Step, renamed: frozenset[Key]) -> bool:
    match step:
        case RemoveEntry(key=key):
            return key not in renamed
        case PutEntry(after=after, expected=before, content=content) if before is not None and before.type is FileType.FILE:
            size = after.size if content is None else len(content)
            return after.type is not FileType.FILE or is_mostly_emptied(before.size, size)
        case _:
            return False


def make_plan(
    changes: ChangeSet,
    selection: Selection,
    wanted: frozenset[Key],
    folders: ChangedDirectories,
    results: ContentByKey = _NONE,
    *,
    is_restore: bool = False,
) -> MergePlan:
    """Plan a merge of `selection`; `wanted` are the requested keys, including those that cannot be merged.

    Removals come first, the deepest before their parents, then additions and replacements, parents before children.
    """
    selected = [change for change in changes.changes if change.key in selection and change.is_clean]
    applied = [change for change in selected if not change.is_session_only]
    removals = [
        RemoveEntry(c.key, c.expected) for c in applied if c.kind is ChangeKind.DELETED and c.expected and c.key not in results
    ]
    removals.sort(key=lambda step: (step.key.root, -step.key.path.count(b"/"), step.key.path))
    puts = _puts(applied, folders, results, bits=0o7777 if is_restore else 0o777)
    prunes = [PruneDirectory(key) for key in sorted(folders.removed, key=lambda key: -key.path.count(b"/"))]
    modes = [
        SetMode(c.key, _resulting(c, c.after, results), c.expected)
        for c in applied
        if _is_folder_change(c) and c.after and c.expected
    ]
    keys = tuple(change.key for change in selected)
    left, conflicts = _left(changes, frozenset(keys), wanted)
    dropped = tuple(change.key for change in selected if change.is_session_only)
    return MergePlan([*removals, *prunes, *puts, *modes], keys, left, conflicts, dropped, is_restore)


def recorded_change(change: Change, *, is_part: bool = False, renamed_from: Key | None = None) -> Change:
    """Return what a journal records of an applied change; a deletion that is selected in part is an edit.

    `renamed_from`: of a renamed file's new path, if its old path is deleted with it. Of the entries only the types are recorded:
    a change that needs nothing else is returned unchanged, since 100,000 more need 17 MB.
    """
    if not is_part and change.resolution is None and change.renamed_from == renamed_from:
        return change
    if is_part and change.kind is ChangeKind.DELETED:
        change = replace(change, kind=ChangeKind.EDITED, after=change.before)
    before, after = (_ENTRIES[entry.type] if entry else None for entry in (change.before, change.after))
    return Change(
        change.key,
        change.kind,
        before,
        after,
        resolution=Resolution.YOURS if change.is_session_only else Resolution.BOTH if change.is_merged else None,
        is_from_commit=change.is_from_commit,
        renamed_from=renamed_from,
    )


def without_entries(change: Change) -> Change:
    """Return the path and kind of a change, and of its entries the types."""
    before, after = (_ENTRIES[entry.type] if entry else None for entry in (change.before, change.after))
    return Change(change.key, change.kind, before, after)


def make_intent(
    ops: tuple[Operation, ...],
    applied: Iterable[Change],
    kept: Mapping[Key, Mapping[str, Any]],
    git: tuple[GitUpdate, ...] = (),
) -> Intent:
    """Return what a journal records of a merge: of the applied changes, those that no whole directory implies."""
    members = MemberMarks(ops)
    own, count = [], 0
    for change in applied:
        mark = members.get(change.key)
        is_implied = mark is not None and mark.type is not FileType.DIRECTORY and is_added_file(change, mark.type)
        if change.key in kept or not is_implied:
            own.append(change)
        else:
            count += 1
    return Intent(ops, tuple(own), {change.key: kept[change.key] for change in own if change.key in kept}, count, git)


def added_file(key: Key, kind: FileType) -> Change:
    """Return the change of a file in a directory that a merge applied as a whole."""
    return Change(key, ChangeKind.ADDED, None, _ENTRIES[kind])


def is_added_file(change: Change, kind: FileType) -> bool:
    """Return whether a change differs from `added_file` at most in what no merge uses: sizes, times, risks and the like."""
    is_new = change.kind is ChangeKind.ADDED and change.before is None and change.after is not None and change.type is kind
    return is_new and not change.is_merged and not change.is_from_commit and change.renamed_from is None


_ENTRIES = {kind: Entry(kind) for kind in FileType}


def _is_folder_change(change: Change) -> bool:
    return change.kind is ChangeKind.METADATA and change.type is FileType.DIRECTORY


def _resulting(change: Change, after: Entry, results: ContentByKey) -> Entry:
    """Return the resulting entry: the agent's, with the reconciled mode and attributes."""
    result = results.get(change.key)
    return after if result is None else after.with_values(mode=result.mode, attributes=result.attributes, mtime=0)


def _puts(applied: list[Change], folders: ChangedDirectories, results: ContentByKey, *, bits: int) -> list[Step]:
    steps: list[Step] = []
    created: set[Key] = set()
    for change in applied:
        after = change.before if change.after is None and change.key in results else change.after
        if after is None or _is_folder_change(change):
            continue
        for folder in (Key(change.key.root, path) for path in parents_of(change.key.path)):
            if folder in folders.created and folder not in created:
                created.add(folder)
                folder_entry = folders.created[folder]
                steps.append(MakeDirectory(folder, folder_entry.mode & bits, folder_entry.attributes))
        if change.kind is ChangeKind.RETYPED and change.type is FileType.DIRECTORY:
            created.add(change.key)
        result = results.get(change.key)
        content, part = (result.content, result.part) if result and change.type is FileType.FILE else (None, None)
        steps.append(PutEntry(change.key, _resulting(change, after, results), change.expected, content, part))
    return steps


def _left(
    changes: ChangeSet, selected: frozenset[Key], wanted: frozenset[Key]
) -> tuple[tuple[SkippedChange, ...], tuple[SkippedChange, ...]]:
    skipped, conflicts = [], []
    for change in changes.changes:
        if change.key in selected:
            continue
        if change.key in wanted and change.conflict:
            conflicts.append(SkippedChange(change.key, change.conflict))
        else:
            place = ignored_place(change, changes) if change.key in wanted and change.is_clean else None
            reason = skip_reason(change, is_requested=change.key in wanted) if place is None else _moved_reason(place)
            skipped.append(SkippedChange(change.key, reason))
    return tuple(skipped), tuple(conflicts)


def _moved_reason(place: Key) -> str:
    name = place.path.decode("utf-8", "surrogateescape")
    return f"it was moved to {name}, which git ignores; --take merges both"


def skip_reason(change: Change, *, is_requested: bool) -> str:
    """Return why a change stays in the session."""
    if change.obstacle:
        return change.obstacle
    if change.conflict:
        return f"in conflict: {change.conflict}"
    if is_requested:
        return "it requires a change that was not selected"
    if change.is_ignored:  # first: `--include-risky` alone would not select it
        return "ignored by git"
    return "risky: " + ", ".join(risk.rule for risk in change.known_risks) if change.known_risks else "not selected"
