"""Write the lower snapshot of an imported session: compare each base version of the bundle with the path in this clone.

A path with the same content gets the identity that it has in this clone, so a merge treats it as unchanged. Any other gets
inode 0, so the merge engine merges three ways with the base version, or reports a conflict.
"""

import hashlib
import os
import shutil
from collections.abc import Container, Iterator
from typing import Any

from agent_dev.bundle.manifest_json import Rows
from agent_dev.fs import walk
from agent_dev.fs.dir_tree import CHUNK_SIZE, Tree
from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay import lower_snapshot, lower_snapshot_table
from agent_dev.overlay.lower_snapshot_row import TYPES, RecordedPath
from agent_dev.quick_dataclass import dataclass

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BaseRequest:
    """Parameters: the folders of the snapshot and of the bundle's files, the path of git, each root's path and object store."""

    folder: str
    blobs: str
    program: str
    roots: tuple[tuple[str, str], ...]


def content_path(folder: str, digest: str) -> str:
    """Return the path of the content of a base version in a lower snapshot."""
    return f"{folder}/content/{_content_name(digest)}"


def _content_name(digest: str) -> str:
    return f"bundle-{digest}"


def write_base(request: BaseRequest, roots: list[dict[str, Any]], contents: Container[str]) -> None:
    """Write a lower snapshot from the checked rows of a manifest. Raises OSError.

    `contents`: the digests of the contents that the bundle has. Those that only base versions need are in their place already.
    """
    packed = [lower_snapshot_table.pack(_paths(request, number, root["base"], contents)) for number, root in enumerate(roots)]
    about = {
        "complete": all(root["complete"] for root in roots),
        "cut": "" if all(root["complete"] for root in roots) else "it was incomplete where the bundle was made",
        "dropped": 0,
        "marked": [0],
        "stores": [objects for _, objects in request.roots],
        "program": request.program,
    }
    with open(f"{request.folder}/manifest", "xb") as file:
        file.write(lower_snapshot.encode_manifest(about, packed))


def _paths(request: BaseRequest, number: int, base: Rows, contents: Container[str]) -> Iterator[RecordedPath]:
    path, objects = request.roots[number]
    tree = Tree(path, is_reviewed=True)
    try:
        stored_contents = set(os.listdir(f"{request.folder}/content"))
        for row in base:
            entry = _entry_here(tree, row)
            stored = f"@{number}:{row['blob']}" if "blob" in row and objects else ""
            if row.get("digest") in contents:
                stored = _store(request, row["digest"], stored_contents)
            yield os.fsencode(row["path"]), entry, stored, "attributes" in row or bool(entry.inode)
    finally:
        tree.close()


def _store(request: BaseRequest, digest: str, present: set[str]) -> str:
    """Copy a content of the bundle to the snapshot unless it is present there; return its name."""
    name = _content_name(digest)
    if name not in present:
        shutil.copyfile(f"{request.blobs}/{digest}", content_path(request.folder, digest))
        present.add(name)
    return name


def _entry_here(tree: Tree, row: Row) -> Entry:
    """Return the entry of a base version: that of the path in this clone if they are equal, else one with inode 0."""
    path = os.fsencode(row["path"])
    attributes = tuple(sorted((name, bytes.fromhex(value)) for name, value in row.get("attributes", {}).items()))
    now = _file_here(tree, path, row) if row["type"] == "file" else tree.entry_at(path)
    if now is not None and _is_same(now, row) and (now.attributes == attributes or "attributes" not in row):
        return now
    target = os.fsencode(row.get("target", ""))
    return Entry(TYPES[row["type"]], row["mode"], row["size"], target=target, attributes=attributes)


def _is_same(now: Entry, row: Row) -> bool:
    if str(now.type) != row["type"]:
        return False
    if now.type is FileType.SYMLINK:
        return now.target == os.fsencode(row["target"])
    return now.mode == int(row["mode"])


def _file_here(tree: Tree, path: bytes, row: Row) -> Entry | None:
    """Return the entry of a file in this clone if it has the content of a base version, by its blob id or SHA-256."""
    wanted = row.get("digest") or row.get("blob")
    now = tree.entry_at(path, attributes=False) if wanted else None
    if now is None or now.type is not FileType.FILE or now.size != row["size"]:
        return None
    try:
        fd = tree.open(path, os.O_RDONLY)
    except OSError:
        return None  # unreadable, or it has just changed
    try:
        if _hash(fd, now.size, row) != wanted:
            return None
        attributes = walk.read_attributes(fd)
        return now.with_values(attributes=attributes) if attributes else now
    finally:
        os.close(fd)


def _hash(fd: int, size: int, row: Row) -> str:
    """Return the SHA-256 of an open file, or its blob id in the object format of the row's blob."""
    head = b"" if row.get("digest") else b"blob %d\0" % size
    seen = hashlib.sha1(head, usedforsecurity=False) if head and len(row["blob"]) == 40 else hashlib.sha256(head)
    while size > 0 and (piece := os.read(fd, min(size, CHUNK_SIZE))):
        seen.update(piece)
        size -= len(piece)
    return seen.hexdigest()
