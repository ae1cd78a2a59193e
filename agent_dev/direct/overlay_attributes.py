"""Overlay attributes `user.overlay.*` in a real tree, through which a later overlay would hide files."""

import os
import stat
from collections.abc import Iterable

from agent_dev.fs import durable, walk
from agent_dev.fs.dir_tree import Tree

_PREFIX = "user.overlay."

OverlayAttribute = tuple[str, str, str | None]  # (path below the root, "" for itself; name; value in hex, None if unreadable)


def find_attributes(root: str, *, skip: tuple[bytes, ...] = ()) -> frozenset[OverlayAttribute]:
    """Return the overlay attributes of a directory and everything below it. `skip`: top-level names. Raises OSError."""
    tree = Tree(root)
    try:
        names = [name.removeprefix(_PREFIX) for name in os.listxattr(tree.fd) if name.startswith(_PREFIX)]
        found = {("", name, _value(tree, b"", _PREFIX + name)) for name in names}
        for one in walk.walk(root, skip=skip):
            found.update((os.fsdecode(one.path), name, _value(tree, one.path, _PREFIX + name)) for name, _ in one.overlay)
        return frozenset(found)
    finally:
        tree.close()


def revert_attributes(root: str, before: Iterable[OverlayAttribute], *, skip: tuple[bytes, ...] = ()) -> None:
    """Remove attributes that did not exist before, and set changed ones to their former values, where permitted.

    Missing ones are not set: a restore sets them after it has restored their files. Raises OSError if the tree cannot be read.
    """
    values = {(path, name): value for path, name, value in before}
    tree = Tree(root)
    try:
        for path, name, value in sorted(find_attributes(root, skip=skip), key=lambda one: one[:2]):
            former = values.get((path, name))
            if (path, name) in values and (former is None or former == value):
                continue
            try:
                _set(tree, os.fsencode(path), _PREFIX + name, None if former is None else bytes.fromhex(former))
            except OSError:
                continue
    finally:
        tree.close()


def missing_attributes(root: str, before: Iterable[OverlayAttribute], *, skip: tuple[bytes, ...] = ()) -> list[OverlayAttribute]:
    """Return the attributes that existed before and are missing. Raises OSError."""
    now = {one[:2] for one in find_attributes(root, skip=skip)}
    return [one for one in before if one[:2] not in now]


def set_attributes(root: str, wanted: Iterable[OverlayAttribute]) -> list[OverlayAttribute]:
    """Set attributes; return those that cannot be set. Raises OSError if the root cannot be opened."""
    failed = []
    tree = Tree(root)
    try:
        for one in wanted:
            path, name, value = one
            try:
                _set(tree, os.fsencode(path), _PREFIX + name, bytes.fromhex(value or ""))
            except OSError:
                failed.append(one)
    finally:
        tree.close()
    return failed


def _place(tree: Tree, path: bytes) -> tuple[int, bytes, bytes]:
    """Return the directory and name of a path, and a path through the directory's descriptor that follows no symlink."""
    folder, _, name = path.rpartition(b"/")
    fd, name = tree.directory(folder), name or b"."
    return fd, name, b"/proc/self/fd/%d/%b" % (fd, name)


def _value(tree: Tree, path: bytes, name: str) -> str | None:
    try:
        return os.getxattr(_place(tree, path)[2], name, follow_symlinks=False).hex()
    except OSError:
        return None


def _set(tree: Tree, path: bytes, name: str, value: bytes | None) -> None:
    """Set an attribute, or remove it if `value` is None."""
    fd, base, path_by_fd = _place(tree, path)

    def act() -> None:
        if value is None:
            os.removexattr(path_by_fd, name, follow_symlinks=False)
        else:
            os.setxattr(path_by_fd, name, value, follow_symlinks=False)

    try:
        act()
    except PermissionError:  # the kernel requires write permission on the file
        mode = stat.S_IMODE(os.lstat(path_by_fd).st_mode)
        durable.chmod_at(base, fd, mode | stat.S_IWUSR)
        try:
            act()
        finally:
            durable.chmod_at(base, fd, mode)
