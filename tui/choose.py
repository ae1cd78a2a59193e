"""What a key takes or leaves, and the word about what had to come along or could not."""

from agent_dev.core import selection as core
from agent_dev.core.changes import Change, ChangeSet, Key, closure
from agent_dev.core.selection import NOTHING, Selection
from tui.rows import ChangeRow, Group, HeadRow, Listing, Row

Made = tuple[Selection, str]


def toggled(old: Selection, row: Row, listing: Listing, changes: ChangeSet) -> Made | None:
    """Take or leave a row; None where there is nothing to choose."""
    match row:
        case ChangeRow(_, change):
            return _one(old, change, changes)
        case HeadRow(group):
            return _group(old, listing.groups[group], changes)
        case _:
            return None


def _one(old: Selection, change: Change, changes: ChangeSet) -> Made:
    if not change.is_clean:
        return old, f"cannot be merged: {change.obstacle or change.conflict}"
    new = core.toggle(old, change.key, changes)
    if new == old:
        return old, f"cannot be taken without {_blocker(change, changes)}, which cannot be merged"
    came, went = new.keys - old.keys - {change.key}, old.keys - new.keys - {change.key}
    if came:
        return new, f"taken with what it needs: {_names(came)}"
    if went:
        return new, f"left, and with it what needs it: {_names(went)}"
    return new, ""


def _blocker(change: Change, changes: ChangeSet) -> str:
    """Return the name of something that a change needs and that cannot be merged."""
    table = changes.by_key()
    needed = closure(frozenset((change.key,)), changes)
    return next(_name(key) for key in sorted(needed) if not table[key].is_clean)


def _group(old: Selection, group: Group, changes: ChangeSet) -> Made:
    """Take what is safe in a group, or leave all of it when that is taken already. Risky ones want a look each."""
    inside = frozenset(change.key for change in group.changes)
    safe = inside & core.all_of(changes, ignored=True).keys
    if safe <= old.keys and inside & old.keys:
        return core.leave(old, inside, changes), ""
    if not safe:
        return old, "nothing here is safe to take at once: choose one by one"
    new = core.take(old, safe, changes)
    risky = sum(bool(change.risks) and change.is_clean and change.key not in new for change in group.changes)
    pulled = new.keys - old.keys - safe
    words = [f"taken with what they need: {_names(pulled)}"] if pulled else []
    words += [f"{_count(risky, 'risky change')} not taken: choose one by one"] if risky else []
    return new, "; ".join(words)


def all_toggled(old: Selection, changes: ChangeSet) -> Made:
    """Take all that is safe; when it is taken already, take nothing."""
    safe = core.all_of(changes)
    if safe.keys <= old.keys:
        return NOTHING, "nothing is chosen" if old.keys else "nothing here is safe to take at once: choose one by one"
    new = Selection(old.keys | safe.keys)
    left = [change for change in changes.changes if change.key not in new]
    risky = sum(bool(change.risks) for change in left)
    ignored = sum(change.ignored and not change.risks for change in left)
    blocked = sum(not change.is_clean for change in left)
    parts = [_count(risky, "risky change")] if risky else []
    parts += [f"{ignored:,} ignored by git"] if ignored else []
    parts += [f"{blocked:,} that cannot be merged"] if blocked else []
    return new, f"all that is safe is chosen; not taken: {', '.join(parts)}" if parts else "everything is chosen"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _names(keys: frozenset[Key]) -> str:
    some = sorted(keys)
    more = f" and {len(some) - 3:,} more" if len(some) > 3 else ""
    return ", ".join(_name(key) for key in some[:3]) + more


def _name(key: Key) -> str:
    return key.path.decode("utf-8", "surrogateescape")
