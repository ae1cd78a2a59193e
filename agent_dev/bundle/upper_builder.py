"""Build the upper layer of an imported session from the checked rows of a manifest, by descriptors, without following links."""

import errno
import os
import shutil
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from agent_dev.bundle.manifest import require
from agent_dev.fs import durable
from agent_dev.fs.dir_tree import Tree

_KEPT_MODE, _KEPT_DIRECTORY_MODE = 0o1777, 0o3777  # setuid and setgid of files are dropped
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Blobs:
    """The contents of a bundle: their folder, how often each is still needed, and those that were finished as their only file."""

    folder: str
    use_counts: dict[str, int]
    finished: Container[str] = ()


def build_upper(upper: str, entries: list[Row], blobs: Blobs) -> None:
    """Build an upper layer in an empty directory. Files are copied from `blobs`, and moved at their last use.

    Raises OSError, or BadBundle for attributes that the file system rejects.
    """
    tree = Tree(upper, is_ours=True)
    directories = []
    try:
        for row in entries:
            path = os.fsencode(row["path"])
            folder, _, name = path.rpartition(b"/")
            parent = tree.directory(folder)
            if row["type"] == "file":
                _file(row, name, parent, blobs)
            elif row["type"] == "dir":
                durable.mkdir(name, parent)
                directories.append((path, row))
            else:
                _other(row, name, parent)
        for path, row in reversed(directories):
            _finish_directory(tree, path, row)
    finally:
        tree.close()


def _other(row: Row, name: bytes, parent: int) -> None:
    kind = row["type"]
    if kind == "whiteout":
        durable.whiteout(name, parent)
        return
    if kind == "symlink":
        durable.symlink(os.fsencode(row["target"]), name, parent)
    elif kind == "fifo":
        durable.mkfifo(name, parent, row["mode"] & _KEPT_MODE)
    else:
        durable.make_socket(name, parent, row["mode"] & _KEPT_MODE)
    durable.set_time_at(name, parent, row["mtime"])


def _file(row: Row, name: bytes, parent: int, blobs: Blobs) -> None:
    blob = f"{blobs.folder}/{row['digest']}"
    blobs.use_counts[row["digest"]] -= 1
    if blobs.use_counts[row["digest"]]:
        with open(blob, "rb") as source, os.fdopen(durable.create(name, parent), "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    else:
        os.rename(blob, name, dst_dir_fd=parent)
    if row["digest"] in blobs.finished:
        return
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        finish_file(fd, row)
    finally:
        os.close(fd)


def finish_file(fd: int, row: Row) -> None:
    """Set the attributes, the mode and the time of a file whose content is written."""
    _set_attributes(fd, row)
    durable.chmod(fd, row["mode"] & _KEPT_MODE)
    durable.set_time(fd, row["mtime"])


def _finish_directory(tree: Tree, path: bytes, row: Row) -> None:
    folder, _, name = path.rpartition(b"/")
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=tree.directory(folder))
    try:
        if row.get("opaque"):
            durable.set_attribute(fd, "user.overlay.opaque", b"y")
        _set_attributes(fd, row)
        durable.set_time(fd, row["mtime"])
        durable.chmod(fd, row["mode"] & _KEPT_DIRECTORY_MODE)
    finally:
        os.close(fd)


def _set_attributes(fd: int, row: Row) -> None:
    for name, value in row.get("attributes", {}).items():
        try:
            durable.set_attribute(fd, name, bytes.fromhex(value))
        except OSError as error:
            is_refused = error.errno in (errno.E2BIG, errno.ERANGE, errno.EOPNOTSUPP)
            require(not is_refused, f"this file system rejects the attribute {name[:80]!r}")
            raise
