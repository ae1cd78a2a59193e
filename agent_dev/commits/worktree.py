"""Update of the work tree and the index when commits of the agent move the checked-out branch."""

import os

from agent_dev.commits.import_plan import (
    FILE_MODES,
    FilePlan,
    ImportInputs,
    find_lfs_pointer,
    has_changed_since_start,
    make_entry,
    make_file_bytes,
    matches_blob,
    matches_raw_blob,
)
from agent_dev.commits.merge_conflicts import ConflictDetails
from agent_dev.commits.report import GITLINK, git_mode
from agent_dev.commits.targets import merge_texts
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs import case_folding
from agent_dev.fs.entry import Entry, FileType, Key, parents_of
from agent_dev.git.blobs import batches_of, read_blobs
from agent_dev.git.conversion import NO_CONVERSION
from agent_dev.git.formats.commit_format import TreeChange
from agent_dev.git.formats.lfs_pointer import LfsPointer
from agent_dev.git.formats.packed_blobs import Blob
from agent_dev.git.merge_tree_conflict import ConflictResolution, PathConflict
from agent_dev.git.object_id import blob_id
from agent_dev.git.updates import NO_ENTRY, IndexUpdate
from agent_dev.git.user_index import UserIndexEntry as IndexEntry
from agent_dev.merge.reconcile import ThreeVersions
from agent_dev.merge.review import MAX_DIFF_SIZE, entries_at
from agent_dev.merge_engine import lfs_objects, merge_plan
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.overlay.case_collisions import collision_reason
from agent_dev.overlay.changes import Change, ChangeKind, Resolution
from agent_dev.quick_dataclass import replace

_SLICE = 10_000  # changes that are planned with their blobs at hand: those of 100,000 need 40 MB
_STAGED_CONFLICT = "your staged changes conflict with the commits"
_UNCOMMITTED_CONFLICT = "your uncommitted changes conflict with the commits"
_DELETED_CONFLICT = "you deleted it, the commits change it"
_CHANGED_CONFLICT = "you changed it, the commits delete it"


def _resolution(inputs: ImportInputs, path: bytes, current: Entry | None) -> Resolution | None:
    return Resolution.BOTH if has_changed_since_start(inputs, path, current) else None


def plan_worktree(inputs: ImportInputs, changes: tuple[TreeChange, ...]) -> FilePlan:
    """Plan the update of each path that differs between two commits. Raises CommandFailed."""
    files = FilePlan(inputs.root, case_collisions=_case_collisions(inputs, changes))
    folders: set[bytes] = set()
    for start in range(0, len(changes), _SLICE):
        some = changes[start : start + _SLICE]
        blob_ids = (oid for change in some for mode, oid in _sides(change) if mode and mode != GITLINK)
        inputs.blobs = batches_of(inputs.repo, blob_ids)
        for change in some:
            _plan_change(inputs, files, change, folders)
    return files


def _case_collisions(inputs: ImportInputs, changes: tuple[TreeChange, ...]) -> list[SkippedChange]:
    real = inputs.review.real_trees[inputs.root]
    added_or_deleted = [change.path for change in changes if NO_ENTRY in _sides(change)]
    now = entries_at(real, added_or_deleted)
    collisions = case_folding.case_collisions(real, now, inputs.tree.base.existing(now))
    return [
        SkippedChange(Key(inputs.root, path), why) for path in added_or_deleted if (why := collision_reason(path, collisions))
    ]


def _plan_change(inputs: ImportInputs, files: FilePlan, change: TreeChange, folders: set[bytes]) -> None:
    entry = inputs.index.get(change.path)
    _plan_index(inputs, files, change, entry)
    if (entry is not None and entry.is_skip_worktree) or _is_staged(change, entry):
        return
    if GITLINK in (change.old_mode, change.new_mode):
        _plan_submodule(inputs, files, change, folders)
    else:
        _plan_file(inputs, files, change, folders)


def _is_staged(change: TreeChange, entry: IndexEntry | None) -> bool:
    """Return whether the index has the commits' version of a path already: the file is what was edited since (git-read-tree)."""
    old, new = _sides(change)
    is_merged = entry is None or not entry.is_unmerged
    return is_merged and old != new and (entry.blob if entry is not None else NO_ENTRY) == new


def _sides(change: TreeChange) -> tuple[tuple[int, str], tuple[int, str]]:
    old = (change.old_mode, change.old_oid) if change.old_mode else NO_ENTRY
    return old, (change.new_mode, change.new_oid) if change.new_mode else NO_ENTRY


# The index


def _plan_index(inputs: ImportInputs, files: FilePlan, change: TreeChange, entry: IndexEntry | None) -> None:
    old, new = _sides(change)
    current = entry.blob if entry is not None else NO_ENTRY
    if current == new:
        return
    if entry is not None and entry.is_unmerged:
        files.conflicts.append(SkippedChange(Key(inputs.root, change.path), "it is unmerged in your index"))
        return
    if current == old:
        files.index_updates.append(IndexUpdate(inputs.key(change.path).path, current, new))
        return
    side = _resolve_staged(inputs, files, change, current)
    if side not in (None, current):
        files.index_updates.append(IndexUpdate(change.path, current, side))


def _resolve_staged(inputs: ImportInputs, files: FilePlan, change: TreeChange, current: Blob) -> Blob | None:
    """Return the new index entry of a path with staged changes; None if the staged one stays, for now or after a conflict."""
    old, new = _sides(change)
    modes = {current[0], old[0], new[0]}
    if GITLINK in modes and not modes <= {GITLINK, NO_ENTRY[0]}:
        files.conflicts.append(SkippedChange(Key(inputs.root, change.path), _STAGED_CONFLICT))
        return None
    yours = read_blobs(inputs.repo, [current[1]])[current[1]] if current != NO_ENTRY and current[0] != GITLINK else None
    conflict, sides = (
        PathConflict(change.path, old, current, new),
        ThreeVersions(inputs.blobs.get(old[1]), yours, inputs.blobs.get(new[1])),
    )
    merged = _merge_or_resolve(inputs, files, ConflictDetails(conflict, sides, _STAGED_CONFLICT))
    if merged is None or merged is ConflictSide.YOURS:
        return None
    if not isinstance(merged, bytes) or (merged == sides.agent and conflict.mode == new[0]):
        return new
    files.new_blobs.append(merged)
    return conflict.mode, inputs.repo.check_output("hash-object", "-w", "--stdin", stdin=merged).decode("ascii").strip()


def _merge_texts(files: FilePlan, conflict: PathConflict, sides: ThreeVersions) -> bytes | None:
    """Return the merge of a file that both sides have; None for a conflict, or if it is not a file."""
    if conflict.yours[0] not in FILE_MODES or conflict.agent[0] not in FILE_MODES or conflict.base[0] not in (0, *FILE_MODES):
        return None
    assert sides.yours is not None  # noqa: S101  (as its mode says)
    assert sides.agent is not None  # noqa: S101
    merged = merge_texts(sides.base or b"", sides.yours, sides.agent)
    if merged is not None and (merged != sides.agent or conflict.mode != conflict.agent[0]):
        files.merged_paths.add(conflict.path)
    return merged


def _merge_or_resolve(inputs: ImportInputs, files: FilePlan, details: ConflictDetails) -> ConflictResolution | None:
    """Return the merge, else the conflict's resolution; None if it has none yet."""
    merged = _merge_texts(files, details.conflict, details.sides)
    resolution = inputs.resolutions.get(details.conflict) if merged is None else merged
    if resolution is None:
        files.conflicts.append(SkippedChange(Key(inputs.root, details.conflict.path), details.reason))
        files.resolvable.append(details)
    return resolution


# The work tree


def _plan_submodule(inputs: ImportInputs, files: FilePlan, change: TreeChange, folders: set[bytes]) -> None:
    """Plan the directory of a submodule that is added or deleted; a checked-out submodule stays, as in git."""
    real, key = inputs.review.real_trees[inputs.root], Key(inputs.root, change.path)
    current = real.entry_at(change.path)
    is_folder = current is not None and current.type is FileType.DIRECTORY
    if change.new_mode == GITLINK:
        if change.old_mode not in (0, GITLINK):
            _plan_file(inputs, files, change.with_values(new_mode=0, new_oid=inputs.repo.null_id), folders)
        if not is_folder and (current is None or change.old_mode):
            _plan_folders(inputs, files, change.path, folders)
            files.steps.append(merge_plan.MakeDirectory(key, 0o777 & ~inputs.umask))
    elif current is None or (is_folder and not os.listdir(f"/proc/self/fd/{real.directory(change.path)}")):
        if change.new_mode:
            _plan_file(inputs, files, change.with_values(old_mode=0, old_oid=inputs.repo.null_id), folders)
        else:
            files.emptied_folders.append(change.path)
    elif change.new_mode:
        files.conflicts.append(SkippedChange(key, "a submodule is checked out here, and the commits replace it"))


def _plan_file(inputs: ImportInputs, files: FilePlan, change: TreeChange, folders: set[bytes]) -> None:
    old, new = _sides(change)
    key, current = inputs.key(change.path), inputs.current(change.path)
    data = _current_bytes(inputs, change.path, current)
    if current is None or (current.type is FileType.DIRECTORY and new == NO_ENTRY):
        is_up_to_date = new == NO_ENTRY
        is_unmodified = old == NO_ENTRY
    else:
        is_up_to_date = new != NO_ENTRY and matches_blob(inputs, change.path, current, data, new)
        is_unmodified = old != NO_ENTRY and matches_blob(inputs, change.path, current, data, old)
        is_unmodified = is_unmodified or any(matches_raw_blob(inputs, current, data, side) for side in (old, new))
    if is_up_to_date:
        return
    is_folder = current is not None and current.type is FileType.DIRECTORY
    lfs = find_lfs_pointer(inputs, change.path, new)
    if lfs is not None and _plan_lfs(inputs, files, change, (current, lfs), folders, is_free=is_unmodified or is_folder):
        return
    new_data = make_file_bytes(inputs, change.path, new)
    if new_data is None and new != NO_ENTRY:
        _leave_unchanged(inputs, files, change, is_free=is_unmodified or is_folder)
        return
    result = (
        (new_data, new[0])
        if is_unmodified or is_folder
        else _resolve_uncommitted(inputs, files, change, current, ThreeVersions(_committed_bytes(inputs, change), data, new_data))
    )
    if result is None:
        return
    new_data, mode = result
    if new_data is not None:
        _plan_folders(inputs, files, change.path, folders)
        _plan_write(inputs, files, change, current, (new_data, mode))
    elif current is not None:
        _plan_deletion(files, inputs, key, current)


def _committed_bytes(inputs: ImportInputs, change: TreeChange) -> bytes | None:
    """Return the committed bytes of the user's file."""
    if not change.old_mode:
        return None
    return make_file_bytes(inputs, change.path, (change.old_mode, change.old_oid))


def _resolve_uncommitted(
    inputs: ImportInputs, files: FilePlan, change: TreeChange, current: Entry | None, sides: ThreeVersions
) -> tuple[bytes | None, int] | None:
    """Return the new bytes (None: delete) and mode of a path with uncommitted changes.

    None if the user's version stays, by its resolution or for lack of one.
    """
    if current is not None and sides.yours is None:
        files.conflicts.append(
            SkippedChange(Key(inputs.root, change.path), _UNCOMMITTED_CONFLICT)
        )  # a pipe, or too large to show
        return None
    base, yours, agent = (
        (mode, blob_id(data, is_sha256=inputs.repo.is_sha256)) if data is not None else NO_ENTRY
        for mode, data in (
            (change.old_mode, sides.base),
            (git_mode(current) if current is not None else 0, sides.yours),
            (change.new_mode, sides.agent),
        )
    )
    conflict = PathConflict(change.path, base, yours, agent)
    message = _DELETED_CONFLICT if current is None else _CHANGED_CONFLICT if agent == NO_ENTRY else _UNCOMMITTED_CONFLICT
    merged = _merge_or_resolve(inputs, files, ConflictDetails(conflict, sides, message))
    if merged is ConflictSide.YOURS:
        _drop_change(inputs, files, change.path, sides.agent)
        return None
    if merged is None:
        return None
    return (merged, conflict.mode) if isinstance(merged, bytes) else (sides.agent, change.new_mode)


def _drop_change(inputs: ImportInputs, files: FilePlan, path: bytes, new_data: bytes | None) -> None:
    """Remove a change from the session if its commit is imported but the user keeps another version of the file."""
    key, change = Key(inputs.root, path), inputs.tree.change_at(path)
    if change is not None and inputs.tree.read_current(path)[1] == new_data:
        files.changes[key] = replace(change, conflict=None, resolution=Resolution.YOURS)
        files.dropped.append(key)


def _current_bytes(inputs: ImportInputs, path: bytes, current: Entry | None) -> bytes | None:
    if current is None or current.type not in (FileType.FILE, FileType.SYMLINK):
        return None
    return current.target if current.type is FileType.SYMLINK else inputs.review.real_trees[inputs.root].read(path, MAX_DIFF_SIZE)


def _leave_unchanged(inputs: ImportInputs, files: FilePlan, change: TreeChange, *, is_free: bool) -> None:
    """Leave a path unchanged whose bytes only a filter program can produce; uncommitted changes are a conflict."""
    if not is_free:
        files.conflicts.append(SkippedChange(Key(inputs.root, change.path), _UNCOMMITTED_CONFLICT))
        return
    conversion = inputs.conversions.get(change.path, NO_CONVERSION)
    problem = (
        f"the git filter {conversion.filter_driver!r} is not run"
        if conversion.filter_driver
        else f"the encoding {conversion.encoding!r} is not supported"
    )
    files.not_updated.append(SkippedChange(Key(inputs.root, change.path), f"{problem}; update it with git checkout -- PATH"))


def _plan_lfs(
    inputs: ImportInputs,
    files: FilePlan,
    file_change: TreeChange,
    target: tuple[Entry | None, LfsPointer],
    folders: set[bytes],
    *,
    is_free: bool,
) -> bool:
    """Plan the update of a path with an LFS content; return False if only the pointer is available."""
    (current, lfs), key = target, Key(inputs.root, file_change.path)
    is_plain = b"\next-" not in inputs.blobs[file_change.new_oid]  # else programs of git-lfs's configuration convert it
    source = inputs.lfs_contents.find(lfs, file_change.path) if is_plain and inputs.lfs_contents is not None else None
    if source is None:
        files.not_updated.append(
            SkippedChange(key, "LFS content not found, only the pointer is written; fetch it with git lfs pull")
        )
        return False
    if not is_free:
        files.conflicts.append(SkippedChange(key, _UNCOMMITTED_CONFLICT))
        return True
    is_only_there = source.folder == inputs.review.upper_trees[inputs.root].path
    if is_only_there:
        files.lfs_sources[lfs] = source
    _plan_folders(inputs, files, file_change.path, folders)
    after = make_entry(inputs, file_change.new_mode, current, b"").with_values(size=lfs.size)
    change = inputs.tree.change_at(file_change.path)
    session_source = merge_plan.ContentSource(
        inputs.review.upper_trees[inputs.root].path, file_change.path, lfs.oid, is_from_agent=True
    )
    is_from_session = (
        not is_only_there and change is not None and _is_alike(change, after) and lfs_objects.is_intact(session_source, lfs)
    )
    if is_from_session and change is not None and change.after is not None and change.after.mode & 0o777 == after.mode:
        files.changes[key] = Change(
            key, change.kind, change.before, change.after, resolution=_resolution(inputs, file_change.path, current)
        )
        files.steps.append(merge_plan.PutEntry(key, change.after, current))
        return True
    kind = ChangeKind.ADDED if current is None else ChangeKind.EDITED if current.type is after.type else ChangeKind.RETYPED
    files.changes[key] = Change(
        key, kind, current, after, resolution=_resolution(inputs, file_change.path, current), is_from_commit=True
    )
    files.steps.append(merge_plan.PutEntry(key, after, current, source=source))
    return True


def _plan_deletion(files: FilePlan, inputs: ImportInputs, key: Key, current: Entry) -> None:
    files.steps.append(merge_plan.RemoveEntry(key, current))
    change = inputs.tree.change_at(key.path)
    if change is None or change.kind is not ChangeKind.DELETED:
        files.changes[key] = Change(key, ChangeKind.DELETED, current, None, is_from_commit=True)
    elif change.conflict is None:
        files.changes[key] = change
    else:
        files.changes[key] = replace(change, conflict=None, resolution=Resolution.BOTH, yours=current)


def _plan_folders(inputs: ImportInputs, files: FilePlan, path: bytes, known: set[bytes]) -> None:
    for folder in parents_of(path):
        if folder in known:
            continue
        known.add(folder)
        current = inputs.review.real_trees[inputs.root].entry_at(folder, attributes=False)
        if current is None or current.type is not FileType.DIRECTORY:
            template = inputs.review.upper_trees[inputs.root].entry_at(folder, attributes=False)
            mode = (
                template.mode & 0o777 if template is not None and template.type is FileType.DIRECTORY else 0o777 & ~inputs.umask
            )
            files.steps.append(merge_plan.MakeDirectory(Key(inputs.root, folder), mode))


def _plan_write(
    inputs: ImportInputs, files: FilePlan, file_change: TreeChange, current: Entry | None, content: tuple[bytes, int]
) -> None:
    key, (new_data, mode) = inputs.key(file_change.path), content
    after = make_entry(inputs, mode, current, new_data)
    change = inputs.tree.change_at(file_change.path)
    if change is not None and not _is_alike(change, after):
        change = None
    resolution = _resolution(inputs, file_change.path, current)
    if change is None:
        kind = ChangeKind.ADDED if current is None else ChangeKind.EDITED if current.type is after.type else ChangeKind.RETYPED
        files.changes[key] = Change(key, kind, current, after, resolution=resolution, is_from_commit=True)
        files.steps.append(merge_plan.PutEntry(key, after, current, None if after.type is FileType.SYMLINK else new_data))
        return
    session_data = inputs.tree.read_current(file_change.path)[1]
    is_whole = session_data == new_data and change.after is not None and not (change.after.mode ^ after.mode) & 0o100
    planned = Change(
        key, change.kind, change.before, change.after, (), change.is_ignored, risks=change.risks, resolution=resolution
    )
    files.changes[key] = change if planned == change else planned  # 100,000 more need 17 MB
    if after.type is FileType.SYMLINK:
        files.steps.append(merge_plan.PutEntry(key, after, current))
    elif is_whole and change.after is not None and change.after.mode & 0o777 == after.mode:
        files.steps.append(merge_plan.PutEntry(key, change.after, current))
    else:
        data = None if is_whole else make_file_bytes(inputs, file_change.path, (file_change.new_mode, file_change.new_oid))
        part = None if data is None else merge_plan.RemainderBase(data, after.mode)
        files.steps.append(merge_plan.PutEntry(key, after, current, new_data, part))


def _is_alike(change: Change, after: Entry) -> bool:
    """Return whether the session's version differs from the imported one in nothing but bytes and mode."""
    own = change.after
    if own is None or own.type is not after.type or change.kind is ChangeKind.METADATA:
        return False
    return own.type is FileType.FILE or own.target == after.target
