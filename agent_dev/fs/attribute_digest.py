"""A short digest of a file's `user.*` attributes and POSIX ACLs.

A merge records it for each entry that it applies. An undo compares it, so as not to lose attributes that the user has set since.
"""

import errno
import hashlib
import os

_OWN = ("user.", "system.posix_acl_")
_OVERLAY = "user.overlay."
_NONE = (errno.ENOTSUP, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
NONE = "-"


def digest_attributes(folder: int, name: bytes) -> str:
    """Return the digest for a name in an open directory; NONE without attributes. Raises OSError."""
    path = b"/proc/self/fd/%d/%b" % (folder, name)
    try:
        names = sorted(attribute for attribute in os.listxattr(path, follow_symlinks=False) if _is_own(attribute))
        if not names:
            return NONE
        digest = hashlib.sha256()
        for attribute in names:
            value = _value(path, attribute)
            digest.update(b"%b\0%d\0%b" % (os.fsencode(attribute), len(value), value))
    except OSError as error:
        if error.errno in _NONE:
            return NONE
        raise
    return digest.hexdigest()[:32]


def _value(path: bytes, name: str) -> bytes:
    """Return an attribute's value; empty if the file is unreadable: then only the attribute's name is compared."""
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except PermissionError:
        return b""


def _is_own(name: str) -> bool:
    return name.startswith(_OWN) and not name.startswith(_OVERLAY)
