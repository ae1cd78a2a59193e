"""The rows of a manifest for one root: its upper layer, and the base versions with which a merge compares."""

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from agent_dev.bundle.manifest_json import Rows
from agent_dev.errors import Refused
from agent_dev.fs import dir_tree
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import Entry, FileType, WalkedEntry, parents_of
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.quick_dataclass import dataclass, field
from agent_dev.sanitize import visible

_SMALL, _MAX_CACHED = 64 << 10, 8 << 20  # bytes: limits for contents that stay in memory between the two passes
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FileContent:
    """The location of a file's content: in memory, at a path of an upper layer, or in a file of the snapshot."""

    size: int
    data: bytes | None = None
    root: int = 0
    path: bytes = b""
    stored: str = ""


@dataclass(slots=True)
class Contents:
    """The files that a bundle contains, by SHA-256."""

    sources: dict[str, FileContent] = field(default_factory=dict)
    cached: int = 0  # bytes in memory

    def add_data(self, data: bytes, source: FileContent) -> str:
        """Add a file that has been read; return its digest."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self.sources:
            is_kept = len(data) <= _SMALL and self.cached + len(data) <= _MAX_CACHED
            self.cached += len(data) if is_kept else 0
            kept = FileContent(len(data), data) if is_kept else source
            self.sources[digest] = kept
        return digest


@dataclass(frozen=True, slots=True)
class RootReader:
    """One root of a session that is exported: its number, its upper layer, the real tree, the base, and its object store."""

    number: int
    upper: Tree
    real: Tree
    base: LowerSnapshot
    objects: str  # "" without git
    contents: Contents

    def upper_rows(self, found: Iterable[WalkedEntry]) -> Rows:
        """Return the rows of an upper layer. Raises Refused for an entry that cannot be bundled."""
        return Rows(self._upper_row(one) for one in found)

    def _upper_row(self, found: WalkedEntry) -> Row:
        entry, path = found.entry, os.fsdecode(found.path)
        if found.is_whiteout():
            return {"path": path, "type": "whiteout"}
        if entry.type is FileType.DEVICE or found.is_too_deep:
            raise Refused(message=f"{visible(found.path)} cannot be bundled: it is a device, or its path is too long")
        row: Row = {"path": path, "type": str(entry.type), "mode": entry.mode, "mtime": max(0, entry.mtime)}
        if found.is_opaque():
            row["opaque"] = True
        if entry.attributes:
            row["attributes"] = _attributes(entry)
        if entry.type is FileType.SYMLINK:
            row["target"] = os.fsdecode(entry.target)
        elif entry.type is FileType.FILE:
            row["size"], row["digest"] = self._content(found.path, entry.size)
        return row

    def _content(self, path: bytes, size: int) -> tuple[int, str]:
        fd = self.upper.open(path, os.O_RDONLY)
        try:
            if size <= _SMALL:
                data = dir_tree.read_all(fd, size)
                return len(data), self.contents.add_data(data, FileContent(len(data), None, self.number, path))
            with os.fdopen(os.dup(fd), "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            self.contents.sources.setdefault(digest, FileContent(size, None, self.number, path))
            return size, digest
        finally:
            os.close(fd)

    def base_rows(self, found: list[WalkedEntry]) -> Rows:
        """Return the rows of the base versions with which an upper layer is compared."""
        before = self.base.entries(self.number)
        return Rows(self._base_row(path, before[path]) for path in sorted(_compared_paths(found, before)))

    def _base_row(self, path: bytes, entry: Entry) -> Row:
        row: Row = {"path": os.fsdecode(path), "type": str(entry.type), "mode": entry.mode, "size": entry.size}
        if self.base.knows_attributes(self.number, path):
            row["attributes"] = _attributes(entry)
        if entry.type is FileType.SYMLINK:
            row["target"] = os.fsdecode(entry.target)
        elif entry.type is FileType.FILE:
            row |= self._base_content(path, entry)
        return row

    def _base_content(self, path: bytes, entry: Entry) -> Row:
        """Identify the content of a base version by git's blob id or by SHA-256; add content that git does not have."""
        blob = self.base.blob_of(self.number, path)
        if blob is not None and blob[0] == self.objects:
            return {"blob": blob[1]}
        data = self.base.content(self.number, path)
        if data is not None and len(data) == entry.size:
            stored = self.base.stored_path(self.number, path) or ""
            return {"digest": self.contents.add_data(data, FileContent(len(data), None if stored else data, stored=stored))}
        now = self.real.entry_at(path, attributes=False)
        if now is None or now.identity != entry.identity:
            return {}  # unknown content: a conflict if the path exists
        try:
            fd = self.real.open(path, os.O_RDONLY)
        except OSError:
            return {}
        with os.fdopen(fd, "rb") as file:
            return {"digest": hashlib.file_digest(file, "sha256").hexdigest()}


def _attributes(entry: Entry) -> dict[str, str]:
    return {name: value.hex() for name, value in entry.attributes}


def _compared_paths(found: list[WalkedEntry], before: Iterable[bytes]) -> set[bytes]:
    """Return the base paths that an upper layer has, their parents, and all paths below an entry that hides them."""
    known = before if hasattr(before, "__contains__") else frozenset(before)
    wanted: set[bytes] = set()
    hiding: list[bytes] = []
    for one in found:
        wanted.update(path for path in (*parents_of(one.path), one.path) if path in known)
        if one.entry.type is not FileType.DIRECTORY or one.is_opaque():
            hiding.append(one.path)
    names = sorted(before) if hiding else []
    for folder in hiding:
        wanted.update(names[bisect_left(names, folder + b"/") : bisect_left(names, folder + b"0")])
    return wanted
