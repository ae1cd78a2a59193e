"""Toggle the selection of changes; report required changes that were also selected, or that prevent it."""

from collections.abc import Iterable

from agent_dev.fs.entry import Key
from agent_dev.overlay import selection as core
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, with_requirements
from agent_dev.overlay.labels import describe_block, format_count
from agent_dev.overlay.selection import EMPTY_SELECTION, Selection
from tui.model.change_list import is_in_generated_directory

ToggleResult = tuple[Selection, str]


def toggle_change(old: Selection, change: Change, changes: ChangeSet) -> ToggleResult:
    """Select or deselect a whole change; a partial selection becomes a whole one."""
    if not change.is_clean:
        return old, describe_block(change)
    if change.key in old.partial:
        return core.select(old, frozenset((change.key,)), changes), ""
    new = core.toggle(old, change.key, changes)
    if new == old:
        return old, f"requires {_blocker(change, changes)}, which cannot be merged"
    added, removed = new.keys - old.keys - {change.key}, old.keys - new.keys - {change.key}
    if added:
        return new, f"also selected, because required: {_names(added)}"
    if removed:
        return new, f"also deselected, because it requires this: {_names(removed)}"
    return new, ""


def _blocker(change: Change, changes: ChangeSet) -> str:
    """Return the name of a change that a change requires and that cannot be merged."""
    table = changes.by_key()
    required = with_requirements(frozenset((change.key,)), changes)
    return next(_name(key) for key in sorted(required) if not table[key].is_clean)


def toggle_changes(old: Selection, keys: Iterable[Key], changes: ChangeSet) -> ToggleResult:
    """Select the safe changes among some, or deselect all if these are selected. Risky ones are selected individually."""
    inside = frozenset(keys)
    safe = inside & core.select_all(changes, ignored=True).keys
    if safe <= old.keys and inside & old.keys and not safe & old.partial.keys():
        return core.deselect(old, inside, changes), ""
    if not safe:
        return old, "no safe changes here; select risky ones individually"
    new = core.select(old, safe, changes)
    risky = sum(bool(c.risks) and c.is_clean and c.key in inside and c.key not in new for c in changes.changes)
    required = new.keys - old.keys - safe
    messages = [f"also selected, because required: {_names(required)}"] if required else []
    messages += [f"{format_count(risky, 'risky change')} not selected; select individually"] if risky else []
    return new, "; ".join(messages)


def toggle_all_safe(old: Selection, changes: ChangeSet, listed: frozenset[Key] | None = None) -> ToggleResult:
    """Select all safe changes but new files in generated directories, or nothing if they are selected already.

    `listed`: the changes that are listed if others are hidden; only those are selected.
    """
    new_files = (change for change in changes.changes if change.kind is ChangeKind.ADDED)
    generated = frozenset(change.key for change in new_files if is_in_generated_directory(change.key.path))
    safe = core.deselect(core.select_all(changes), generated, changes)
    if listed is not None:
        return _toggle_listed(old, safe.keys & listed, changes)
    if safe.keys <= old.keys and not old.partial:
        return EMPTY_SELECTION, "nothing selected" if old.keys else "no safe changes here; select risky ones individually"
    new = Selection(old.keys | safe.keys, {key: part for key, part in old.partial.items() if key not in safe})
    left = [change for change in changes.changes if change.key not in new]
    risky = sum(bool(change.risks) for change in left)
    ignored = sum(change.is_ignored and not change.risks for change in left)
    blocked = sum(not change.is_clean for change in left)
    made = sum(change.key in generated and change.is_clean and not (change.risks or change.is_ignored) for change in left)
    skipped = [f"{risky:,} risky"] if risky else []
    skipped += [f"{ignored:,} ignored"] if ignored else []
    skipped += [f"{made:,} generated"] if made else []
    skipped += [f"{blocked:,} unmergeable"] if blocked else []
    return new, f"all safe changes selected; skipped: {', '.join(skipped)}" if skipped else "all changes selected"


def _toggle_listed(old: Selection, safe: frozenset[Key], changes: ChangeSet) -> ToggleResult:
    new, message = toggle_changes(old, safe, changes)
    is_more = safe <= new.keys and not safe & new.partial.keys()
    return new, message or f"listed safe changes {'selected' if is_more else 'deselected'} (others are hidden)"


def toggle_kind(old: Selection, kind: ChangeKind, changes: ChangeSet, listed: frozenset[Key] | None = None) -> ToggleResult:
    """Select all safe changes of one kind, or deselect these; `listed` as in `toggle_all_safe`."""
    keys = (c.key for c in changes.changes if c.kind is kind and not c.is_ignored and (listed is None or c.key in listed))
    new, message = toggle_changes(old, keys, changes)
    status = "selected" if len(new) > len(old) or new.partial != old.partial else "deselected"
    if listed is not None:
        return new, message or f"listed {kind} changes {status} (others are hidden)"
    return new, message or f"all {kind} changes {status}"


def _names(keys: frozenset[Key]) -> str:
    first = sorted(keys)
    more = f" and {len(first) - 3:,} more" if len(first) > 3 else ""
    return ", ".join(_name(key) for key in first[:3]) + more


def _name(key: Key) -> str:
    return key.path.decode("utf-8", "surrogateescape")
