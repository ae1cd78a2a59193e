"""Git's object ids (gitformat-pack, "object names")."""

import hashlib
import re

_SHA256 = re.compile(rb"^[ \t]*objectformat[ \t]*=[ \t]*\"?sha256\"?[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


def blob_id(data: bytes, *, is_sha256: bool) -> str:
    """Return the id of bytes as a blob."""
    kind = hashlib.sha256 if is_sha256 else hashlib.sha1
    digest = kind(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def uses_sha256(config: bytes) -> bool:
    """Return whether a repository with this `config` uses SHA-256 object ids (git-config: extensions.objectFormat)."""
    return _SHA256.search(config) is not None
