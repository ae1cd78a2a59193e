"""Fold each renamed file's deletion and addition into one change, as users see it.

The merge engine works on the two halves: two paths, each with its own expected entry.
"""

from collections.abc import Iterable, Mapping

from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from agent_dev.quick_dataclass import replace


def fold_renames(changes: ChangeSet) -> ChangeSet:
    """Return the changes with each rename as one change at its new path."""
    if not changes.renames:
        return changes
    return replace(changes, changes=fold_changes(changes.changes, changes.renames), renames={})


def fold_recorded(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes of a merge's journal with each rename as one change."""
    some = tuple(changes)
    return fold_changes(some, {change.key: change.renamed_from for change in some if change.renamed_from})


def fold_changes(changes: Iterable[Change], renames: Mapping[Key, Key]) -> tuple[Change, ...]:
    """Return some changes with each rename as one change; a half without the other stays as it is."""
    table = {change.key: change for change in changes}
    new_keys = {old: new for new, old in renames.items() if _are_halves(table.get(old), table.get(new))}
    if not new_keys:
        return tuple(table.values())
    folded = []
    for change in table.values():
        if change.key in new_keys:
            continue
        old = renames.get(change.key)
        if old in new_keys:
            folded.append(_folded(table[old], change))
        elif any(key in new_keys for key in change.requires):
            folded.append(replace(change, requires=tuple(dict.fromkeys(new_keys.get(key, key) for key in change.requires))))
        else:
            folded.append(change)
    return tuple(folded)


def _are_halves(old: Change | None, new: Change | None) -> bool:
    return (
        old is not None
        and new is not None
        and old.kind is ChangeKind.DELETED
        and new.kind is ChangeKind.ADDED
        and all(one.is_clean and not one.is_merged for one in (old, new))
    )


def _folded(old: Change, new: Change) -> Change:
    return replace(
        new,
        kind=ChangeKind.RENAMED,
        before=old.before,
        requires=tuple(key for key in dict.fromkeys((*new.requires, *old.requires)) if key not in (old.key, new.key)),
        risks=tuple(dict.fromkeys((*new.risks, *old.risks))),
        insertions=None,
        deletions=None,
        renamed_from=old.key,
    )
