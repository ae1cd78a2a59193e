"""Build the upper layer of an imported session from the checked rows of a manifest, by descriptors, without following links."""

import errno
import os
import shutil
from collections.abc import Container, Iterator
from typing import Any

from agent_dev.bundle.manifest import require
from agent_dev.bundle.manifest_json import Rows
from agent_dev.fs import durable
from agent_dev.fs.dir_tree import Tree

_KEPT_MODE, _KEPT_DIRECTORY_MODE = 0o1777, 0o3777  # setuid and setgid of files are dropped
Row = dict[str, Any]


class UpperBuilder:
    """Builds an upper layer in an empty directory: directories and links first, then files in any order, then settings.

    The methods raise OSError, or BadBundle for attributes that the file system rejects.
    """

    def __init__(self, upper: str, entries: Rows, max_open: int) -> None:
        """`max_open`: the number of directories that stay open."""
        self._tree = Tree(upper, is_ours=True, max_open=max_open)
        self._entries = entries

    def close(self) -> None:
        """Close every descriptor."""
        self._tree.close()

    def create_all_but_files(self) -> None:
        """Create directories, links, FIFOs, sockets and whiteouts."""
        for row in self._entries:
            if row["type"] != "file":
                name, parent = self._place(row)
                _create(row, name, parent)

    def contents(self) -> Iterator[tuple[int, str]]:
        """Yield the number of each row of a file, and the SHA-256 of its content."""
        return ((index, row["digest"]) for index, row in enumerate(self._entries) if row["type"] == "file")

    def row(self, index: int) -> Row:
        """Return a row by its number."""
        row: Row = self._entries[index]
        return row

    def create_file(self, row: Row) -> int:
        """Create an empty file; return its descriptor. The content is written next, then `finish_file` is called."""
        name, parent = self._place(row)
        return durable.create(name, parent)

    def copy_files(self, folder: str, written: Container[str]) -> None:
        """Create the other files from their contents in a folder. `written`: digests of the contents that were not put there."""
        for row in self._entries:
            if row["type"] != "file" or row["digest"] in written:
                continue
            with open(f"{folder}/{row['digest']}", "rb") as source, os.fdopen(self.create_file(row), "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                finish_file(target.fileno(), row)

    def finish_directories(self) -> None:
        """Set the attributes, the modes and the times of directories, after everything in them exists."""
        for row in reversed(self._entries):
            if row["type"] == "dir":
                _finish_directory(row, *self._place(row))

    def _place(self, row: Row) -> tuple[bytes, int]:
        """Return the name of an entry and a descriptor of its directory."""
        folder, _, name = os.fsencode(row["path"]).rpartition(b"/")
        return name, self._tree.directory(folder)


def _create(row: Row, name: bytes, parent: int) -> None:
    kind = row["type"]
    if kind == "dir":
        durable.mkdir(name, parent)
        return
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


def finish_file(fd: int, row: Row) -> None:
    """Set the attributes, the mode and the time of a file whose content is written."""
    _set_attributes(fd, row)
    durable.chmod(fd, row["mode"] & _KEPT_MODE)
    durable.set_time(fd, row["mtime"])


def _finish_directory(row: Row, name: bytes, parent: int) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
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
