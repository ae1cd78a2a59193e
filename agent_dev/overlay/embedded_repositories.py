"""Repositories that an agent made inside a root, such as clones and work trees: which changes belong to one."""

from collections.abc import Iterable

from agent_dev.overlay.changes import Change, Kind, parents_of
from agent_dev.overlay.interpret import GIT

_BARE = (b"HEAD", b"objects", b"refs")  # what git takes for a git dir (setup.c, is_git_directory)


def repositories(changes: Iterable[Change]) -> frozenset[bytes]:
    """Return the directories that became repositories, with a `.git` or bare; the root itself is none."""
    added = {change.key.path for change in changes if change.kind is Kind.ADDED}
    with_git = {path.rpartition(b"/")[0] for path in added if path.rpartition(b"/")[2].lower() == GIT}
    heads = {path.rpartition(b"/")[0] for path in added if path.endswith(b"/" + _BARE[0])}
    if heads:
        folders = added.union(*(parents_of(path) for path in added))
        heads = {head for head in heads if all(head + b"/" + name in folders for name in _BARE)}
    return frozenset((with_git | heads) - {b""})


def is_in(path: bytes, found: frozenset[bytes]) -> bool:
    """Whether a path lies in one of them."""
    return bool(found) and (path in found or not found.isdisjoint(parents_of(path)))
