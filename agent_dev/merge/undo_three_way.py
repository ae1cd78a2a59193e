"""An undo of a file that the user has changed since: what the merge did to it goes, what the user did stays, where both fit.

The base is what the merge left, mine what stands there now, and the other side what stood there before the merge.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent_dev.diff import hunks as blocks
from agent_dev.diff import merge3 as threeway
from agent_dev.fs import acl as access
from agent_dev.fs import durable as disk
from agent_dev.merge import conclude
from agent_dev.merge.decision import Verdict, decide
from agent_dev.merge.reconcile import Sides
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine import staging
from agent_dev.merge_engine.journal import Act, Instead, Mark, Op, mark
from agent_dev.merge_engine.merge_plan import SPECIAL_BITS
from agent_dev.merge_engine.merged_texts import Kept
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay.changes import Entry, FileType, Key

CHANGED = "you changed it since"


@dataclass(frozen=True, slots=True)
class Apart:
    """A user's file without what a merge did to it: its bytes and mode. `mine` is the file, `base` what the merge had left."""

    content: bytes
    mode: int
    mine: Entry
    base: bytes
    base_mark: Mark


@dataclass(frozen=True, slots=True)
class _Was:
    """An operation that put a file in a file's place: what stood there before, and what it left."""

    op: Op
    before: Entry
    left: Mark


def told_apart(merging: apply.Merge, kept: Kept, number: int, left: Mark | None, now: Entry | None) -> Apart | str:
    """Tell what the merge did from what the user did since at an operation's path, or return why that cannot be."""
    op = merging.journal.ops[number]
    place = merging.stages[op.key.root]
    before = place.look(op.slot) if place is not None and op.old is not None else None
    if op.act is not Act.EXCHANGE or before is None or left is None or now is None or place is None:
        return CHANGED
    if not before.type is left.type is now.type is FileType.FILE:
        return CHANGED
    is_kept = op.old is not None and (op.old.size, op.old.mtime) == (before.size, before.mtime)  # maybe by a copy: another inode
    if not is_kept or now.attributes != before.attributes or now.mode & SPECIAL_BITS:
        return f"{CHANGED}, and not only its lines"
    base, mine = kept.find(op.digest), _read(merging, op, now)
    if base is None or mine is None or before.size > blocks.LARGEST:
        return f"{CHANGED}, and its lines are not known on every side"
    return _apart(_Was(op, before, left), now, Sides(base, mine, place.read(op.slot)))


def _read(merging: apply.Merge, op: Op, now: Entry) -> bytes | None:
    """Return the user's bytes; None when the file is not what was seen, too large, or not ours to read."""
    real = merging.reals[op.key.root]
    try:
        data = real.read(op.key.path, blocks.LARGEST)
    except OSError:
        return None
    return data if real.look(op.key.path) == now else None


def _apart(was: _Was, now: Entry, sides: Sides) -> Apart | str:
    """Decide by the table of three ways, with what was there before in the agent's place."""
    base, mine, before = sides.base or b"", sides.mine or b"", sides.agent or b""
    decision = decide(replace(was.before, mode=was.left.mode), now, was.before, sides.digests(), is_text=sides.is_text)
    match decision.verdict:
        case Verdict.CONFLICT:
            return f"{CHANGED}: {decision.why}"
        case Verdict.CLEAN_AGENT:
            return Apart(before, decision.mode, now, base, was.left)
        case Verdict.ALREADY | Verdict.KEEP_MINE:
            return Apart(mine, decision.mode, now, base, was.left)
        case Verdict.MERGE_TEXT:
            merged = threeway.merge(base, mine, before)
            if merged.is_clean:
                return Apart(merged.resolve(), decision.mode, now, base, was.left)
            count = len(merged.conflicts)
            return f"{CHANGED}, in the same lines as the merge" + (f", in {count} places" if count > 1 else "")


def stage(merging: apply.Merge, apart: Mapping[int, Apart]) -> tuple[Instead, ...]:
    """Put what is to stand at the paths into slots, and what the merge had brought aside for the session, all durable.

    Raises OSError.
    """
    asides: dict[int, Stage] = {}
    elsewhere = conclude.not_in_slots(merging)
    try:
        instead = tuple(_stage(merging, number, one, asides, elsewhere) for number, one in apart.items())
        for place in (*merging.stages, *asides.values()):
            if place is not None and apart:
                place.settle()
    finally:
        for place in asides.values():
            place.close()
    return instead


def _stage(merging: apply.Merge, number: int, one: Apart, asides: dict[int, Stage], elsewhere: frozenset[Key]) -> Instead:
    op = merging.journal.ops[number]
    place = merging.stages[op.key.root]
    assert place is not None  # noqa: S101  (it holds what stood there before)
    slot, agent = f"{op.slot}.apart", ""
    like = access.with_that_of(replace(one.mine, mode=one.mode, mtime=time.time_ns()), merging.reals[op.key.root], op.key.path)
    old = _put(place, slot, one.content, like, op.slot)
    if op.key not in elsewhere:
        aside, agent = asides.get(op.key.root) or Stage(staging.aside(merging.folder, op.key.root)), op.slot
        asides[op.key.root] = aside
        _put(aside, agent, one.base, replace(one.mine, mode=one.base_mark.mode, mtime=one.base_mark.mtime))
    return Instead(number, replace(op, slot=slot, new=mark(one.mine), old=old, digest=""), agent)


def _put(place: Stage, slot: str, data: bytes, like: Entry, own: str = "") -> Mark:
    if place.look(slot) is not None:
        disk.unlink(slot.encode(), place.fd)  # of an undo that came to nothing, or was done again
    return place.put(slot, data, like, own)[0]
