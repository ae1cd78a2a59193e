"""Which changes the user takes: a set of keys, always closed over what cannot be taken apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent_dev.diff.partial import Choice
from agent_dev.overlay.changes import ChangeSet, Key, closure, dependents


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen keys, and for files of which only a part is chosen its blocks and lines."""

    keys: frozenset[Key] = frozenset()
    choices: Mapping[Key, Choice] = field(default_factory=dict)

    def __contains__(self, key: Key) -> bool:
        return key in self.keys

    def __len__(self) -> int:
        return len(self.keys)


NOTHING = Selection()


def take(selection: Selection, keys: frozenset[Key], changes: ChangeSet) -> Selection:
    """Choose `keys`, what they need, and nothing that cannot be merged."""
    wanted = _possible(closure(keys, changes), changes)
    return Selection(selection.keys | wanted, _but(selection.choices, wanted))


def leave(selection: Selection, keys: frozenset[Key], changes: ChangeSet) -> Selection:
    """Give `keys` up, and what is impossible without them."""
    gone = dependents(keys, changes)
    return Selection(selection.keys - gone, _but(selection.choices, gone))


def _but(choices: Mapping[Key, Choice], keys: frozenset[Key]) -> Mapping[Key, Choice]:
    """Return the parts of all other files: what is taken or left whole has none."""
    return {key: choice for key, choice in choices.items() if key not in keys} if choices else choices


def toggle(selection: Selection, key: Key, changes: ChangeSet) -> Selection:
    """Choose what is not chosen, leave what is."""
    keys = frozenset((key,))
    return leave(selection, keys, changes) if key in selection else take(selection, keys, changes)


def take_part(selection: Selection, key: Key, choice: Choice, changes: ChangeSet) -> Selection:
    """Choose some blocks or lines of a file instead of all of it."""
    made = take(selection, frozenset((key,)), changes)
    return replace(made, choices={**made.choices, key: choice}) if key in made else made


def all_of(changes: ChangeSet, *, risky: bool = False, ignored: bool = False) -> Selection:
    """Choose all that is clean; risky and git-ignored changes only when asked for.

    A change is left out with what it needs: one that needs a risky one is as risky.
    """
    wanted = {c.key for c in changes.changes if c.is_clean and (risky or not c.risks) and (ignored or not c.ignored)}
    unwanted = frozenset(c.key for c in changes.changes) - wanted
    return Selection(frozenset(wanted) - dependents(unwanted, changes))


def _possible(keys: frozenset[Key], changes: ChangeSet) -> frozenset[Key]:
    """Return keys, closed over what they need, without those that need something that cannot be merged."""
    table = changes.by_key()
    impossible = frozenset(key for key in keys if not table[key].is_clean)
    return keys - dependents(impossible, changes) if impossible else keys
