"""Changes + selection → the ordered steps that bring the selection into a real tree, each with what it expects to find."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, parents_of
from agent_dev.overlay.selection import Selection


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """Make a directory; one that is there already is left as it is."""

    key: Key
    mode: int
    attributes: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Put:
    """Bring the agent's file, link, FIFO or empty directory, in place of `expect` (None: where nothing stands).

    `content`: the bytes of a file that are not the agent's own: chosen blocks, or merged with what the user changed.
    `part`: see `Result`.
    """

    key: Key
    after: Entry
    expect: Entry | None
    content: bytes | None = None
    part: bytes | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Take what stands there away; a directory only when it is empty."""

    key: Key
    expect: Entry


@dataclass(frozen=True, slots=True)
class Prune:
    """Take away a directory that the agent removed with all that was in it, if nothing is left in it."""

    key: Key


@dataclass(frozen=True, slots=True)
class SetMode:
    """Give a directory another mode and other `user.*` attributes."""

    key: Key
    after: Entry
    expect: Entry


Step = MakeFolder | Put | Remove | Prune | SetMode
SPECIAL_BITS = 0o7000  # setuid, setgid, sticky


@dataclass(frozen=True, slots=True)
class Left:
    """A change that was not merged, and why."""

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The steps in the order they happen, what was not chosen, and the chosen that are in conflict.

    `dropped`: taken keys that only leave the session.
    """

    steps: tuple[Step, ...]
    taken: tuple[Key, ...]
    left: tuple[Left, ...]
    conflicts: tuple[Left, ...]
    dropped: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Folders:
    """Directories as the agent left them (the new ones) and those of the base it removed, by key."""

    made: dict[Key, Entry]
    removed: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What lands where the agent's own file does not: its bytes, mode and attributes.

    `part`: the base with only what was chosen, when the rest of the file's change stays in the session.
    """

    content: bytes
    mode: int
    attributes: tuple[tuple[str, bytes], ...] = ()
    part: bytes | None = None


Results = Mapping[Key, Result]
_NONE: Results = {}


def plan(
    changes: ChangeSet, selection: Selection, wanted: frozenset[Key], folders: Folders, results: Results = _NONE
) -> MergePlan:
    """Plan a merge of `selection`; `wanted` is what the user asked for, whether it can be merged or not.

    Removals come first, the deepest before what holds them, then what takes their place, parents before children.
    """
    taken = [change for change in changes.changes if change.key in selection and change.is_clean]
    chosen = [change for change in taken if not change.is_dropped]
    removals = [Remove(c.key, c.expect) for c in chosen if c.kind is Kind.DELETED and c.expect and c.key not in results]
    removals.sort(key=lambda step: (step.key.root, -step.key.path.count(b"/"), step.key.path))
    puts = _puts(chosen, folders, results)
    prunes = [Prune(key) for key in sorted(folders.removed, key=lambda key: -key.path.count(b"/"))]
    modes = [
        SetMode(c.key, _resulting(c, c.after, results), c.expect) for c in chosen if _is_folder_change(c) and c.after and c.expect
    ]
    keys = tuple(change.key for change in taken)
    left, conflicts = _left(changes, frozenset(keys), wanted)
    dropped = tuple(change.key for change in taken if change.is_dropped)
    return MergePlan((*removals, *prunes, *puts, *modes), keys, left, conflicts, dropped)


def row(change: Change, *, is_part: bool = False) -> dict[str, object]:
    """Return what a journal keeps of a change that is taken; a deletion taken in part is an edit."""
    if is_part and change.kind is Kind.DELETED:
        change = replace(change, kind=Kind.EDITED, after=change.before)
    types = {"before": change.before, "after": change.after}
    path = change.key.path.decode("utf-8", "surrogateescape")
    sides = {side: entry.type if entry else None for side, entry in types.items()}
    how = {"merged": change.is_merged, "dropped": change.is_dropped, "apart": change.is_apart}
    return {"root": change.key.root, "path": path, "kind": change.kind, **how, **sides}


def change_of(row: Mapping[str, Any]) -> Change:
    """Return a change as far as a journal's row tells it: its key, its kind, and the types before and after."""
    key = Key(row["root"], row["path"].encode("utf-8", "surrogateescape"))
    before, after = (_ENTRIES[row[side]] if row[side] else None for side in ("before", "after"))
    return Change(
        key,
        _KINDS[row["kind"]],
        before,
        after,
        is_merged=bool(row["merged"]),
        is_dropped=bool(row["dropped"]),
        is_apart=bool(row.get("apart")),
    )


_ENTRIES = {
    str(kind): Entry(kind) for kind in FileType
}  # looked up: making an enum's member from its value costs five times that
_KINDS = {str(kind): kind for kind in Kind}


def _is_folder_change(change: Change) -> bool:
    return change.kind is Kind.METADATA and change.type is FileType.DIRECTORY


def _resulting(change: Change, after: Entry, results: Results) -> Entry:
    """Return the entry that lands: the agent's, with the mode and attributes that were decided."""
    result = results.get(change.key)
    return after if result is None else replace(after, mode=result.mode, attributes=result.attributes, mtime=0)


def _puts(chosen: list[Change], folders: Folders, results: Results) -> list[Step]:
    steps: list[Step] = []
    made: set[Key] = set()
    for change in chosen:
        after = change.before if change.after is None and change.key in results else change.after
        if after is None or _is_folder_change(change):
            continue
        for folder in (Key(change.key.root, path) for path in parents_of(change.key.path)):
            if folder in folders.made and folder not in made:
                made.add(folder)
                like = folders.made[folder]
                steps.append(MakeFolder(folder, like.mode & 0o777, like.attributes))
        if change.kind is Kind.RETYPED and change.type is FileType.DIRECTORY:
            made.add(change.key)
        result = results.get(change.key)
        content, part = (result.content, result.part) if result and change.type is FileType.FILE else (None, None)
        steps.append(Put(change.key, _resulting(change, after, results), change.expect, content, part))
    return steps


def _left(changes: ChangeSet, taken: frozenset[Key], wanted: frozenset[Key]) -> tuple[tuple[Left, ...], tuple[Left, ...]]:
    left, conflicts = [], []
    for change in changes.changes:
        if change.key in taken:
            continue
        if change.key in wanted and change.conflict:
            conflicts.append(Left(change.key, change.conflict))
        else:
            left.append(Left(change.key, why_left(change, was_wanted=change.key in wanted)))
    return tuple(left), tuple(conflicts)


def why_left(change: Change, *, was_wanted: bool) -> str:
    """Return in words why a change stays in the session."""
    if change.obstacle:
        return change.obstacle
    if change.conflict:
        return f"in conflict: {change.conflict}"
    if was_wanted:
        return "it needs a change that is left"
    if change.risks:
        return "risky: " + ", ".join(risk.rule for risk in change.risks)
    return "ignored by git" if change.ignored else "not chosen"
