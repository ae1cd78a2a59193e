"""Write the lower snapshot of an imported session: compare each base version of the bundle with the path in this clone.

A path with the same content gets the identity that it has in this clone, so a merge treats it as unchanged. Any other gets
inode 0, so the merge engine merges three ways with the base version, or reports a conflict.
"""

import hashlib
import os
import shutil
from dataclasses import dataclass
from typing import Any

from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import Entry, FileType, WalkedEntry
from agent_dev.overlay import lower_snapshot

Row = dict[str, Any]
_TYPES = {str(kind): kind for kind in FileType}


@dataclass(frozen=True, slots=True)
class BaseRequest:
    """Parameters: the folders of the snapshot and of the bundle's files, the path of git, each root's path and object store."""

    folder: str
    blobs: str
    program: str
    roots: tuple[tuple[str, str], ...]


def write_base(request: BaseRequest, roots: list[dict[str, Any]], use_counts: dict[str, int]) -> None:
    """Write a lower snapshot from the checked rows of a manifest. Raises OSError."""
    os.makedirs(f"{request.folder}/content", 0o700)
    tables = [_rows(request, number, root["base"], use_counts) for number, root in enumerate(roots)]
    about = {
        "complete": all(root["complete"] for root in roots),
        "cut": "" if all(root["complete"] for root in roots) else "it was incomplete where the bundle was made",
        "dropped": 0,
        "marked": [0],
        "stores": [objects for _, objects in request.roots],
        "program": request.program,
    }
    with open(f"{request.folder}/manifest", "xb") as file:
        file.write(lower_snapshot.encode_manifest(about, tables))


def _rows(request: BaseRequest, number: int, base: list[Row], use_counts: dict[str, int]) -> list[list[object]]:
    path, objects = request.roots[number]
    tree = Tree(path, is_reviewed=True)
    try:
        found = []
        for row in base:
            entry = _entry_here(tree, row)
            stored = f"@{number}:{row['blob']}" if "blob" in row and objects else ""
            if row.get("digest") in use_counts:
                stored = _store(request, row["digest"], use_counts)
            walked = WalkedEntry(os.fsencode(row["path"]), entry)
            found.append(lower_snapshot.row_of(walked, stored, has_attributes="attributes" in row or bool(entry.inode)))
        return found
    finally:
        tree.close()


def _store(request: BaseRequest, digest: str, use_counts: dict[str, int]) -> str:
    """Move a file of the bundle to the snapshot's contents, or copy it if it is still needed elsewhere; return its name there."""
    name = f"bundle-{digest}"
    target = f"{request.folder}/content/{name}"
    use_counts[digest] -= 1
    if os.path.lexists(target):
        return name
    if use_counts[digest]:
        shutil.copyfile(f"{request.blobs}/{digest}", target)
    else:
        os.rename(f"{request.blobs}/{digest}", target)
    return name


def _entry_here(tree: Tree, row: Row) -> Entry:
    """Return the entry of a base version: that of the path in this clone if they are equal, else one with inode 0."""
    path = os.fsencode(row["path"])
    now = tree.entry_at(path)
    attributes = tuple(sorted((name, bytes.fromhex(value)) for name, value in row.get("attributes", {}).items()))
    if now is not None and _is_same(tree, path, now, row) and (now.attributes == attributes or "attributes" not in row):
        return now
    target = os.fsencode(row.get("target", ""))
    return Entry(_TYPES[row["type"]], row["mode"], row["size"], target=target, attributes=attributes)


def _is_same(tree: Tree, path: bytes, now: Entry, row: Row) -> bool:
    if str(now.type) != row["type"]:
        return False
    if now.type is FileType.SYMLINK:
        return now.target == os.fsencode(row["target"])
    if now.mode != row["mode"]:
        return False
    if now.type is not FileType.FILE:
        return True
    return now.size == row["size"] and _has_content(tree, path, now.size, row)


def _has_content(tree: Tree, path: bytes, size: int, row: Row) -> bool:
    """Return whether a file in this clone has the content of a base version, by its blob id or SHA-256."""
    blob, digest = row.get("blob", ""), row.get("digest", "")
    if not blob and not digest:
        return False
    kind = "sha256" if digest or len(blob) == 64 else "sha1"
    seen = hashlib.new(kind, b"" if digest else b"blob %d\0" % size, usedforsecurity=False)
    try:
        fd = tree.open(path, os.O_RDONLY)
    except OSError:
        return False  # unreadable, or it has just changed
    try:
        while piece := os.read(fd, 1 << 20):
            seen.update(piece)
    finally:
        os.close(fd)
    return bool(seen.hexdigest() == (digest or blob))
