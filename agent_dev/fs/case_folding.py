"""Detect a case-insensitive file system from existing names, without creating files."""

import os
from collections.abc import Container, Iterable, Mapping

from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import Entry, FileType, parents_of
from agent_dev.path_patterns import fold_path


def case_collisions(tree: Tree, entries: Mapping[bytes, Entry | None], known: Container[bytes]) -> dict[str, tuple[bytes, ...]]:
    """Return which of some paths, given with their current entries, collide on this file system, by folded name.

    `known`: paths that already existed under exactly that name; they are not looked up.
    """
    others = other_spellings(tree, [path for path, entry in entries.items() if entry and path not in known])
    found = possible_collisions((*entries, *(others - entries.keys())))
    folders = {paths[0].rpartition(b"/")[0] for paths in found.values()}  # few, even for thousands of pairs
    insensitive = {folder for folder in folders if is_case_insensitive(tree, folder)}
    return {
        name: paths
        for name, paths in found.items()
        if not others.isdisjoint(paths) or paths[0].rpartition(b"/")[0] in insensitive
    }


def is_case_insensitive(tree: Tree, folder: bytes) -> bool:
    """Return whether a directory of a tree is case-insensitive, judged by a name in it or above it."""
    for path in (*reversed(parents_of(folder + b"/")), b""):
        found = tree.entry_at(path) if path else None
        answer = _by_names(tree, path) if not path or (found and found.type is FileType.DIRECTORY) else None
        if answer is not None:
            return answer
    return _by_own_name(os.fsencode(tree.path))


def _by_names(tree: Tree, folder: bytes) -> bool | None:
    names = set(_names(tree, folder))
    for name in names:
        other = name.swapcase()
        if other not in names:
            return _is_one(name, other, tree.directory(folder))
    return None


def _by_own_name(path: bytes) -> bool:
    above, _, name = os.path.realpath(path).rpartition(b"/")
    folder = os.open(above or b"/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return name.swapcase() != name and _is_one(name, name.swapcase(), folder)
    finally:
        os.close(folder)


def _is_one(name: bytes, other: bytes, folder: int) -> bool:
    try:
        one, two = (os.stat(each, dir_fd=folder, follow_symlinks=False) for each in (name, other))
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


def other_spellings(tree: Tree, paths: Iterable[bytes]) -> set[bytes]:
    """Return the existing paths that some of the given paths only spell differently."""
    inside: dict[bytes, set[bytes]] = {}
    found = set()
    for path in paths:
        folder, _, name = path.rpartition(b"/")
        names = inside.get(folder)
        if names is None:
            names = inside[folder] = set(_names(tree, folder))
        if name not in names:
            found |= {b"/".join((folder, one)) if folder else one for one in names if fold_path(one) == fold_path(name)}
    return found


def _names(tree: Tree, folder: bytes) -> list[bytes]:
    try:
        fd = os.open(f"/proc/self/fd/{tree.directory(folder)}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return []  # its content is unknown
    try:
        return [os.fsencode(name) for name in os.listdir(fd)]
    finally:
        os.close(fd)


def possible_collisions(paths: Iterable[bytes]) -> dict[str, tuple[bytes, ...]]:
    """Return the paths that a case-insensitive file system may treat as one, by folded name; each path is given once."""
    every = tuple(paths)
    if b"".join(every).isascii() and len({path.lower() for path in every}) == len(every):
        return {}  # the common case, and much faster
    found: dict[str, bytes] = {}
    collisions: dict[str, tuple[bytes, ...]] = {}
    for path in every:
        folded = fold_path(path)
        first = found.setdefault(folded, path)
        if first != path:
            collisions[folded] = (*collisions.get(folded, (first,)), path)
    return collisions
