"""What an upper means against the base: the complete truth table of overlayfs's marks (kernel: filesystems/overlayfs.rst).

in the upper            in the base    a change
whiteout                nothing        nothing
whiteout                anything       deleted, a directory with all below it
directory, opaque       directory      what is below in the base and not in the upper is deleted
directory               directory      metadata, if the mode or its attributes differ
directory               nothing        added, if it is empty; else its files say it
directory               other          retyped
file, link, fifo …      nothing        added
file, link, fifo …      same type      edited; metadata; or only copied up: nothing
file, link, fifo …      other type     retyped; a directory's contents are deleted with it
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind, parents_of

NOISE = frozenset(("origin", "impure", "uuid", "nlink", "upper", "protattr"))
GIT = b".git"
OBSTACLES = {
    FileType.SOCKET: "a socket means nothing without the program that made it",
    FileType.DEVICE: "devices are not merged",
}
UNDER_GIT = "what is under .git is never merged as files; commits are what comes home"


class CorruptUpperError(ValueError):
    """An upper carries marks that no kernel with our mount options writes: somebody forged them."""


@dataclass(frozen=True, slots=True)
class Found:
    """One path of an upper: its entry, st_rdev, and the overlay's own attributes (name without prefix, value)."""

    path: bytes
    entry: Entry
    device: int = 0
    overlay: tuple[tuple[str, bytes], ...] = ()
    uid: int = 0
    gid: int = 0

    def is_whiteout(self) -> bool:
        """Whether the overlay says "deleted" here."""
        return self.entry.type is FileType.DEVICE and self.device == 0

    def is_opaque(self) -> bool:
        """Whether this directory hides the lower one. Raises CorruptUpperError for a mark that is not ours."""
        opaque = False
        for name, value in self.overlay:
            if name == "opaque" and value == b"y" and self.entry.type is FileType.DIRECTORY:
                opaque = True
            elif name not in NOISE and not name.startswith("overlay."):
                raise CorruptUpperError(f"{self.path!r} carries the overlay attribute {name}={value!r}")
        return opaque


@dataclass(slots=True)
class _Reading:
    """The state of reading one upper."""

    root: int
    base: Mapping[bytes, Entry]
    same: frozenset[bytes]
    upper: Mapping[bytes, Entry]  # what is alive in it
    parents: frozenset[bytes]  # directories of the upper with something alive in them
    changes: dict[bytes, Change] = field(default_factory=dict)
    retyped: set[bytes] = field(default_factory=set)  # directories that stand where something else stood
    opaque: list[bytes] = field(default_factory=list)
    names: Sequence[bytes] = ()  # of the base, sorted when they are first asked for

    def below(self, path: bytes) -> Sequence[bytes]:
        """Return what the base holds below a directory."""
        self.names = self.names or sorted(self.base)
        first = bisect_left(self.names, path + b"/")
        return self.names[first : bisect_left(self.names, path + b"0")]  # "0" follows "/"

    def add(self, path: bytes, kind: Kind, before: Entry | None, after: Entry | None) -> None:
        if path not in self.changes:
            obstacle = OBSTACLES.get(after.type) if after else None
            self.changes[path] = Change(Key(self.root, path), kind, before, after, self._requires(path), obstacle=obstacle)

    def _requires(self, path: bytes) -> tuple[Key, ...]:
        if not self.retyped:
            return ()
        return tuple(Key(self.root, folder) for folder in parents_of(path) if folder in self.retyped)


def is_under_git(path: bytes) -> bytes | None:
    """Return the `.git` that a path is or lies under; names are compared as a case-insensitive disk would."""
    if b".git" not in path.lower():
        return None
    parts = path.split(b"/")
    for number, part in enumerate(parts):
        if part.lower() == GIT:
            return b"/".join(parts[: number + 1])
    return None


def interpret(root: int, upper: Sequence[Found], base: Mapping[bytes, Entry], same: frozenset[bytes]) -> tuple[Change, ...]:
    """Return the changes of one root, sorted by path.

    `upper`: parents before children. `base`: all that the root held, without the root's own `.git`. `same`: paths of regular
    files whose bytes equal the base's. Raises CorruptUpperError.
    """
    alive = [one for one in upper if not one.is_whiteout()]
    reading = _Reading(
        root=root,
        base=base,
        same=same,
        upper={one.path: one.entry for one in alive},
        parents=frozenset(one.path.rpartition(b"/")[0] for one in alive),
    )
    for one in upper:
        if is_under_git(one.path) == GIT:
            _root_git(reading, one)
        elif one.is_whiteout():
            one.is_opaque()  # looks for forged marks
            _deleted(reading, one.path, base.get(one.path))
        elif one.entry.type is FileType.DIRECTORY:
            _directory(reading, one, base.get(one.path))
        else:
            one.is_opaque()
            _other(reading, one, base.get(one.path))
    for folder in reading.opaque:
        for path in reading.below(folder):
            if path not in reading.upper:
                _gone(reading, path)
    return tuple(change for _, change in sorted(_collapsed(reading).items()))


def _root_git(reading: _Reading, one: Found) -> None:
    """Show what stands where the root's git dir would be; the private one is never among the entries."""
    if one.path == GIT and not one.is_whiteout():
        reading.add(GIT, Kind.ADDED, None, one.entry)


def _collapsed(reading: _Reading) -> dict[bytes, Change]:
    """Return the changes by path, all that an agent did in one `.git` as one row that cannot be merged."""
    rows: dict[bytes, Change] = {}
    for path, change in reading.changes.items():
        git = is_under_git(path)
        if git is None:
            rows[path] = replace(change, requires=_without_git(change.requires)) if change.requires else change
        elif git not in rows:
            rows[git] = _git_row(reading, git)
    return rows


def _git_row(reading: _Reading, git: bytes) -> Change:
    before, after = reading.base.get(git), reading.upper.get(git)
    kind = Kind.ADDED if before is None else Kind.DELETED if after is None else Kind.EDITED
    return Change(Key(reading.root, git), kind, before, after, obstacle=UNDER_GIT)


def _without_git(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    return tuple(dict.fromkeys(Key(key.root, is_under_git(key.path) or key.path) for key in keys))


def _deleted(reading: _Reading, path: bytes, before: Entry | None) -> None:
    if before is not None:
        for below in reading.below(path):
            _gone(reading, below)
        if before.type is not FileType.DIRECTORY or not reading.below(path):
            reading.add(path, Kind.DELETED, before, None)


def _gone(reading: _Reading, path: bytes) -> None:
    """Note one path of the base as deleted; a directory only when it was empty, else its files say it."""
    before = reading.base[path]
    if before.type is not FileType.DIRECTORY or not reading.below(path):
        reading.add(path, Kind.DELETED, before, None)


def _directory(reading: _Reading, one: Found, before: Entry | None) -> None:
    if one.is_opaque():
        reading.opaque.append(one.path)
    if before is None:
        if one.path not in reading.parents:
            reading.add(one.path, Kind.ADDED, None, one.entry)
    elif before.type is not FileType.DIRECTORY:
        reading.add(one.path, Kind.RETYPED, before, one.entry)
        reading.retyped.add(one.path)
    elif _metadata_differs(before, one.entry):
        reading.add(one.path, Kind.METADATA, before, one.entry)


def _other(reading: _Reading, one: Found, before: Entry | None) -> None:
    after = one.entry
    if before is None:
        reading.add(one.path, Kind.ADDED, None, after)
    elif before.type is not after.type:
        _retyped(reading, one.path, before, after)
    elif after.type is FileType.SYMLINK:
        if before.target != after.target:
            reading.add(one.path, Kind.EDITED, before, after)
    elif after.type is FileType.FILE and one.path not in reading.same:
        reading.add(one.path, Kind.EDITED, before, after)
    elif _metadata_differs(before, after):
        reading.add(one.path, Kind.METADATA, before, after)


def _retyped(reading: _Reading, path: bytes, before: Entry, after: Entry) -> None:
    below = reading.below(path) if before.type is FileType.DIRECTORY else ()
    for inside in below:
        _gone(reading, inside)
    needed = tuple(Key(reading.root, inside) for inside in below if inside in reading.changes)
    reading.add(path, Kind.RETYPED, before, after)
    change = reading.changes[path]
    reading.changes[path] = replace(change, requires=change.requires + needed)


def _metadata_differs(before: Entry, after: Entry) -> bool:
    return before.mode != after.mode or before.attributes != after.attributes


def candidates(upper: Sequence[Found], base: Mapping[bytes, Entry]) -> tuple[bytes, ...]:
    """Return the regular files whose bytes must be compared with the base's: all else is told by type and size."""
    found = []
    for one in upper:
        before = base.get(one.path)
        if before and before.type is one.entry.type is FileType.FILE and before.size == one.entry.size:
            found.append(one.path)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a change is compared with: the base, what really stands at its path and the parents now, and doubts.

    `doubtful`: paths that moved after a start whose base is not known.
    """

    base: Mapping[bytes, Entry]
    real: Mapping[bytes, Entry | None]
    doubtful: frozenset[bytes] = frozenset()


def conflict(change: Change, ground: Ground) -> str | None:
    """Return why the real tree is not as the base was, at a change's path or above it; None when it is."""
    before, now = change.before, ground.real.get(change.key.path)
    barred = bar(change, ground)
    if barred:
        return barred
    if before is None:
        return "something was put there meanwhile" if now is not None else None
    if now is None:
        return "it was removed meanwhile"
    if before.type is FileType.DIRECTORY and now.type is FileType.DIRECTORY:
        return "its mode was changed meanwhile" if before.mode != now.mode else None
    return "it was changed meanwhile" if before.identity != now.identity else None


def bar(change: Change, ground: Ground) -> str | None:
    """Return why a change cannot even be compared with what stands at its path; None when it can."""
    if change.key.path in ground.doubtful:
        return "it changed after the start, and how it was then is not known"
    return _blocked(change.key.path, ground)


def _blocked(path: bytes, ground: Ground) -> str | None:
    for folder in parents_of(path):
        was, now = ground.base.get(folder), ground.real.get(folder)
        name = folder.decode("utf-8", "replace")
        if now is None and was is not None:
            return f"{name} was removed meanwhile"
        if now is not None and now.type is not FileType.DIRECTORY and (was is None or was.identity != now.identity):
            return f"{name} is no directory now"
    return None
