"""Uncommitted files of an agent: the differences between its last commit and its work tree, as patches for display."""

from collections.abc import Iterator, Sequence

from agent_dev.commits.prefetch import RunningQueries
from agent_dev.commits.report import GITLINK, SYMLINK, OverlayView, TreeBlob, list_tree
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git.blobs import read_blobs
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.patch_write import DISPLAY_FORMAT, change_patch
from agent_dev.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UncommittedFile:
    """A file that differs from the last commit. `is_change`: the session has a change of it, which can be applied."""

    path: bytes
    kind: ChangeKind
    patch: bytes
    is_change: bool


def read_uncommitted(review: Review, queries: RunningQueries, paths: Sequence[bytes]) -> Iterator[UncommittedFile]:
    """Yield uncommitted files with their patches against the last commit. Raises CommandFailed."""
    repo, tree = queries.repo, OverlayView(review, queries.source.root)
    committed = list_tree(repo, queries.head_commit, list(paths)) if queries.head_commit else {}
    sides = {path: committed.get(path) for path in paths}
    texts = read_blobs(repo, [side[1] for side in sides.values() if side is not None and side[0] != GITLINK])
    for path, side in sides.items():
        data = texts.get(side[1]) if side is not None else None
        before, (after, new_data) = _entry(side, data), tree.read_current(path)
        change = Change(Key(tree.root, path), _kind(before, after), before, after)
        patch = change_patch(change, path, data, new_data, DISPLAY_FORMAT)
        yield UncommittedFile(path, change.kind, patch, tree.change_at(path) is not None)


def _entry(side: TreeBlob, data: bytes | None) -> Entry | None:
    if side is None:
        return None
    size = len(data or b"")
    if side[0] == SYMLINK:
        return Entry(FileType.SYMLINK, 0o777, size, target=data or b"")
    return Entry(FileType.FILE, side[0] & 0o777, size)


def _kind(before: Entry | None, after: Entry | None) -> ChangeKind:
    if before is None:
        return ChangeKind.ADDED
    if after is None:
        return ChangeKind.DELETED
    return ChangeKind.EDITED if before.type is after.type else ChangeKind.RETYPED
