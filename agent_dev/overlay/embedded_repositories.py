"""Embedded repositories: clones and work trees that an agent created inside a root, and the changes that belong to them."""

from collections.abc import Iterable

from agent_dev.fs.entry import parents_of
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.paths import GIT

_BARE = (b"HEAD", b"objects", b"refs")  # git's own test (setup.c, is_git_directory)


def find_repositories(changes: Iterable[Change]) -> frozenset[bytes]:
    """Return the directories that became repositories, bare or with a `.git`, without the root itself."""
    added = {change.key.path for change in changes if change.kind is ChangeKind.ADDED}
    with_git = {path.rpartition(b"/")[0] for path in added if path.rpartition(b"/")[2].lower() == GIT}
    heads = {path.rpartition(b"/")[0] for path in added if path.endswith(b"/" + _BARE[0])}
    if heads:
        folders = added.union(*(parents_of(path) for path in added))
        heads = {head for head in heads if all(head + b"/" + name in folders for name in _BARE)}
    return frozenset((with_git | heads) - {b""})


def is_inside(path: bytes, found: frozenset[bytes]) -> bool:
    """Return whether a path is in one of these repositories."""
    return bool(found) and (path in found or not found.isdisjoint(parents_of(path)))
