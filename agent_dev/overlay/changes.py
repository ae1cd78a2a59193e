"""What an agent changed: one `Change` for each path that differs between its upper and the base."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class FileType(StrEnum):
    """What stands at a path."""

    FILE = "file"
    DIRECTORY = "dir"
    SYMLINK = "symlink"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"


class Kind(StrEnum):
    """How a path differs from the base."""

    ADDED = "added"
    EDITED = "edited"
    DELETED = "deleted"
    RETYPED = "retyped"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Entry:
    """One path as the disk holds it. Times in ns, `mode` the lower 12 bits, `target` a symlink's, as bytes.

    `attributes` are its own `user.*` extended attributes, sorted, the overlay's left out.
    """

    type: FileType
    mode: int = 0o644
    size: int = 0
    inode: int = 0
    mtime: int = 0
    ctime: int = 0
    links: int = 1
    target: bytes = b""
    attributes: tuple[tuple[str, bytes], ...] = ()

    @property
    def identity(self) -> tuple[str, int, int, int, int]:
        """What must still be so for this to be the very same, untouched thing (decision 0006)."""
        return (self.type, self.inode, self.size, self.mtime, self.ctime)


@dataclass(frozen=True, slots=True)
class Risk:
    """Why a change needs a careful look: the rule's name, one sentence, and what to look at ("" for nothing special)."""

    rule: str
    why: str
    check: str = ""


class Key(NamedTuple):
    """A path inside one of a session's roots; `path` is relative, `/`-separated, raw bytes.

    A tuple: of 100,000 changes two million keys are looked up, and a tuple is hashed four times as fast.
    """

    root: int
    path: bytes


def parents_of(path: bytes) -> tuple[bytes, ...]:
    """Return the directories a relative path lies in, outermost first, without the root."""
    return _down_to(path.rpartition(b"/")[0])


@lru_cache(maxsize=4096)
def _down_to(folder: bytes) -> tuple[bytes, ...]:
    parts = folder.split(b"/") if folder else []
    return tuple(b"/".join(parts[: n + 1]) for n in range(len(parts)))


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs. `before` is the base's entry, `after` the agent's; None where there is nothing.

    `requires`: keys that cannot be left when this is taken (the file that stood where its directory stands now …).
    `obstacle`: why it cannot be merged at all. `conflict`: why the real tree is not as the base was.
    `insertions` and `deletions` are counted in lines; None until counted, or where lines mean nothing.
    `is_merged`: the real tree is not as the base was, but both fit together; `mine` is what stands there now.
    `is_dropped`: what stands there stays, and taking the change only takes it out of the session.
    `is_touched`: of a merged one, what stands there holds what the base held, and only its times are others.
    `is_instead`: it was in conflict, and the agent's stands where both changed it.
    `is_apart`: it comes by a commit, and what the session's own files hold there stays as it is.
    """

    key: Key
    kind: Kind
    before: Entry | None
    after: Entry | None
    requires: tuple[Key, ...] = ()
    ignored: bool = False
    binary: bool = False
    insertions: int | None = None
    deletions: int | None = None
    risks: tuple[Risk, ...] = ()
    conflict: str | None = None
    obstacle: str | None = None
    is_merged: bool = False
    mine: Entry | None = None
    is_dropped: bool = False
    is_apart: bool = False
    is_touched: bool = False
    is_instead: bool = False

    @property
    def has_yours(self) -> bool:
        """Whether the user changed it, too, so that what lands has both."""
        return self.is_merged and not self.is_touched

    @property
    def expect(self) -> Entry | None:
        """What must stand at the path for this to be taken; None for nothing."""
        return self.mine if self.is_merged else self.before

    @property
    def type(self) -> FileType:
        """The type the agent left, or for a deletion the type that stood there."""
        entry = self.after or self.before
        if entry is None:
            raise ValueError(self.key)
        return entry.type

    @property
    def is_clean(self) -> bool:
        """Whether it can be merged as it is."""
        return self.conflict is None and self.obstacle is None


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All changes of a session, sorted by root and path, and what was left out with the reason (never silently).

    `notes`: what else a person should know of them, a sentence each.
    """

    changes: tuple[Change, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    # What follows from the changes, found once: a key on the screen must not walk over 100,000 of them.
    _table: dict[Key, Change] = field(default_factory=dict, init=False, compare=False, repr=False)
    _needed: dict[Key, tuple[Key, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def by_key(self) -> Mapping[Key, Change]:
        """Return the changes by their keys."""
        if len(self._table) != len(self.changes):
            needed: dict[Key, list[Key]] = {}
            for change in self.changes:
                self._table[change.key] = change
                for key in change.requires:
                    needed.setdefault(key, []).append(change.key)
            self._needed.update({key: tuple(keys) for key, keys in needed.items()})
        return self._table

    def needed_by(self) -> Mapping[Key, tuple[Key, ...]]:
        """Return for what some changes need, those that need it."""
        self.by_key()
        return self._needed

    def below(self, root: int, path: bytes) -> tuple[Change, ...]:
        """Return the changes at `path` and below it; `b""` is the whole root."""
        inside = path + b"/" if path else b""
        return tuple(
            change
            for change in self.changes
            if change.key.root == root and (change.key.path == path or change.key.path.startswith(inside))
        )


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Return changes by root and path, as a session lists them."""
    return sorted(changes, key=lambda one: (one.key.root, one.key.path))


def closure(keys: frozenset[Key], changes: ChangeSet) -> frozenset[Key]:
    """Return `keys` with all that they cannot be taken without."""
    table = changes.by_key()
    done: set[Key] = set()
    todo = [key for key in keys if key in table]
    while todo:
        key = todo.pop()
        if key not in done:
            done.add(key)
            todo.extend(other for other in table[key].requires if other in table)
    return frozenset(done)


def dependents(keys: frozenset[Key], changes: ChangeSet) -> frozenset[Key]:
    """Return `keys` with all that cannot be taken without them: what must be left when they are left."""
    needed_by = changes.needed_by()
    done: set[Key] = set()
    todo = list(keys)
    while todo:
        key = todo.pop()
        if key not in done:
            done.add(key)
            todo.extend(needed_by.get(key, ()))
    return frozenset(done)
