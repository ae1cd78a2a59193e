"""What the work tree and the index need when the branch that is checked out moves to commits of the agent's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent_dev.commits.conflicts import Met
from agent_dev.commits.report import GITLINK, SYMLINK, WorkTree, blob_id, blobs, is_same, tree_mode
from agent_dev.commits.targets import combined
from agent_dev.diff.merge3 import Side
from agent_dev.fs import case_folding as folding
from agent_dev.git.bare import Bare
from agent_dev.git.conversion import Conversion, smudged
from agent_dev.git.formats.commit_format import TreeChange
from agent_dev.git.merge_tree_conflict import Answer, Answers, Blob, Clash
from agent_dev.git.user_index import NOTHING
from agent_dev.git.user_index import Entry as IndexEntry
from agent_dev.merge.reconcile import Sides
from agent_dev.merge.review import LARGEST_DIFF, Review, standing
from agent_dev.merge_engine import merge_plan as merge
from agent_dev.merge_engine.journal import IndexMove
from agent_dev.merge_engine.merge_plan import Left, MergePlan, Step
from agent_dev.overlay.case_collisions import reason
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind, parents_of

_STAGED = "what you have staged of it and what the commits change are in each other's way"
_YOURS = "what you have not committed of it and what the commits change are in each other's way"
_GONE = "you removed it, and the commits change it"
_KEPT = "you changed it, and the commits remove it"
_FILES = (0o100644, 0o100755)


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
    """What is looked at: the session, the quarantine, the index, and what blobs become on the disk.

    `answers`: what becomes of what the user has not committed, where the commits are in its way.
    """

    review: Review
    place: Bare
    index: Mapping[bytes, IndexEntry]
    conversions: Mapping[bytes, Conversion]
    vouched: Mapping[bytes, Stamp] = field(default_factory=dict)  # what git found clean when it last looked
    answers: Answers = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    tree: WorkTree = field(init=False)
    umask: int = field(init=False)

    def __post_init__(self) -> None:
        self.tree = WorkTree(self.review)
        self.umask = os.umask(0o022)
        os.umask(self.umask)


@dataclass(slots=True)
class Files:
    """The steps in the real tree, the changes they carry by key, what is other in the index, and what is in the way.

    `met`: those of the conflicts that answers would settle. `together`: where what the user has not committed was merged with
    what the commits bring. `dropped`: what only leaves the session, for the user's stays.
    `twins`: what this disk cannot hold beside something else.
    """

    steps: list[Step] = field(default_factory=list)
    changes: dict[Key, Change] = field(default_factory=dict)
    index: list[IndexMove] = field(default_factory=list)
    conflicts: list[Left] = field(default_factory=list)
    met: list[Met] = field(default_factory=list)
    together: set[bytes] = field(default_factory=set)
    dropped: list[Key] = field(default_factory=list)
    new_blobs: list[bytes] = field(default_factory=list)
    twins: list[Left] = field(default_factory=list)

    def plan(self) -> MergePlan:
        """Return them in the order in which they happen."""
        removals = [step for step in self.steps if isinstance(step, merge.Remove)]
        removals.sort(key=lambda step: (-step.key.path.count(b"/"), step.key.path))
        made = [step for step in self.steps if isinstance(step, (merge.MakeFolder, merge.Put))]
        gone = {folder for step in removals for folder in parents_of(step.key.path)}
        kept = {folder for step in made for folder in parents_of(step.key.path)} | {step.key.path for step in made}
        prunes = [merge.Prune(Key(0, folder)) for folder in sorted(gone - kept, key=lambda path: -path.count(b"/"))]
        return MergePlan((*removals, *prunes, *made), tuple(self.changes), (), tuple(self.conflicts), tuple(self.dropped))


def plan(ground: Ground, moved: tuple[TreeChange, ...]) -> Files:
    """Plan what becomes of each path that differs between the two commits. Raises CommandFailed."""
    wanted = {oid for one in moved for mode, oid in _sides(one) if mode and mode != GITLINK}
    ground.texts |= blobs(ground.place, sorted(wanted))
    files = Files()
    folders: set[bytes] = set()
    real, come_or_go = ground.review.reals[0], [one.path for one in moved if NOTHING in _sides(one)]
    twins = folding.twins(real, standing(real, come_or_go), ground.tree.base)
    files.twins += [Left(Key(0, path), why) for path in come_or_go if (why := reason(path, twins))]
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
    side = _staged(ground, files, one, now)
    if side not in (None, now):
        files.index.append(IndexMove(one.path, now, side))


def _staged(ground: Ground, files: Files, one: TreeChange, now: Blob) -> Blob | None:
    """Return what becomes of something that the user has staged; None where that stays, also because it is in the way."""
    old, new = _sides(one)
    modes = {now[0], old[0], new[0]}
    if GITLINK in modes and not modes <= {GITLINK, NOTHING[0]}:
        files.conflicts.append(Left(Key(0, one.path), _STAGED))
        return None
    mine = blobs(ground.place, [now[1]])[now[1]] if now != NOTHING and now[0] != GITLINK else None
    clash, sides = Clash(one.path, old, now, new), Sides(ground.texts.get(old[1]), mine, ground.texts.get(new[1]))
    made = _made(ground, files, Met(clash, sides, _STAGED))
    if made is None or made is Side.MINE:
        return None
    if not isinstance(made, bytes) or (made == sides.agent and clash.mode == new[0]):
        return new
    files.new_blobs.append(made)
    return clash.mode, ground.place.ask("hash-object", "-w", "--stdin", question=made).decode("ascii").strip()


def _fitting(files: Files, clash: Clash, sides: Sides) -> bytes | None:
    """Return what becomes of a file that both sides have; None when it does not fit, or is no file."""
    if clash.mine[0] not in _FILES or clash.agent[0] not in _FILES or clash.base[0] not in (0, *_FILES):
        return None
    assert sides.mine is not None  # noqa: S101  (as its mode says)
    assert sides.agent is not None  # noqa: S101
    made = combined(sides.base or b"", sides.mine, sides.agent)
    if made is not None and (made != sides.agent or clash.mode != clash.agent[0]):
        files.together.add(clash.path)
    return made


def _made(ground: Ground, files: Files, met: Met) -> Answer | None:
    """Return what fits, else how the conflict is settled; None where it is not yet."""
    fitting = _fitting(files, met.clash, met.sides)
    answer = ground.answers.get(met.clash) if fitting is None else fitting
    if answer is None:
        files.conflicts.append(Left(Key(0, met.clash.path), met.why))
        files.met.append(met)
    return answer


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
    if is_there:
        return
    landed = _landed(ground, one, new) if new != NOTHING else None
    is_folder = now is not None and now.type is FileType.DIRECTORY
    how = (
        (landed, new[0])
        if is_ours or is_folder
        else _in_the_way(ground, files, one, now, Sides(_before(ground, one), data, landed))
    )
    if how is None:
        return
    landed, mode = how
    if landed is not None:
        _folders(ground, files, one.path, folders)
        _put(ground, files, one, now, (landed, mode))
    elif now is not None:
        _gone(files, ground, key, now)


def _before(ground: Ground, one: TreeChange) -> bytes | None:
    """Return the bytes that the user's file had as it was committed."""
    if not one.old_mode:
        return None
    text = ground.texts[one.old]
    return text if one.old_mode == SYMLINK else smudged(text, ground.conversions.get(one.path, Conversion.NONE))


def _in_the_way(
    ground: Ground, files: Files, one: TreeChange, now: Entry | None, sides: Sides
) -> tuple[bytes | None, int] | None:
    """Return what becomes of a path that the user has changed and not committed: bytes (None: it goes) and mode.

    None where the user's stays: that was answered, or nothing was yet.
    """
    if now is not None and sides.mine is None:
        files.conflicts.append(Left(Key(0, one.path), _YOURS))  # a pipe, or too large to be shown
        return None
    base, mine, agent = (
        (mode, blob_id(data, is_sha256=ground.place.is_sha256)) if data is not None else NOTHING
        for mode, data in (
            (one.old_mode, sides.base),
            (tree_mode(now) if now is not None else 0, sides.mine),
            (one.new_mode, sides.agent),
        )
    )
    clash = Clash(one.path, base, mine, agent)
    why = _GONE if now is None else _KEPT if agent == NOTHING else _YOURS
    made = _made(ground, files, Met(clash, sides, why))
    if made is Side.MINE:
        _drop(ground, files, one.path, sides.agent)
        return None
    if made is None:
        return None
    return (made, clash.mode) if isinstance(made, bytes) else (sides.agent, one.new_mode)


def _drop(ground: Ground, files: Files, path: bytes, landed: bytes | None) -> None:
    """Let a change leave the session whose commit comes home, and whose file the user does not want."""
    key, change = Key(0, path), ground.tree.changes.get(path)
    if change is not None and ground.tree.at(path)[1] == landed:
        files.changes[key] = replace(change, conflict=None, is_merged=True, is_dropped=True)
        files.dropped.append(key)


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


def _gone(files: Files, ground: Ground, key: Key, now: Entry) -> None:
    files.steps.append(merge.Remove(key, now))
    change = ground.tree.changes.get(key.path)
    if change is None or change.kind is not Kind.DELETED:
        files.changes[key] = Change(key, Kind.DELETED, now, None, is_apart=True)
    elif change.conflict is None:
        files.changes[key] = change
    else:
        files.changes[key] = replace(change, conflict=None, is_merged=True, mine=now)


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


def _put(ground: Ground, files: Files, one: TreeChange, now: Entry | None, how: tuple[bytes, int]) -> None:
    key, (landed, mode) = Key(0, one.path), how
    after = _entry(ground, mode, now, landed)
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


def _entry(ground: Ground, tree_bits: int, now: Entry | None, landed: bytes) -> Entry:
    if tree_bits == SYMLINK:
        return Entry(FileType.SYMLINK, 0o777, len(landed), target=landed)
    is_executable = tree_bits == 0o100755
    if now is not None and now.type is FileType.FILE:
        mode = now.mode & 0o777
        mode = mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111
        return Entry(FileType.FILE, mode, len(landed), attributes=now.attributes)
    return Entry(FileType.FILE, (0o777 if is_executable else 0o666) & ~ground.umask, len(landed))
