"""Base files that git can restore: tracked, with the content that the index had when the session began."""

from typing import TYPE_CHECKING

from agent_dev.fs.entry import FileType
from agent_dev.git.formats.index_format import IndexUnreadableError, parse_index
from agent_dev.git.object_id import blob_id
from agent_dev.overlay.changes import Change

if TYPE_CHECKING:
    from agent_dev.merge.review_protocol import ReviewProtocol

_ID_SIZES = (20, 32)  # bytes: SHA-1, SHA-256


class RestorableFiles:
    """Tells which files of a review's base git can restore."""

    def __init__(self, review: "ReviewProtocol") -> None:
        self._review = review
        self._indexes: dict[int, dict[bytes, bytes]] = {}  # object ids by root and path

    def contains(self, change: Change) -> bool:
        """Return whether git can restore the base version of a change; an empty directory needs no content."""
        before, key = change.before, change.key
        if before is None or before.type is FileType.DIRECTORY:
            return True
        if before.type not in (FileType.FILE, FileType.SYMLINK):
            return False
        if self._review.lower_snapshot.is_in_git(key.root, key.path):
            return True
        # A file written in the same instant as the index is compared by content.
        oid = self._index(key.root).get(key.path)
        data = self._review.base_content(change) if oid is not None else None
        return data is not None and oid is not None and blob_id(data, is_sha256=len(oid) == 32) == oid.hex()

    def _index(self, root: int) -> dict[bytes, bytes]:
        if root not in self._indexes:
            self._indexes[root] = _read_index(f"{self._review.lower_snapshot.folder}/index{root or ''}")
        return self._indexes[root]


def _read_index(path: str) -> dict[bytes, bytes]:
    """Return the object ids of an index by path; none of a missing, split or unreadable one."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return {}
    for size in _ID_SIZES:
        try:
            return {one.path: one.oid for one in parse_index(data, size)}
        except IndexUnreadableError:
            continue
    return {}
