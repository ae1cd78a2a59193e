"""Changes of an agent: one `Change` for each path that differs between the upper layer and the base version."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.quick_dataclass import dataclass, field

MAX_FEW_DELETIONS = 10  # up to this number, deletions are never a large share of a tree
_MIN_GUTTED = 500  # bytes; smaller files shrink by nine tenths in ordinary edits


class ChangeKind(StrEnum):
    """The way in which a path differs from its base version."""

    ADDED = "added"
    EDITED = "edited"
    DELETED = "deleted"
    RENAMED = "renamed"  # only in folded changes (`overlay/fold_renames.py`)
    RETYPED = "retyped"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Risk:
    """A reason to look at a change: the rule's name, one sentence, and an optional hint on what to check."""

    rule: str
    why: str
    check: str = ""


# The value of `Change.risks` until the rules ran: an unassessed change counts as risky everywhere.
UNASSESSED = Risk("not-judged", "The risk rules have not run on this change.")


class Resolution(StrEnum):
    """The way a change was reconciled with a real tree that differs from the base version."""

    BOTH = "both"  # both changes fit together
    TIMES = "times"  # the real file has the base version's content, only its times differ
    AGENT = "agent"  # a conflict, resolved with the agent's version
    YOURS = "yours"  # the real tree stays as it is; applying the change only removes it from the session


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs. `before` is the base version's entry, `after` the agent's; None if the path does not exist there.

    `risks`: the risks found so far; `UNASSESSED` if the rules have not run (`is_assessed`).
    `requires`: keys that must be selected with this one (such as the file that was replaced by this change's directory).
    `obstacle`: why it cannot be merged at all. `conflict`: how the real tree differs from the base version.
    `insertions` and `deletions` are counted in lines; None until counted, or for binary files.
    `resolution`: how it was reconciled with the real tree; None if the real tree equals the base version, or for a conflict.
    `yours`: the real tree's entry, if it differs from the base version.
    `renamed_from`: of a renamed file, whose `before` is the old file's.
    `copied_from`: of a new file with the content of an unchanged one, that file.
    `is_from_commit`: a commit imports it; the session's own file at the path stays as it is.
    """

    SHARED: ClassVar[tuple[str, ...]] = (
        "requires",
        "is_ignored",
        "is_binary",
        "risks",
        "conflict",
        "obstacle",
        "resolution",
        "yours",
        "is_from_commit",
        "renamed_from",
        "copied_from",
    )

    key: Key
    kind: ChangeKind
    before: Entry | None
    after: Entry | None
    requires: tuple[Key, ...] = ()
    is_ignored: bool = False
    is_binary: bool = False
    insertions: int | None = None
    deletions: int | None = None
    risks: tuple[Risk, ...] = ()
    conflict: str | None = None
    obstacle: str | None = None
    resolution: Resolution | None = None
    yours: Entry | None = None
    is_from_commit: bool = False
    renamed_from: Key | None = None
    copied_from: Key | None = None

    def with_findings(
        self, risks: tuple[Risk, ...], insertions: int | None, deletions: int | None, *, is_binary: bool
    ) -> "Change":
        """Return the change with what an assessment found. `replace` takes five times as long, for each of 100,000 changes."""
        return Change(
            self.key,
            self.kind,
            self.before,
            self.after,
            self.requires,
            self.is_ignored,
            is_binary,
            insertions,
            deletions,
            risks,
            self.conflict,
            self.obstacle,
            self.resolution,
            self.yours,
            self.is_from_commit,
            self.renamed_from,
            self.copied_from,
        )

    @property
    def is_merged(self) -> bool:
        """Return whether it was reconciled with a real tree that differs from the base version."""
        return self.resolution is not None

    @property
    def is_session_only(self) -> bool:
        """Return whether applying it only removes it from the session."""
        return self.resolution is Resolution.YOURS

    @property
    def is_combined(self) -> bool:
        """Return whether the user changed the path too, so that the result contains both edits."""
        return self.resolution not in (None, Resolution.TIMES)

    @property
    def is_assessed(self) -> bool:
        """Return whether the risk rules have run on it."""
        return UNASSESSED not in self.risks

    @property
    def known_risks(self) -> tuple[Risk, ...]:
        """Return the risks that the rules found, as shown to the user."""
        return self.risks if self.is_assessed else ()

    @property
    def expected(self) -> Entry | None:
        """Return the entry that the real tree must have at the path before this is applied; None for no entry."""
        return self.yours if self.is_merged else self.before

    @property
    def type(self) -> FileType:
        """Return the type of the agent's entry, or of the base version if the agent deleted it."""
        entry = self.after or self.before
        if entry is None:
            raise ValueError(self.key)
        return entry.type

    @property
    def is_clean(self) -> bool:
        """Return whether it can be merged without a resolution."""
        return self.conflict is None and self.obstacle is None


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All changes of a session, sorted by root and path, and every problem that left something out.

    `notes`: other facts that the user should know, one sentence each.
    `renames`: the old key of each renamed file, by its new one; its deletion and its addition require each other.
    `directory_renames`: the same for each directory that was renamed as a whole; its files are renamed files.
    """

    changes: tuple[Change, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    renames: Mapping[Key, Key] = field(default_factory=dict)
    directory_renames: Mapping[Key, Key] = field(default_factory=dict)
    # Cached, so that no key press walks over 100,000 changes.
    _table: dict[Key, Change] = field(default_factory=dict, init=False, compare=False, repr=False)
    _requirers: dict[Key, tuple[Key, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def by_key(self) -> Mapping[Key, Change]:
        """Return the changes by key."""
        if len(self._table) != len(self.changes):
            needed: dict[Key, list[Key]] = {}
            for change in self.changes:
                self._table[change.key] = change
                for key in change.requires:
                    needed.setdefault(key, []).append(change.key)
            self._requirers.update({key: tuple(keys) for key, keys in needed.items()})
        return self._table

    def requirers(self) -> Mapping[Key, tuple[Key, ...]]:
        """Return for each required key the keys of the changes that require it."""
        self.by_key()
        return self._requirers

    def below(self, root: int, path: bytes) -> tuple[Change, ...]:
        """Return the changes at `path` and below it; `b""` is the whole root."""
        inside = path + b"/" if path else b""
        return tuple(
            change
            for change in self.changes
            if change.key.root == root and (change.key.path == path or change.key.path.startswith(inside))
        )


def sorted_changes(changes: Iterable[Change]) -> list[Change]:
    """Return changes sorted by root and path."""
    return sorted(changes, key=lambda one: (one.key.root, one.key.path))


def ignored_place(change: Change, changes: ChangeSet) -> Key | None:
    """Return the path to which a file was moved that is gone from its old one, if git ignores only the new path."""
    if change.is_ignored or change.kind not in (ChangeKind.DELETED, ChangeKind.RETYPED):
        return None
    required = map(changes.by_key().get, change.requires)
    return next((one.key for one in required if one is not None and one.is_ignored and one.after is not None), None)


def with_requirements(keys: frozenset[Key], changes: ChangeSet) -> frozenset[Key]:
    """Return `keys` and all keys that they require, directly or indirectly."""
    table = changes.by_key()
    known = keys if keys <= table.keys() else keys & table.keys()
    return _closure(known, lambda key: [other for other in table[key].requires if other in table])


def with_dependents(keys: frozenset[Key], changes: ChangeSet) -> frozenset[Key]:
    """Return `keys` and all keys that require them: these must be deselected together."""
    needed_by = changes.requirers()
    return _closure(keys, lambda key: needed_by.get(key, ()))


def _closure(keys: frozenset[Key], following: Callable[[Key], Iterable[Key]]) -> frozenset[Key]:
    """Return `keys` and those that follow them, directly or indirectly: few, and `keys` may be many."""
    added: set[Key] = set()
    pending = [other for key in keys for other in following(key)]
    while pending:
        key = pending.pop()
        if key not in keys and key not in added:
            added.add(key)
            pending.extend(following(key))
    return keys | added if added else keys


def has_selectable_mode(change: Change) -> bool:
    """Return whether the mode and attributes of a change can be selected separately."""
    after, before = change.after, change.before
    if change.type is not FileType.FILE or after is None:
        return False
    if change.kind is ChangeKind.ADDED:
        return bool(after.mode & 0o111)
    return (
        change.kind in (ChangeKind.EDITED, ChangeKind.RENAMED)
        and before is not None
        and (before.mode, before.attributes) != (after.mode, after.attributes)
    )


def is_mostly_emptied(before: int, after: int) -> bool:
    """Return whether a file of `before` bytes lost all its content, or more than nine tenths of 500 bytes or more."""
    return after * 10 < before and (not after or before >= _MIN_GUTTED)
