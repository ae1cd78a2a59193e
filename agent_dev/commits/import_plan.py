"""The plan of an import: its inputs, the changes to the work tree, and the bytes of a blob there."""

import os
from collections.abc import Mapping

from agent_dev.commits.lfs_contents import LfsContentFinder
from agent_dev.commits.merge_conflicts import ConflictDetails
from agent_dev.commits.report import SYMLINK, OverlayView, git_mode, is_same_blob
from agent_dev.fs.entry import Entry, FileType, Key, parents_of
from agent_dev.git.bare import BareRepository
from agent_dev.git.conversion import NO_CONVERSION, Conversion, smudge
from agent_dev.git.formats import lfs_pointer as pointing
from agent_dev.git.formats.packed_blobs import Blob
from agent_dev.git.merge_tree_conflict import ConflictResolutions
from agent_dev.git.updates import NO_ENTRY, IndexUpdate
from agent_dev.git.user_index import UserIndexEntry as IndexEntry
from agent_dev.merge.review import Review
from agent_dev.merge_engine import lfs_objects, merge_plan
from agent_dev.merge_engine.merge_plan import MergePlan, SkippedChange, Step
from agent_dev.overlay.changes import Change
from agent_dev.quick_dataclass import dataclass, field

FILE_MODES = (0o100644, 0o100755)


@dataclass(frozen=True, slots=True)
class IndexStat:
    """The stat data by which an index identifies a file. Times in ns; the inode is cut to 32 bits, as git does."""

    size: int
    inode: int
    mtime: int
    ctime: int

    def matches(self, current: Entry) -> bool:
        """Return whether the entry has this stat data."""
        return (self.size, self.inode, self.mtime, self.ctime) == (
            current.size,
            current.inode & 0xFFFFFFFF,
            current.mtime,
            current.ctime,
        )


@dataclass(slots=True)
class ImportInputs:
    """Inputs of a plan: the session, the number of the root, the quarantine, the index, and conversions on checkout.

    `resolutions`: resolutions of conflicts between the commits and the user's uncommitted changes.
    """

    review: Review
    root: int
    repo: BareRepository
    index: Mapping[bytes, IndexEntry]
    conversions: Mapping[bytes, Conversion]
    clean_entries: Mapping[bytes, IndexStat] = field(default_factory=dict)  # clean entries of the index
    resolutions: ConflictResolutions = field(default_factory=dict)
    lfs_contents: LfsContentFinder | None = None  # of Git LFS
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    tree: OverlayView = field(init=False)
    umask: int = field(init=False)

    def __post_init__(self) -> None:
        self.tree = OverlayView(self.review, self.root)
        self.umask = os.umask(0o022)
        os.umask(self.umask)

    def key(self, path: bytes) -> Key:
        """Return the key of a path: the one of the session's change there, since 100,000 more need 13 MB."""
        change = self.tree.change_at(path)
        return change.key if change is not None else Key(self.root, path)

    def current(self, path: bytes) -> Entry | None:
        """Return the real tree's entry: for an unchanged path, that of the session's change, since 100,000 more need 9 MB."""
        found, change = self.review.real_trees[self.root].entry_at(path), self.tree.change_at(path)
        return change.before if change is not None and change.before == found else found


@dataclass(slots=True)
class FilePlan:
    """The steps in the real tree of a root, their changes by key, the index updates, and the conflicts.

    `resolvable`: conflicts that can be resolved. `merged_paths`: paths where uncommitted changes were merged with the commits.
    `dropped`: changes that are only removed from the session, because the user's version stays.
    `case_collisions`: names that collide on this disk. `not_updated`: paths whose committed content cannot be created here.
    `lfs_sources`: LFS contents that only the agent's work tree has. `emptied_folders`: empty directories to remove.
    """

    root: int
    steps: list[Step] = field(default_factory=list)
    changes: dict[Key, Change] = field(default_factory=dict)
    index_updates: list[IndexUpdate] = field(default_factory=list)
    conflicts: list[SkippedChange] = field(default_factory=list)
    resolvable: list[ConflictDetails] = field(default_factory=list)
    merged_paths: set[bytes] = field(default_factory=set)
    dropped: list[Key] = field(default_factory=list)
    new_blobs: list[bytes] = field(default_factory=list)
    case_collisions: list[SkippedChange] = field(default_factory=list)
    not_updated: list[SkippedChange] = field(default_factory=list)
    lfs_sources: dict[pointing.LfsPointer, merge_plan.ContentSource] = field(default_factory=dict)
    emptied_folders: list[bytes] = field(default_factory=list)

    def take_merge_plan(self) -> MergePlan:
        """Return the steps in order of execution, and drop them here: a merge frees the memory of those that it has staged."""
        removals = [step for step in self.steps if isinstance(step, merge_plan.RemoveEntry)]
        removals.sort(key=lambda step: (-step.key.path.count(b"/"), step.key.path))
        created = [step for step in self.steps if isinstance(step, (merge_plan.MakeDirectory, merge_plan.PutEntry))]
        folders = {folder for step in removals for folder in parents_of(step.key.path)}
        folders |= {folder for path in self.emptied_folders for folder in (path, *parents_of(path))}
        needed = {folder for step in created for folder in parents_of(step.key.path)} | {step.key.path for step in created}
        prunes = [
            merge_plan.PruneDirectory(Key(self.root, folder))
            for folder in sorted(folders - needed, key=lambda path: -path.count(b"/"))
        ]
        self.steps = []
        return MergePlan([*removals, *prunes, *created], tuple(self.changes), (), tuple(self.conflicts), tuple(self.dropped))


def matches_blob(inputs: ImportInputs, path: bytes, current: Entry, data: bytes | None, side: Blob) -> bool:
    """Return whether a file holds a tree's blob, by git's rules; if only a filter program could tell, by the index."""
    if current.type not in (FileType.FILE, FileType.SYMLINK):
        return False
    if inputs.conversions.get(path, NO_CONVERSION).is_simple:
        return data is not None and is_same_blob(current, data, side, is_sha256=inputs.repo.is_sha256)
    if path in inputs.clean_entries and inputs.clean_entries[path].matches(current) and inputs.index[path].blob == side:
        return True
    if git_mode(current) != side[0]:
        return False
    large = find_lfs_pointer(inputs, path, side)
    if large is not None and current.type is FileType.FILE:
        return lfs_objects.is_intact(merge_plan.ContentSource(inputs.review.real_trees[inputs.root].path, path, large.oid), large)
    expected = make_file_bytes(inputs, path, side)
    return expected is not None and data == expected


def matches_raw_blob(inputs: ImportInputs, current: Entry, data: bytes | None, side: Blob) -> bool:
    """Return whether a file holds an unconverted blob: these commits may have added the attributes that convert it."""
    return side != NO_ENTRY and data is not None and is_same_blob(current, data, side, is_sha256=inputs.repo.is_sha256)


def make_file_bytes(inputs: ImportInputs, path: bytes, side: Blob) -> bytes | None:
    """Return a blob's bytes at a path (for an LFS pointer, the pointer); None if only a program can produce them."""
    if side == NO_ENTRY or side[0] == SYMLINK:
        return inputs.blobs.get(side[1])
    steps = inputs.conversions.get(path, NO_CONVERSION)
    return smudge(inputs.blobs[side[1]], steps, is_sha256=inputs.repo.is_sha256)


def find_lfs_pointer(inputs: ImportInputs, path: bytes, side: Blob) -> pointing.LfsPointer | None:
    """Return a blob's LFS pointer at a path that Git LFS converts."""
    is_large = side[0] in FILE_MODES and inputs.conversions.get(path, NO_CONVERSION).is_lfs
    return pointing.parse_pointer(inputs.blobs[side[1]]) if is_large else None


def has_changed_since_start(inputs: ImportInputs, path: bytes, current: Entry | None) -> bool:
    """Return whether an existing path was replaced since the session started."""
    change = inputs.tree.change_at(path)
    base = change.before if change is not None else inputs.tree.base.get(path)
    return current is not None and base is not None and base.identity != current.identity


def make_entry(inputs: ImportInputs, tree_bits: int, current: Entry | None, data: bytes) -> Entry:
    """Return the new entry of a file or link, with a git tree's mode; an existing file keeps its other mode bits."""
    if tree_bits == SYMLINK:
        return Entry(FileType.SYMLINK, 0o777, len(data), target=data)
    is_executable = tree_bits == 0o100755
    if current is not None and current.type is FileType.FILE:
        mode = current.mode & 0o777
        mode = mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111
        return Entry(FileType.FILE, mode, len(data), attributes=current.attributes)
    return Entry(FileType.FILE, (0o777 if is_executable else 0o666) & ~inputs.umask, len(data))
