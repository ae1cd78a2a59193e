"""Names that a disk may take for one: they differ only in case, or in how their letters are put together."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agent_dev.overlay.changes import Change, Kind, parents_of
from agent_dev.path_patterns import fold
from agent_dev.sanitize import visible


def among(paths: Iterable[bytes]) -> dict[str, tuple[bytes, ...]]:
    """Return by their folded name the paths, each given once, that a disk could take for one another."""
    every = tuple(paths)
    if b"".join(every).isascii() and len({path.lower() for path in every}) == len(every):
        return {}  # nearly always, and many times as fast
    found: dict[str, bytes] = {}
    twins: dict[str, tuple[bytes, ...]] = {}
    for path in every:
        folded = fold(path)
        first = found.setdefault(folded, path)
        if first != path:
            twins[folded] = (*twins.get(folded, (first,)), path)
    return twins


def refused(change: Change, twins: Mapping[str, tuple[bytes, ...]]) -> Change:
    """Return a change with an obstacle where what it makes or removes, or a directory above that, has a twin on this disk.

    `twins`: by folded name, what the disk takes for one. What is edited stays where it is, by whatever name.
    """
    if change.kind in (Kind.EDITED, Kind.METADATA) or change.obstacle:
        return change
    why = reason(change.key.path, twins)
    return replace(change, obstacle=why) if why else change


def reason(path: bytes, twins: Mapping[str, tuple[bytes, ...]]) -> str:
    """Return why nothing can come or go at a path: it, or a directory above it, has a twin on this disk; "" where none has."""
    for one in (*parents_of(path), path):
        others = [other for other in twins.get(fold(one), ()) if other != one]
        if others:
            return f"this disk takes {visible(one)} and {visible(others[0])} for one name"
    return ""
