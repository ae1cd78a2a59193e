"""Overlay attributes `user.overlay.*` in a real tree, through which a later overlay would hide files."""

import os
import stat

from agent_dev.fs import durable, walk
from agent_dev.fs.dir_tree import Tree

_PREFIX = "user.overlay."

OverlayAttribute = tuple[str, str]  # (path below the root, attribute name)


def find_attributes(root: str, *, skip: tuple[bytes, ...] = ()) -> frozenset[OverlayAttribute]:
    """Return the overlay attributes below a directory. `skip`: top-level names."""
    found: set[OverlayAttribute] = set()
    for one in walk.walk(root, skip=skip):
        found.update((os.fsdecode(one.path), name) for name, _ in one.overlay)
    return frozenset(found)


def remove_attributes(root: str, marks: frozenset[OverlayAttribute]) -> None:
    """Remove attributes where permitted."""
    tree = Tree(root)
    try:
        for path, name in sorted(marks):
            try:
                _remove(tree, os.fsencode(path), _PREFIX + name)
            except OSError:
                continue
    finally:
        tree.close()


def _remove(tree: Tree, path: bytes, name: str) -> None:
    folder, _, base = path.rpartition(b"/")
    path_by_fd = b"/proc/self/fd/%d/%b" % (tree.directory(folder), base)
    try:
        os.removexattr(path_by_fd, name, follow_symlinks=False)
    except PermissionError:  # the kernel requires write permission on the file
        mode = stat.S_IMODE(os.lstat(path_by_fd).st_mode)
        durable.chmod_at(base, tree.directory(folder), mode | stat.S_IWUSR)
        try:
            os.removexattr(path_by_fd, name, follow_symlinks=False)
        finally:
            durable.chmod_at(base, tree.directory(folder), mode)
