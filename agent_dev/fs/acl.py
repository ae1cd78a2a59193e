"""POSIX ACLs (acl(5)), read from their xattr: which ACL a merged file gets, which mode bits remain without one.

A file that replaces another one gets the ACL of the replaced file, as if that had been written to; the agent's own ACLs are
never merged. While a file has an ACL, the group bits of its mode are the ACL's mask: without the ACL, the group keeps only the
permissions of its own entry.
"""

import errno
import os
import struct

from agent_dev.fs import dir_tree
from agent_dev.fs.entry import Entry, FileType
from agent_dev.fs.unlocked_directories import ENTER

XATTR = "system.posix_acl_access"
DEFAULT_XATTR = "system.posix_acl_default"  # of a directory: the ACL of what is created in it
_HEAD, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")  # version; tag, permissions, id (linux/posix_acl_xattr.h)
_GROUP, _MASK = 0x04, 0x10
_NONE = (errno.ENODATA, errno.ENOTSUP, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


def read_below(tree: dir_tree.Tree, path: bytes, attribute: str = XATTR) -> bytes | None:
    """Return the ACL of a file or directory below a tree; None if it has none. Raises OSError."""
    folder, _, name = path.rpartition(b"/")
    try:
        return os.getxattr(b"/proc/self/fd/%d/%b" % (tree.directory(folder), name), attribute, follow_symlinks=False)
    except PermissionError:
        if not tree.unlock(folder, ENTER):
            raise
        return read_below(tree, path, attribute)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


def attributes_with_acl(tree: dir_tree.Tree, path: bytes, entry: Entry) -> tuple[tuple[str, bytes], ...]:
    """Return the attributes of an entry at a path below a tree, with its ACLs. Raises OSError."""
    names = (XATTR, DEFAULT_XATTR) if entry.type is FileType.DIRECTORY else (XATTR,)
    acls = ((name, read_below(tree, path, name)) for name in names)
    return (*entry.attributes, *((name, value) for name, value in acls if value is not None))


def read(fd: int) -> bytes | None:
    """Return the ACL of an open file; None if it has none. Raises OSError."""
    try:
        return os.getxattr(fd, XATTR)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


def with_acl_of(entry: Entry, tree: dir_tree.Tree, path: bytes) -> Entry:
    """Return a file's entry with the ACL of the file at a path below a tree. Raises OSError."""
    own = read_below(tree, path) if entry.type is FileType.FILE else None
    return entry if own is None else entry.with_values(attributes=(*entry.attributes, (XATTR, own)))


def mode_without_acl(mode: int, access: bytes | None) -> int:
    """Return the mode of a file after its ACL is removed."""
    if access is None:
        return mode
    entries: dict[int, int] = {tag: bits for tag, bits, _ in _ENTRY.iter_unpack(access[_HEAD.size :])}
    return mode & ~0o070 | (entries.get(_GROUP, 0) & entries.get(_MASK, 0o7)) << 3
