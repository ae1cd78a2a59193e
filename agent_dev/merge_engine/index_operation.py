"""A new index as one more operation of a merge, behind git's own lock."""

import os
import time

from agent_dev.errors import CannotMerge
from agent_dev.fs import dir_tree as files
from agent_dev.merge_engine import index_lock
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine.journal import Act, Op, mark
from agent_dev.merge_engine.merge_execution import Merge
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay.changes import Entry, FileType, Key

NAME = b"index"


def look(folder: str) -> Entry | None:
    """Return what stands at a git dir's index."""
    tree = files.Tree(folder)
    try:
        return tree.look(NAME)
    finally:
        tree.close()


def stage(merge: Merge, path: str, expect: Entry | None) -> Op:
    """Take the lock, put a new index into a slot, durable, and return the operation. Raises CannotMerge."""
    root = len(merge.reals) - 1
    place = merge.stages[root]
    assert place is not None  # noqa: S101  (made for every root that the plan names)
    lock(merge, place)
    with open(path, "rb") as file:
        data = file.read()
    new, digest = place.put("index", data, _like(expect))
    place.settle()
    act, old = (Act.ATTACH, None) if expect is None else (Act.EXCHANGE, mark(expect))
    return Op(act, Key(root, NAME), "index", new, old, digest)


def _like(expect: Entry | None) -> Entry:
    return Entry(FileType.FILE, expect.mode if expect is not None else 0o644, mtime=time.time_ns())


def lock(merge: Merge, place: Stage) -> None:
    """Take the index's lock. Raises CannotMerge when a git has it."""
    tree = merge.reals[-1]
    try:
        index_lock.take(tree.fd, place, merge.id)
    except FileExistsError:
        reason = "a git is at work there; nothing was changed"
        hint = "wait for its end, or remove what a crash left"
        raise CannotMerge(path=f"{tree.path}/index.lock", reason=reason, hint=hint) from None
    except OSError as error:
        raise CannotMerge(path=tree.path, reason=f"{error.strerror}; nothing was changed") from None


def replace(merge: Merge, number: int, path: str, now: Entry, *, is_forward: bool) -> None:
    """Put another index into an operation's slot, for one that git has written since. Raises OSError."""
    op = merge.journal.ops[number]
    place = merge.stages[op.key.root]
    assert place is not None  # noqa: S101  (it holds the slot)
    with open(path, "rb") as file:
        data = file.read()
    if place.look("index.new") is not None:
        os.unlink("index.new", dir_fd=place.fd)
    new, _ = place.put("index.new", data, _like(now))
    os.rename("index.new", op.slot, src_dir_fd=place.fd, dst_dir_fd=place.fd)
    place.settle()
    marks = (new, mark(now)) if is_forward else (mark(now), new)
    merge.add(records.moved_record(merge.journal.begin.stages if merge.journal.begin else (), {number: marks}))
