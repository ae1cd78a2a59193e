"""Replace git's index as an operation of a merge, under git's own lock."""

import os
import time

from agent_dev.errors import CannotMerge
from agent_dev.fs import dir_tree
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.merge_engine import index_lock, journal_codec
from agent_dev.merge_engine.journal import Operation, OpKind, entry_mark
from agent_dev.merge_engine.merge_execution import Merge

INDEX_NAME = b"index"


def index_entry(folder: str) -> Entry | None:
    """Return the entry of a git directory's index."""
    tree = dir_tree.Tree(folder)
    try:
        return tree.entry_at(INDEX_NAME)
    finally:
        tree.close()


def stage_index(merge: Merge, root: int, path: str, expect: Entry | None) -> Operation:
    """Acquire the lock of a root that is a git directory, write a new index into a slot, durable, and return the operation.

    Raises CannotMerge.
    """
    stage_dir = merge.stages[root]
    assert stage_dir is not None  # noqa: S101  (made for every root that the plan names)
    acquire_lock(merge, root)
    with open(path, "rb") as file:
        data = file.read()
    new, digest = stage_dir.write("index", data, _like(expect))
    stage_dir.sync()
    act, old = (OpKind.ATTACH, None) if expect is None else (OpKind.EXCHANGE, entry_mark(expect))
    return Operation(act, Key(root, INDEX_NAME), "index", new, old, bytes.fromhex(digest))


def _like(expect: Entry | None) -> Entry:
    return Entry(FileType.FILE, expect.mode if expect is not None else 0o644, mtime=time.time_ns())


def acquire_lock(merge: Merge, root: int) -> None:
    """Acquire the index lock of a root that is a git directory. Raises CannotMerge if git holds it."""
    tree, stage_dir = merge.real_trees[root], merge.stages[root]
    assert stage_dir is not None  # noqa: S101  (made for every root that the plan names)
    try:
        index_lock.acquire(tree.fd, stage_dir, merge.id)
    except FileExistsError:
        reason = "another git process is running; nothing was changed"
        hint = "wait until it ends; if none is running, remove the lock file"
        raise CannotMerge(path=f"{tree.path}/index.lock", reason=reason, hint=hint) from None
    except OSError as error:
        raise CannotMerge(path=tree.path, reason=f"{error.strerror}; nothing was changed") from None


def restage_index(merge: Merge, number: int, path: str, now: Entry, *, is_forward: bool) -> None:
    """Write another index into an operation's slot, if git has written the index since. Raises OSError."""
    op = merge.journal.ops[number]
    stage_dir = merge.stages[op.key.root]
    assert stage_dir is not None  # noqa: S101  (it has the slot)
    with open(path, "rb") as file:
        data = file.read()
    if stage_dir.entry_in("index.new") is not None:
        os.unlink("index.new", dir_fd=stage_dir.fd)
    new, _ = stage_dir.write("index.new", data, _like(now))
    os.rename("index.new", op.slot, src_dir_fd=stage_dir.fd, dst_dir_fd=stage_dir.fd)
    stage_dir.sync()
    marks = (new, entry_mark(now)) if is_forward else (entry_mark(now), new)
    merge.append_record(journal_codec.moved_record(merge.journal.header.stages if merge.journal.header else (), {number: marks}))
