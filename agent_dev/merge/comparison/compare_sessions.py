"""Compare the results of two sessions of the same roots: what one would apply, and the other."""

from collections.abc import Iterator

from agent_dev.checkpoint.compare import PathDifference
from agent_dev.errors import UsageError
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.patch_write import MAX_SIDE_SIZE
from agent_dev.session import store

_Side = tuple[Entry | None, bytes | None]  # an entry and its content (a link's target); None if it does not exist or is unknown


def compare_sessions(before: Review, after: Review, keys: list[Key] | None = None) -> Iterator[PathDifference]:
    """Yield the differences from the result of one session to that of another. Raises UsageError.

    A path that only one session changed has its base version in the other. Paths that git ignores come last. `keys`: limits it
    to these paths and those below.
    """
    _require_same_roots(before, after)
    tables = before.changes.by_key(), after.changes.by_key()
    seen = {key for table in tables for key, change in table.items() if not change.is_ignored}
    for key in sorted({*tables[0], *tables[1]}, key=lambda key: (key not in seen, key.root, key.path)):
        if keys is None or any(_is_within(key, one) for one in keys):
            difference = _compare(key, (before, tables[0].get(key)), (after, tables[1].get(key)))
            if difference is not None:
                yield difference


def _require_same_roots(before: Review, after: Review) -> None:
    if before.record["roots"] != after.record["roots"]:
        names = [store.session_name(one.session) for one in (before, after)]
        raise UsageError(
            message=f"sessions {names[0]} and {names[1]} have different roots",
            hint="compare sessions of one repository, with the same --overlay",
        )


def _is_within(key: Key, folder: Key) -> bool:
    is_below = not folder.path or key.path == folder.path or key.path.startswith(folder.path + b"/")
    return key.root == folder.root and is_below


def _compare(key: Key, old: tuple[Review, Change | None], new: tuple[Review, Change | None]) -> PathDifference | None:
    """Return the difference at a path; None if both sessions have the same there."""
    before, after = _side(old, new), _side(new, old)
    kind = _kind(before, after)
    return None if kind is None else PathDifference(Change(key, kind, before[0], after[0]), before[1], after[1])


def _side(own: tuple[Review, Change | None], other: tuple[Review, Change | None]) -> _Side:
    """Return what a session has at a path: its change, or the base version of the other session's change."""
    (review, change), (other_review, other_change) = own, other
    if change is not None:
        return change.after, review.versions(change, MAX_SIDE_SIZE)[1]
    if other_change is None:
        return None, None
    return other_change.before, other_review.versions(other_change, MAX_SIDE_SIZE)[0]


def _kind(before: _Side, after: _Side) -> ChangeKind | None:
    (old, old_data), (new, new_data) = before, after
    if old is None or new is None:
        return None if old is new else ChangeKind.ADDED if old is None else ChangeKind.DELETED
    if old.type is not new.type:
        return ChangeKind.RETYPED
    if old.type in (FileType.FILE, FileType.SYMLINK) and _differs(old_data, new_data):
        return ChangeKind.EDITED
    is_same = (old.mode, old.attributes) == (new.mode, new.attributes) or old.type is FileType.SYMLINK
    return None if is_same else ChangeKind.METADATA


def _differs(old_data: bytes | None, new_data: bytes | None) -> bool:
    """Return whether contents differ; one that is too large or unknown counts as different."""
    return old_data is None or new_data is None or old_data != new_data
