"""What a key takes or leaves, and the word about what had to come along or could not."""

from collections.abc import Iterable

from agent_dev.overlay import selection as core
from agent_dev.overlay.changes import Change, ChangeSet, Key, Kind, closure
from agent_dev.overlay.selection import NOTHING, Selection
from tui.text import labels as words

Made = tuple[Selection, str]


def one(old: Selection, change: Change, changes: ChangeSet) -> Made:
    """Take a change whole, or leave it; a part that was chosen becomes the whole."""
    if not change.is_clean:
        return old, f"cannot be merged: {change.obstacle or change.conflict}"
    if change.key in old.choices:
        return core.take(old, frozenset((change.key,)), changes), ""
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


def some(old: Selection, keys: Iterable[Key], changes: ChangeSet) -> Made:
    """Take what is safe among keys, or leave all of them when that is taken already. Risky ones want a look each."""
    inside = frozenset(keys)
    safe = inside & core.all_of(changes, ignored=True).keys
    if safe <= old.keys and inside & old.keys and not safe & old.choices.keys():
        return core.leave(old, inside, changes), ""
    if not safe:
        return old, "nothing here is safe to take at once: choose one by one"
    new = core.take(old, safe, changes)
    risky = sum(bool(c.risks) and c.is_clean and c.key in inside and c.key not in new for c in changes.changes)
    pulled = new.keys - old.keys - safe
    said = [f"taken with what they need: {_names(pulled)}"] if pulled else []
    said += [f"{words.number(risky, 'risky change')} not taken: choose one by one"] if risky else []
    return new, "; ".join(said)


def all_safe(old: Selection, changes: ChangeSet) -> Made:
    """Take all that is safe; when it is taken already, take nothing."""
    safe = core.all_of(changes)
    if safe.keys <= old.keys and not old.choices:
        return NOTHING, "nothing is chosen" if old.keys else "nothing here is safe to take at once: choose one by one"
    new = Selection(old.keys | safe.keys, {key: part for key, part in old.choices.items() if key not in safe})
    left = [change for change in changes.changes if change.key not in new]
    risky = sum(bool(change.risks) for change in left)
    ignored = sum(change.ignored and not change.risks for change in left)
    blocked = sum(not change.is_clean for change in left)
    parts = [words.number(risky, "risky change")] if risky else []
    parts += [f"{ignored:,} ignored by git"] if ignored else []
    parts += [f"{blocked:,} that cannot be merged"] if blocked else []
    return new, f"all that is safe is chosen; not taken: {', '.join(parts)}" if parts else "everything is chosen"


def of_kind(old: Selection, kind: Kind, changes: ChangeSet) -> Made:
    """Take all safe changes of one kind, or leave those."""
    new, said = some(old, (c.key for c in changes.changes if c.kind is kind and not c.ignored), changes)
    return new, said or f"all that is {kind}: {'taken' if len(new) > len(old) or new.choices != old.choices else 'left'}"


def _names(keys: frozenset[Key]) -> str:
    first = sorted(keys)
    more = f" and {len(first) - 3:,} more" if len(first) > 3 else ""
    return ", ".join(_name(key) for key in first[:3]) + more


def _name(key: Key) -> str:
    return key.path.decode("utf-8", "surrogateescape")
