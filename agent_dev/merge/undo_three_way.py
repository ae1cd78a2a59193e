"""Three-way undo of a file that the user changed since: revert the merge's edit and keep the user's, if both fit together.

The base is the merged file, yours the current file, and the other side the file before the merge.
"""

import time
from collections.abc import Mapping

from agent_dev.diff import hunks, merge3
from agent_dev.fs import acl, durable
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.merge import conclude
from agent_dev.merge.decision import Verdict, decide
from agent_dev.merge.reconcile import ThreeVersions
from agent_dev.merge_engine import merge_execution, staging
from agent_dev.merge_engine.journal import EntryMark, Operation, OpKind, Substitute, entry_mark
from agent_dev.merge_engine.merge_plan import SPECIAL_BITS
from agent_dev.merge_engine.merged_texts import TextReader
from agent_dev.merge_engine.slots import Stage
from agent_dev.quick_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class SeparatedEdit:
    """A user's file without the merge's edit: content and mode. `yours` is the current file, `base` the merged content."""

    content: bytes
    mode: int
    yours: Entry
    base: bytes
    base_mark: EntryMark


@dataclass(frozen=True, slots=True)
class _ReplacedFile:
    """An operation that replaced a file: the file before the merge, and the merged one."""

    op: Operation
    before: Entry
    left: EntryMark


def separate_edits(
    merging: merge_execution.Merge, kept: TextReader, number: int, left: EntryMark | None, now: Entry | None
) -> SeparatedEdit | str:
    """Separate the merge's edit from the user's later one at an operation's path.

    Return a string if that is impossible: the reason, to be added to the message that the file was changed, or "".
    """
    op = merging.journal.ops[number]
    op_stage = merging.stages[op.key.root]
    before = op_stage.entry_in(op.slot) if op_stage is not None and op.old is not None else None
    if op.kind is not OpKind.EXCHANGE or before is None or left is None or now is None or op_stage is None:
        return ""
    if not before.type is left.type is now.type is FileType.FILE:
        return ""
    is_kept = op.old is not None and (op.old.size, op.old.mtime) == (before.size, before.mtime)  # a copy may have another inode
    if not is_kept or now.attributes != before.attributes or now.mode & SPECIAL_BITS:
        return ", and not only its text"
    base, yours = kept.find(op.digest), _read(merging, op, now)
    older = _read_slot(op_stage, op.slot) if before.size <= hunks.MAX_DIFF_SIZE else None
    if base is None or yours is None or older is None:
        return ", and one of its versions is unknown"
    return _separate(_ReplacedFile(op, before, left), now, ThreeVersions(base, yours, older))


def _read_slot(op_stage: Stage, slot: str) -> bytes | None:
    try:
        return op_stage.read(slot)
    except PermissionError:
        return None  # an unreadable file


def _read(merging: merge_execution.Merge, op: Operation, now: Entry) -> bytes | None:
    """Return the user's content; None if the file changed, is too large, or unreadable."""
    real = merging.real_trees[op.key.root]
    try:
        data = real.read(op.key.path, hunks.MAX_DIFF_SIZE)
    except OSError:
        return None
    return data if real.entry_at(op.key.path) == now else None


def _separate(was: _ReplacedFile, now: Entry, sides: ThreeVersions) -> SeparatedEdit | str:
    """Decide with the three-way table, with the file before the merge on the agent's side."""
    base, yours, before = sides.base or b"", sides.yours or b"", sides.agent or b""
    decision = decide(was.before.with_values(mode=was.left.mode), now, was.before, sides.digests(), is_text=sides.is_text)
    match decision.verdict:
        case Verdict.CONFLICT:
            return f": {decision.why}"
        case Verdict.USE_AGENT:
            return SeparatedEdit(before, decision.mode, now, base, was.left)
        case Verdict.ALREADY_APPLIED | Verdict.KEEP_YOURS:
            return SeparatedEdit(yours, decision.mode, now, base, was.left)
        case Verdict.MERGE_TEXT:
            merged = merge3.merge_lines(base, yours, before)
            if merged.is_clean:
                return SeparatedEdit(merged.resolve(), decision.mode, now, base, was.left)
            count = len(merged.conflicts)
            return ", in the same lines" + (f" in {count} places" if count > 1 else "")


def stage_substitutes(merging: merge_execution.Merge, separated: Mapping[int, SeparatedEdit]) -> tuple[Substitute, ...]:
    """Write the resulting files into slots, and the merged files aside for the session, durable on return.

    Raises OSError.
    """
    asides: dict[int, Stage] = {}
    elsewhere = conclude.keys_stored_elsewhere(merging)
    try:
        instead = tuple(_stage(merging, number, one, asides, elsewhere) for number, one in separated.items())
        for op_stage in (*merging.stages, *asides.values()):
            if op_stage is not None and separated:
                op_stage.sync()
    finally:
        for op_stage in asides.values():
            op_stage.close()
    return instead


def _stage(
    merging: merge_execution.Merge, number: int, one: SeparatedEdit, asides: dict[int, Stage], elsewhere: frozenset[Key]
) -> Substitute:
    op = merging.journal.ops[number]
    op_stage = merging.stages[op.key.root]
    assert op_stage is not None  # noqa: S101  (it has the previous file)
    slot, agent = f"{op.slot}.apart", ""
    template = acl.with_acl_of(
        one.yours.with_values(mode=one.mode, mtime=time.time_ns()), merging.real_trees[op.key.root], op.key.path
    )
    old = _put(op_stage, slot, one.content, template, op.slot)
    if op.key not in elsewhere:
        aside_stage, agent = asides.get(op.key.root) or Stage(staging.aside_path(merging.folder, op.key.root)), op.slot
        asides[op.key.root] = aside_stage
        _put(aside_stage, agent, one.base, one.yours.with_values(mode=one.base_mark.mode, mtime=one.base_mark.mtime))
    return Substitute(number, replace(op, slot=slot, new=entry_mark(one.yours), old=old, digest=b""), agent)


def _put(op_stage: Stage, slot: str, data: bytes, template: Entry, own: str = "") -> EntryMark:
    if op_stage.entry_in(slot) is not None:
        durable.unlink(slot.encode(), op_stage.fd)  # left by a failed or repeated undo
    return op_stage.write(slot, data, template, own)[0]
