"""The user's selection: a set of keys that always includes the changes that they require."""

from collections.abc import Mapping

from agent_dev.diff.partial_selection import LineSelection
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeSet, with_dependents, with_requirements
from agent_dev.quick_dataclass import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected keys, and the selected hunks and lines of files that are selected in part."""

    keys: frozenset[Key] = frozenset()
    partial: Mapping[Key, LineSelection] = field(default_factory=dict)

    def __contains__(self, key: Key) -> bool:
        return key in self.keys

    def __len__(self) -> int:
        return len(self.keys)


EMPTY_SELECTION = Selection()


def select(selection: Selection, keys: frozenset[Key], changes: ChangeSet) -> Selection:
    """Select `keys` and what they require, except changes that cannot be merged."""
    selected = _without_unmergeable(with_requirements(keys, changes), changes)
    return Selection(selection.keys | selected, _choices_without(selection.partial, selected))


def deselect(selection: Selection, keys: frozenset[Key], changes: ChangeSet) -> Selection:
    """Deselect `keys` and the changes that require them."""
    deselected = with_dependents(keys, changes)
    return Selection(selection.keys - deselected, _choices_without(selection.partial, deselected))


def _choices_without(choices: Mapping[Key, LineSelection], keys: frozenset[Key]) -> Mapping[Key, LineSelection]:
    """Return the partial selections without those of `keys`: a file that is selected or deselected as a whole has none."""
    return {key: choice for key, choice in choices.items() if key not in keys} if choices else choices


def toggle(selection: Selection, key: Key, changes: ChangeSet) -> Selection:
    """Select a key that is not selected, deselect one that is."""
    keys = frozenset((key,))
    return deselect(selection, keys, changes) if key in selection else select(selection, keys, changes)


def select_part(selection: Selection, key: Key, choice: LineSelection, changes: ChangeSet) -> Selection:
    """Select some hunks or lines of a file."""
    selected = select(selection, frozenset((key,)), changes)
    return replace(selected, partial={**selected.partial, key: choice}) if key in selected else selected


def select_all(
    changes: ChangeSet, *, risky: bool = False, ignored: bool = False, allowed: frozenset[str] = frozenset()
) -> Selection:
    """Select every clean change; risky and git-ignored ones only on request. `allowed` are risk rules that do not count.

    A change that requires an unselected one is not selected either.
    """
    wanted = {
        c.key for c in changes.changes if c.is_clean and (risky or is_allowed(c, allowed)) and (ignored or not c.is_ignored)
    }
    unwanted = frozenset(c.key for c in changes.changes if c.key not in wanted)
    return Selection(frozenset(wanted - with_dependents(unwanted, changes)))


def is_allowed(change: Change, rules: frozenset[str]) -> bool:
    """Return whether a change has no risks but those of some rules."""
    return all(risk.rule in rules for risk in change.risks)


def _without_unmergeable(keys: frozenset[Key], changes: ChangeSet) -> frozenset[Key]:
    """Return the keys without those that require a change that cannot be merged."""
    table = changes.by_key()
    unmergeable = frozenset(key for key in keys if not table[key].is_clean)
    return keys - with_dependents(unmergeable, changes) if unmergeable else keys
