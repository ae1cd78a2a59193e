"""Interpret an upper layer against the base: the truth table of overlayfs (kernel: Documentation/filesystems/overlayfs.rst).

upper layer             base version   change
whiteout                nothing        nothing
whiteout                any entry      deleted; of a directory, everything below it too
directory, opaque       directory      every path below it that is not in the upper layer is deleted
directory               directory      metadata, if the mode or its attributes differ
directory               nothing        added if it is empty; else implied by its files
directory               other type     retyped
file, link, fifo …      nothing        added
file, link, fifo …      same type      edited, metadata, or nothing if it was only copied up
file, link, fifo …      other type     retyped; the contents of a directory are deleted
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from agent_dev.fs.entry import TOO_DEEP, Entry, FileType, Key, WalkedEntry, parents_of
from agent_dev.overlay.changes import Change, ChangeKind, Risk
from agent_dev.paths import GIT, is_under_git
from agent_dev.quick_dataclass import dataclass, field, replace

OBSTACLES = {
    FileType.SOCKET: "a socket is useless without the program that created it",
    FileType.DEVICE: "device files are not merged",
}
UNDER_GIT_REASON = "files under .git are never merged"
GIT_FILE_REASON = f"{UNDER_GIT_REASON}; import the agent's commits instead"  # they are in the session's git directory


@dataclass(slots=True)
class _UpperState:
    """The state while one upper layer is interpreted."""

    root: int
    base: Mapping[bytes, Entry]
    same: frozenset[bytes]
    alive: Sequence[WalkedEntry]  # of the upper layer, without whiteouts
    parents: frozenset[bytes]  # directories of the upper layer that are not empty
    risks: tuple[Risk, ...] = ()  # of every change
    changes: dict[bytes, Change] = field(default_factory=dict)
    retyped: set[bytes] = field(default_factory=set)  # directories that replaced another type
    opaque: list[bytes] = field(default_factory=list)
    names: Sequence[bytes] = ()  # of the base, sorted on first use
    _upper: Mapping[bytes, Entry] | None = None

    @property
    def upper(self) -> Mapping[bytes, Entry]:
        """Return the entries of the upper layer by path, without whiteouts; they are rarely needed."""
        if self._upper is None:
            self._upper = {item.path: item.entry for item in self.alive}
        return self._upper

    def below(self, path: bytes) -> Sequence[bytes]:
        """Return the base's paths below a directory."""
        self.names = self.names or sorted(self.base)
        first = bisect_left(self.names, path + b"/")
        return self.names[first : bisect_left(self.names, path + b"0")]  # "0" follows "/"

    def add(self, path: bytes, kind: ChangeKind, before: Entry | None, after: Entry | None) -> None:
        if path not in self.changes:
            obstacle = OBSTACLES.get(after.type) if after else None
            key = Key(self.root, path)
            self.changes[path] = Change(key, kind, before, after, self._requires(path), obstacle=obstacle, risks=self.risks)

    def _requires(self, path: bytes) -> tuple[Key, ...]:
        if not self.retyped:
            return ()
        return tuple(Key(self.root, folder) for folder in parents_of(path) if folder in self.retyped)


def interpret(
    root: int,
    upper: Sequence[WalkedEntry],
    base: Mapping[bytes, Entry],
    same: frozenset[bytes],
    *,
    with_git: bool = False,
    risks: tuple[Risk, ...] = (),
) -> tuple[Change, ...]:
    """Return the changes of one root, sorted by path.

    `upper`: parents before children. `base`: every entry of the root, without the root's own `.git`. `same`: paths of regular
    files with the same bytes as the base version. `with_git`: treat paths under `.git` as ordinary changes (for a restore, where
    no agent wrote them). Raises CorruptUpperError.
    """
    alive = [item for item in upper if not item.is_whiteout()]
    reading = _UpperState(
        root=root,
        base=base,
        same=same,
        alive=alive,
        parents=frozenset(item.path.rpartition(b"/")[0] for item in alive),
        risks=risks,
    )
    for item in upper:
        if not with_git and is_under_git(item.path) == GIT:
            _add_root_git(reading, item)
        elif item.is_whiteout():
            item.is_opaque()  # raises for forged overlay marks
            _add_deleted(reading, item.path, base.get(item.path))
        elif item.entry.type is FileType.DIRECTORY:
            _add_directory(reading, item, base.get(item.path))
        else:
            item.is_opaque()
            _add_other(reading, item, base.get(item.path))
    for folder in reading.opaque:
        for path in reading.below(folder):
            if path not in reading.upper:
                _add_base_deletion(reading, path)
    changes = reading.changes if with_git else _collapse_git(reading)
    return tuple(changes[path] for path in sorted(changes))


def _add_unread_directory(reading: _UpperState, item: WalkedEntry) -> None:
    """Add a directory that was not read, because it is too deep, as one change that cannot be merged."""
    before = reading.base.get(item.path)
    kind = ChangeKind.EDITED if before else ChangeKind.ADDED
    key, obstacle = Key(reading.root, item.path), f"{TOO_DEEP} merged"
    reading.changes[item.path] = Change(key, kind, before, item.entry, obstacle=obstacle, risks=reading.risks)


def _add_root_git(reading: _UpperState, item: WalkedEntry) -> None:
    """Add the entry that replaced the root's git directory; the session's private copy is never among the entries."""
    if item.path == GIT and not item.is_whiteout():
        reading.add(GIT, ChangeKind.ADDED, None, item.entry)


def _collapse_git(reading: _UpperState) -> dict[bytes, Change]:
    """Return the changes by path, with everything inside one `.git` collapsed into one row that cannot be merged."""
    if not any(map(is_under_git, reading.changes)):
        return reading.changes
    rows: dict[bytes, Change] = {}
    for path, change in reading.changes.items():
        git = is_under_git(path)
        if git is None:
            rows[path] = replace(change, requires=_without_git(change.requires)) if change.requires else change
        elif git not in rows:
            rows[git] = _git_row(reading, git)
    return rows


def _git_row(reading: _UpperState, git: bytes) -> Change:
    before, after = reading.base.get(git), reading.upper.get(git)
    kind = ChangeKind.ADDED if before is None else ChangeKind.DELETED if after is None else ChangeKind.EDITED
    change = Change(Key(reading.root, git), kind, before, after, risks=reading.risks)
    return replace(change, obstacle=GIT_FILE_REASON if change.type is FileType.FILE else UNDER_GIT_REASON)


def _without_git(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    return tuple(dict.fromkeys(Key(key.root, is_under_git(key.path) or key.path) for key in keys))


def _add_deleted(reading: _UpperState, path: bytes, before: Entry | None) -> None:
    if before is not None:
        for below in reading.below(path):
            _add_base_deletion(reading, below)
        if before.type is not FileType.DIRECTORY or not reading.below(path):
            reading.add(path, ChangeKind.DELETED, before, None)


def _add_base_deletion(reading: _UpperState, path: bytes) -> None:
    """Record one path of the base as deleted; a directory only if it was empty, else its files imply it."""
    before = reading.base[path]
    if before.type is not FileType.DIRECTORY or not reading.below(path):
        reading.add(path, ChangeKind.DELETED, before, None)


def _add_directory(reading: _UpperState, item: WalkedEntry, before: Entry | None) -> None:
    if item.is_opaque():
        reading.opaque.append(item.path)
    if item.is_too_deep:
        _add_unread_directory(reading, item)
    elif before is None:
        if item.path not in reading.parents:
            reading.add(item.path, ChangeKind.ADDED, None, item.entry)
    elif before.type is not FileType.DIRECTORY:
        reading.add(item.path, ChangeKind.RETYPED, before, item.entry)
        reading.retyped.add(item.path)
    elif _metadata_differs(before, item.entry):
        reading.add(item.path, ChangeKind.METADATA, before, item.entry)


def _add_other(reading: _UpperState, item: WalkedEntry, before: Entry | None) -> None:
    after = item.entry
    if before is None:
        reading.add(item.path, ChangeKind.ADDED, None, after)
    elif before.type is not after.type:
        _add_retyped(reading, item.path, before, after)
    elif after.type is FileType.SYMLINK:
        if before.target != after.target:
            reading.add(item.path, ChangeKind.EDITED, before, after)
    elif after.type is FileType.FILE and item.path not in reading.same:
        reading.add(item.path, ChangeKind.EDITED, before, after)
    elif _metadata_differs(before, after):
        reading.add(item.path, ChangeKind.METADATA, before, after)


def _add_retyped(reading: _UpperState, path: bytes, before: Entry, after: Entry) -> None:
    below = reading.below(path) if before.type is FileType.DIRECTORY else ()
    for path_below in below:
        _add_base_deletion(reading, path_below)
    needed = tuple(Key(reading.root, path_below) for path_below in below if path_below in reading.changes)
    reading.add(path, ChangeKind.RETYPED, before, after)
    change = reading.changes[path]
    reading.changes[path] = replace(change, requires=change.requires + needed)


def unknown_deletions(upper: Sequence[WalkedEntry], base: Mapping[bytes, Entry]) -> tuple[bytes, ...]:
    """Return whiteouts without a base entry: their directory was unreadable when the base was recorded."""
    unknown = (found.path for found in upper if found.is_whiteout() and found.path not in base)
    return tuple(path for path in unknown if any(_is_unsearchable(base.get(folder)) for folder in parents_of(path)))


def unknown_folders(upper: Sequence[WalkedEntry], base: Mapping[bytes, Entry]) -> tuple[bytes, ...]:
    """Return the directories that an agent changed or created in an unreadable directory, where the base has no entry."""
    folders = (one.path for one in upper if one.entry.type is FileType.DIRECTORY and one.path not in base)
    return tuple(path for path in folders if any(_is_unsearchable(base.get(folder)) for folder in parents_of(path)))


def deleted_folders(upper: Sequence[WalkedEntry], base: Mapping[bytes, Entry], paths: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the base's directories above some paths that the agent deleted too, sorted."""
    marks = {one.path: one for one in upper}
    folders = sorted({folder for path in paths for folder in parents_of(path)})
    return tuple(one for one in folders if one in base and _is_hidden(one, marks))


def _is_hidden(path: bytes, upper: Mapping[bytes, WalkedEntry]) -> bool:
    """Return whether an upper hides a path of the base, and has no entry at the path or above it."""
    is_covered = False
    for one in (*parents_of(path), path):
        found = upper.get(one)
        if found is None:
            return is_covered
        if found.entry.type is not FileType.DIRECTORY:
            return found.is_whiteout()
        is_covered = is_covered or found.is_opaque()
    return False


def _is_unsearchable(entry: Entry | None) -> bool:
    return entry is not None and entry.type is FileType.DIRECTORY and entry.mode & 0o500 != 0o500


def _metadata_differs(before: Entry, after: Entry) -> bool:
    return before.mode != after.mode or before.attributes != after.attributes


def files_to_compare(upper: Sequence[WalkedEntry], base: Mapping[bytes, Entry]) -> tuple[bytes, ...]:
    """Return the regular files whose bytes must be compared with the base; all others differ in type or size."""
    found = []
    for item in upper:
        before = base.get(item.path)
        if before and before.type is item.entry.type is FileType.FILE and before.size == item.entry.size:
            found.append(item.path)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ComparedEntries:
    """The entries with which a change is compared: the base, and the real tree's entries at its path and above.

    `doubtful`: paths that changed after the start and whose base version is unknown.
    """

    base: Mapping[bytes, Entry]
    real: Mapping[bytes, Entry | None]
    doubtful: frozenset[bytes] = frozenset()
    _folder_conflicts: dict[bytes, str | None] = field(default_factory=dict)  # cached: most changes share their directories

    def folder_conflict(self, folder: bytes) -> str | None:
        """Return how a directory, or one above it, differs from the base so that no change in it can be compared."""
        if folder not in self._folder_conflicts:
            reasons = (_folder_conflict(one, self.base.get(one), self.real.get(one)) for one in (*parents_of(folder), folder))
            self._folder_conflicts[folder] = next(filter(None, reasons), None)
        return self._folder_conflicts[folder]


def conflict_reason(change: Change, state: ComparedEntries) -> str | None:
    """Return how the real tree differs from the base at a change's path or above it; None if it does not."""
    before, now = change.before, state.real.get(change.key.path)
    obstacle = incomparable_reason(change, state)
    if obstacle:
        return obstacle
    if before is None:
        return "something was created there since the session started" if now is not None else None
    if now is None:
        return "it was removed since the session started"
    if before.type is FileType.DIRECTORY and now.type is FileType.DIRECTORY:
        return "its mode was changed since the session started" if before.mode != now.mode else None
    return "it was changed since the session started" if before.identity != now.identity else None


def incomparable_reason(change: Change, state: ComparedEntries) -> str | None:
    """Return why a change cannot be compared with the real tree at all; None if it can."""
    if change.key.path in state.doubtful:
        return "it changed since the session started, and its base version is unknown"
    folder = change.key.path.rpartition(b"/")[0]
    return state.folder_conflict(folder) if folder else None


def _folder_conflict(folder: bytes, before: Entry | None, now: Entry | None) -> str | None:
    name = folder.decode("utf-8", "replace")
    if now is None and before is not None:
        return f"{name} was removed since the session started"
    if now is not None and now.type is not FileType.DIRECTORY and (before is None or before.identity != now.identity):
        return f"{name} is not a directory any more"
    return None
