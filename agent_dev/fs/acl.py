"""POSIX access lists (acl(5)), as the kernel keeps them in an attribute: whose a file's is, and what stays of one that goes.

A file that takes another's place has that one's list, as if it had been written to. A list of the agent's own never comes. While
a file has one, the group's bits of its mode are the list's mask: of a list that goes, the group keeps only what was its own.
"""

import errno
import os
import struct
from dataclasses import replace

from agent_dev.fs import dir_tree as files
from agent_dev.overlay.changes import Entry, FileType

LIST = "system.posix_acl_access"
_HEAD, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")  # version; tag, permissions, id (linux/posix_acl_xattr.h)
_GROUP, _MASK = 0x04, 0x10
_NONE = (errno.ENODATA, errno.ENOTSUP, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


def of(tree: files.Tree, path: bytes) -> bytes | None:
    """Return the access list of a file or directory below a tree; None where there is none. Raises OSError."""
    folder, _, name = path.rpartition(b"/")
    try:
        return os.getxattr(b"/proc/self/fd/%d/%b" % (tree.folder(folder), name), LIST, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


def read(fd: int) -> bytes | None:
    """Return the access list of an open file; None where it has none. Raises OSError."""
    try:
        return os.getxattr(fd, LIST)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


def with_that_of(entry: Entry, tree: files.Tree, path: bytes) -> Entry:
    """Return a file's entry with the access list of what stands at a path below a tree. Raises OSError."""
    own = of(tree, path) if entry.type is FileType.FILE else None
    return entry if own is None else replace(entry, attributes=(*entry.attributes, (LIST, own)))


def without(mode: int, access: bytes | None) -> int:
    """Return the mode of a file that loses its access list."""
    if access is None:
        return mode
    entries: dict[int, int] = {tag: bits for tag, bits, _ in _ENTRY.iter_unpack(access[_HEAD.size :])}
    return mode & ~0o070 | (entries.get(_GROUP, 0) & entries.get(_MASK, 0o7)) << 3
