"""Whether a disk takes names that differ in case for one: looked at, never tried by making something."""

import os
from collections.abc import Container, Iterable, Mapping

from agent_dev.fs.dir_tree import Tree
from agent_dev.overlay.case_collisions import among
from agent_dev.overlay.changes import Entry, FileType, parents_of
from agent_dev.path_patterns import fold


def twins(tree: Tree, standing: Mapping[bytes, Entry | None], known: Container[bytes]) -> dict[str, tuple[bytes, ...]]:
    """Return by folded name what the disk takes for one, of some paths and what stands there.

    `known`: what stood there before by that very name, and is not looked up.
    """
    others = other_names(tree, [path for path, entry in standing.items() if entry and path not in known])
    found = among((*standing, *(others - standing.keys())))
    folders = {paths[0].rpartition(b"/")[0] for paths in found.values()}  # few, where there may be thousands of pairs
    folds = {folder for folder in folders if is_folding(tree, folder)}
    return {name: paths for name, paths in found.items() if not others.isdisjoint(paths) or paths[0].rpartition(b"/")[0] in folds}


def is_folding(tree: Tree, folder: bytes) -> bool:
    """Whether a directory below a tree takes `a` for `A`, by a name in it, in one above it, or by the tree's own."""
    for place in (*reversed(parents_of(folder + b"/")), b""):
        found = tree.look(place) if place else None
        told = _by_names(tree.folder(place)) if not place or (found and found.type is FileType.DIRECTORY) else None
        if told is not None:
            return told
    return _by_own_name(os.fsencode(tree.path))


def _by_names(folder: int) -> bool | None:
    names = set(_names(folder))
    for name in names:
        other = name.swapcase()
        if other not in names:
            return _is_one(name, other, folder)
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


def other_names(tree: Tree, paths: Iterable[bytes]) -> set[bytes]:
    """Return the paths by which directories have what stands at some paths, where those are other spellings of them."""
    inside: dict[bytes, set[bytes]] = {}
    found = set()
    for path in paths:
        folder, _, name = path.rpartition(b"/")
        names = inside.get(folder)
        if names is None:
            names = inside[folder] = set(_names(tree.folder(folder)))
        if name not in names:
            found |= {b"/".join((folder, one)) if folder else one for one in names if fold(one) == fold(name)}
    return found


def _names(folder: int) -> list[bytes]:
    try:
        fd = os.open(f"/proc/self/fd/{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return []  # what is in it is not known
    try:
        return [os.fsencode(name) for name in os.listdir(fd)]
    finally:
        os.close(fd)
