"""Build the upper layer of an imported session from the checked rows of a manifest, by descriptors, without following links."""

import errno
import os
import shutil
from typing import Any

from agent_dev.bundle.manifest import require
from agent_dev.fs import durable
from agent_dev.fs.dir_tree import Tree

_KEPT_MODE, _KEPT_DIRECTORY_MODE = 0o1777, 0o3777  # setuid and setgid of files are dropped
Row = dict[str, Any]


def build_upper(upper: str, entries: list[Row], blobs: str, use_counts: dict[str, int]) -> None:
    """Build an upper layer in an empty directory. Files are copied from the folder `blobs`, and moved at their last use.

    `use_counts`: how often each file is still needed. Raises OSError, or BadBundle for attributes that the file system rejects.
    """
    tree = Tree(upper, is_ours=True)
    directories = []
    try:
        for row in entries:
            path = os.fsencode(row["path"])
            folder, _, name = path.rpartition(b"/")
            parent = tree.directory(folder)
            if row["type"] == "file":
                _file(row, name, parent, blobs, use_counts)
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


def _file(row: Row, name: bytes, parent: int, blobs: str, use_counts: dict[str, int]) -> None:
    blob = f"{blobs}/{row['digest']}"
    use_counts[row["digest"]] -= 1
    if use_counts[row["digest"]]:
        with open(blob, "rb") as source, os.fdopen(durable.create(name, parent), "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    else:
        os.rename(blob, name, dst_dir_fd=parent)
    if row["mode"] == 0o600 and "attributes" not in row:
        durable.set_time_at(name, parent, row["mtime"])
        return
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        _set_attributes(fd, row)
        durable.chmod(fd, row["mode"] & _KEPT_MODE)
        durable.set_time(fd, row["mtime"])
    finally:
        os.close(fd)


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
