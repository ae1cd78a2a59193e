"""Case collisions: names that are the same on a file system because they differ only in case or Unicode normalization."""

from collections.abc import Mapping

from agent_dev.fs.entry import parents_of
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.path_patterns import fold_path
from agent_dev.quick_dataclass import replace
from agent_dev.sanitize import visible


def with_collision_obstacle(change: Change, collisions: Mapping[str, tuple[bytes, ...]]) -> Change:
    """Return a change with an obstacle if its path, or a directory above it, has a case collision on this disk.

    `collisions`: the names that the disk treats as the same, by folded name. An edited file keeps its name, so it is never
    blocked.
    """
    if change.kind in (ChangeKind.EDITED, ChangeKind.METADATA) or change.obstacle:
        return change
    why = collision_reason(change.key.path, collisions)
    return replace(change, obstacle=why) if why else change


def collision_reason(path: bytes, collisions: Mapping[str, tuple[bytes, ...]]) -> str:
    """Return why nothing can be created or deleted at a path because of a case collision, or ""."""
    for one in (*parents_of(path), path):
        others = [other for other in collisions.get(fold_path(one), ()) if other != one]
        if others:
            return f"{visible(one)} and {visible(others[0])} are the same name on this disk"
    return ""
