"""What the work tree and the index need when the branch that is checked out moves to commits of the agent's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_dev.commands.found import GITLINK, SYMLINK, WorkTree, blobs, is_same
from agent_dev.commands.review import LARGEST_DIFF, Review
from agent_dev.core import merge
from agent_dev.core.bring import combined
from agent_dev.core.changes import Change, Entry, FileType, Key, Kind
from agent_dev.core.commits import TreeChange
from agent_dev.core.conversion import Conversion, smudged
from agent_dev.core.journal import IndexMove
from agent_dev.core.merge import Left, MergePlan, Step
from agent_dev.core.overlay import parents_of
from agent_dev.host.bare import Bare
from agent_dev.host.users_index import NOTHING
from agent_dev.host.users_index import Entry as IndexEntry

_STAGED = "what you have staged of it and what the commits change are in each other's way"
_YOURS = "what you have not committed of it and what the commits change are in each other's way"


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what an index knows a file again. Times in ns; the inode is cut to 32 bits, as git does."""

    size: int
    inode: int
    mtime: int
    ctime: int

    def is_(self, now: Entry) -> bool:
        """Whether this is what stands there."""
        return (self.size, self.inode, self.mtime, self.ctime) == (now.size, now.inode & 0xFFFFFFFF, now.mtime, now.ctime)


@dataclass(slots=True)
class Ground:
    """What is looked at: the session, the quarantine, the index, and what blobs become on the disk."""

    review: Review
    place: Bare
    index: Mapping[bytes, IndexEntry]
    conversions: Mapping[bytes, Conversion]
    vouched: Mapping[bytes, Stamp] = field(default_factory=dict)  # what git found clean when it last looked
    texts: dict[str, bytes] = field(default_factory=dict)
    tree: WorkTree = field(init=False)
    umask: int = field(init=False)

    def __post_init__(self) -> None:
        self.tree = WorkTree(self.review)
        self.umask = os.umask(0o022)
        os.umask(self.umask)


@dataclass(slots=True)
class Files:
    """The steps in the real tree, the changes they carry by key, what is other in the index, and what is in the way."""

    steps: list[Step] = field(default_factory=list)
    changes: dict[Key, Change] = field(default_factory=dict)
    index: list[IndexMove] = field(default_factory=list)
    conflicts: list[Left] = field(default_factory=list)
    new_blobs: list[bytes] = field(default_factory=list)

    def plan(self) -> MergePlan:
        """Return them in the order in which they happen."""
        removals = [step for step in self.steps if isinstance(step, merge.Remove)]
        removals.sort(key=lambda step: (-step.key.path.count(b"/"), step.key.path))
        made = [step for step in self.steps if isinstance(step, (merge.MakeFolder, merge.Put))]
        gone = {folder for step in removals for folder in parents_of(step.key.path)}
        kept = {folder for step in made for folder in parents_of(step.key.path)} | {step.key.path for step in made}
        prunes = [merge.Prune(Key(0, folder)) for folder in sorted(gone - kept, key=lambda path: -path.count(b"/"))]
        return MergePlan((*removals, *prunes, *made), tuple(self.changes), (), tuple(self.conflicts))


def plan(ground: Ground, moved: tuple[TreeChange, ...]) -> Files:
    """Plan what becomes of each path that differs between the two commits. Raises CommandFailed."""
    wanted = {oid for one in moved for mode, oid in _sides(one) if mode and mode != GITLINK}
    ground.texts |= blobs(ground.place, sorted(wanted))
    files = Files()
    folders: set[bytes] = set()
    for one in moved:
        entry = ground.index.get(one.path)
        _index(ground, files, one, entry)
        is_elsewhere = entry is not None and entry.is_skipped
        if not is_elsewhere and GITLINK not in (one.old_mode, one.new_mode):
            _file(ground, files, one, folders)
    return files


def _sides(one: TreeChange) -> tuple[tuple[int, str], tuple[int, str]]:
    old = (one.old_mode, one.old) if one.old_mode else NOTHING
    return old, (one.new_mode, one.new) if one.new_mode else NOTHING


# The index


def _index(ground: Ground, files: Files, one: TreeChange, entry: IndexEntry | None) -> None:
    old, new = _sides(one)
    now = entry.side if entry is not None else NOTHING
    if now == new:
        return
    if entry is not None and entry.is_unmerged:
        files.conflicts.append(Left(Key(0, one.path), "you are in the middle of merging it"))
        return
    if now == old:
        files.index.append(IndexMove(one.path, now, new))
        return
    staged = _staged(ground, now, old, new)
    if staged is None:
        files.conflicts.append(Left(Key(0, one.path), _STAGED))
    elif staged == ground.texts.get(new[1]):
        files.index.append(IndexMove(one.path, now, new))
    else:
        files.new_blobs.append(staged)
        oid = ground.place.ask("hash-object", "-w", "--stdin", question=staged).decode("ascii").strip()
        files.index.append(IndexMove(one.path, now, (now[0], oid)))


def _staged(ground: Ground, now: tuple[int, str], old: tuple[int, str], new: tuple[int, str]) -> bytes | None:
    """Return what becomes of something that the user has staged; None when it does not fit."""
    if not all(side == NOTHING or side[0] in (0o100644, 0o100755) for side in (now, old, new)) or NOTHING in (now, new):
        return None
    mine = blobs(ground.place, [now[1]])[now[1]]
    return combined(ground.texts.get(old[1], b""), mine, ground.texts[new[1]])


# The work tree


def _file(ground: Ground, files: Files, one: TreeChange, folders: set[bytes]) -> None:
    real = ground.review.reals[0]
    old, new = _sides(one)
    key, now = Key(0, one.path), real.look(one.path)
    data = _bytes(ground, one.path, now)
    if now is None or (now.type is FileType.DIRECTORY and new == NOTHING):
        is_there = new == NOTHING
        is_ours = old == NOTHING
    else:
        is_there = new != NOTHING and _is_at(ground, one.path, now, data, new)
        is_ours = old != NOTHING and _is_at(ground, one.path, now, data, old)
    is_folder = now is not None and now.type is FileType.DIRECTORY
    if is_there:
        return
    if new == NOTHING:
        _gone(files, ground, key, now, is_ours=is_ours)
        return
    landed = _landed(ground, one, new)
    if not (is_ours or is_folder) and now is not None:
        merged = _together(ground, one, now, data, landed)
        if merged is None:
            files.conflicts.append(Left(key, _YOURS))
            return
        landed = merged
    elif now is None and not is_ours:
        files.conflicts.append(Left(key, "you removed it, and the commits change it"))
        return
    _folders(ground, files, one.path, folders)
    _put(ground, files, one, now, landed)


def _bytes(ground: Ground, path: bytes, now: Entry | None) -> bytes | None:
    if now is None or now.type not in (FileType.FILE, FileType.SYMLINK):
        return None
    return now.target if now.type is FileType.SYMLINK else ground.review.reals[0].read(path, LARGEST_DIFF)


def _is_at(ground: Ground, path: bytes, now: Entry, data: bytes | None, side: tuple[int, str]) -> bool:
    """Whether a file is what a tree holds, as git would say; where only a program could tell, what the index says."""
    if now.type not in (FileType.FILE, FileType.SYMLINK):
        return False
    if ground.conversions.get(path) is Conversion.PROGRAM:
        return path in ground.vouched and ground.vouched[path].is_(now) and ground.index[path].side == side
    return data is not None and is_same(now, data, side, is_sha256=ground.place.is_sha256)


def _landed(ground: Ground, one: TreeChange, new: tuple[int, str]) -> bytes:
    """Return the bytes that a path gets: where only a program could make them, the agent's own file, else the blob."""
    how = ground.conversions.get(one.path, Conversion.NONE)
    if new[0] == SYMLINK:
        return ground.texts[new[1]]
    if how is Conversion.PROGRAM:
        entry, data = ground.tree.at(one.path)
        if entry is not None and entry.type is FileType.FILE and data is not None:
            return data
    return smudged(ground.texts[new[1]], how)


def _together(ground: Ground, one: TreeChange, now: Entry, mine: bytes | None, theirs: bytes) -> bytes | None:
    """Return what becomes of a file that the user has changed and not committed; None when it does not fit."""
    if mine is None or now.type is not FileType.FILE or SYMLINK in (one.new_mode, one.old_mode):
        return None
    before = smudged(ground.texts.get(one.old, b""), ground.conversions.get(one.path, Conversion.NONE)) if one.old_mode else b""
    return combined(before, mine, theirs)


def _gone(files: Files, ground: Ground, key: Key, now: Entry | None, *, is_ours: bool) -> None:
    if now is None or not is_ours:
        files.conflicts.append(Left(key, "you changed it, and the commits remove it"))
        return
    files.steps.append(merge.Remove(key, now))
    change = ground.tree.changes.get(key.path)
    is_known = change is not None and change.kind is Kind.DELETED
    files.changes[key] = change if is_known and change is not None else Change(key, Kind.DELETED, now, None, is_apart=True)


def _folders(ground: Ground, files: Files, path: bytes, known: set[bytes]) -> None:
    for folder in parents_of(path):
        if folder in known:
            continue
        known.add(folder)
        now = ground.review.reals[0].look(folder, attributes=False)
        if now is None or now.type is not FileType.DIRECTORY:
            like = ground.review.uppers[0].look(folder, attributes=False)
            mode = like.mode & 0o777 if like is not None and like.type is FileType.DIRECTORY else 0o777 & ~ground.umask
            files.steps.append(merge.MakeFolder(Key(0, folder), mode))


def _put(ground: Ground, files: Files, one: TreeChange, now: Entry | None, landed: bytes) -> None:
    key = Key(0, one.path)
    after = _entry(ground, one, now, landed)
    change = ground.tree.changes.get(one.path)
    if change is not None and not _is_alike(change, after):
        change = None
    is_merged = now is not None and (base := ground.tree.base.get(one.path)) is not None and base.identity != now.identity
    if change is None:
        kind = Kind.ADDED if now is None else Kind.EDITED if now.type is after.type else Kind.RETYPED
        files.changes[key] = Change(key, kind, now, after, is_merged=is_merged, is_apart=True)
        files.steps.append(merge.Put(key, after, now, None if after.type is FileType.SYMLINK else landed))
        return
    own = ground.tree.at(one.path)[1]
    is_whole = own == landed and change.after is not None and not (change.after.mode ^ after.mode) & 0o100
    files.changes[key] = Change(key, change.kind, change.before, change.after, is_merged=is_merged)
    if after.type is FileType.SYMLINK:
        files.steps.append(merge.Put(key, after, now))
    elif is_whole and change.after is not None and change.after.mode & 0o777 == after.mode:
        files.steps.append(merge.Put(key, change.after, now))
    else:
        part = None if is_whole else smudged(ground.texts[one.new], ground.conversions.get(one.path, Conversion.NONE))
        files.steps.append(merge.Put(key, after, now, landed, part))


def _is_alike(change: Change, after: Entry) -> bool:
    """Whether what the session holds at a path can be told from what lands only by its bytes and mode."""
    own = change.after
    if own is None or own.type is not after.type or change.kind is Kind.METADATA:
        return False
    return own.type is FileType.FILE or own.target == after.target


def _entry(ground: Ground, one: TreeChange, now: Entry | None, landed: bytes) -> Entry:
    if one.new_mode == SYMLINK:
        return Entry(FileType.SYMLINK, 0o777, len(landed), target=landed)
    is_executable = one.new_mode == 0o100755
    if now is not None and now.type is FileType.FILE:
        mode = now.mode & 0o777
        mode = mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111
        return Entry(FileType.FILE, mode, len(landed), attributes=now.attributes)
    return Entry(FileType.FILE, (0o777 if is_executable else 0o666) & ~ground.umask, len(landed))
