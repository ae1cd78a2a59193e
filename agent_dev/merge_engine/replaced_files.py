"""Secure the files that a merge replaced: no hard links to them and no stages remain in the real tree."""

import os
from collections.abc import Collection
from collections.abc import Set as AbstractSet

from agent_dev.fs import acl, dir_tree, durable
from agent_dev.fs.entry import FileType
from agent_dev.merge_engine import journal_codec
from agent_dev.merge_engine.journal import EntryMark, Operation, OpKind, entry_mark
from agent_dev.merge_engine.merge_execution import Merge
from agent_dev.merge_engine.remove_merge import remove_stage
from agent_dev.merge_engine.slots import Stage
from agent_dev.quick_dataclass import dataclass

_Marks = tuple[EntryMark | None, EntryMark | None]  # an operation's new and old mark
_MarksByOp = dict[int, _Marks]


def secure_replaced_files(merge: Merge) -> None:
    """Move external stages to the merge's folder, and copy files with hard links. Raises OSError."""
    marks: _MarksByOp = {}
    stages = list(merge.stages)
    for root, stage in enumerate(merge.stages):
        if stage is None:
            continue
        own_path = f"{merge.folder}/stage-{root}"
        target = stage if stage.path == own_path else Stage(own_path)
        marks |= _copy_slots(merge, root, target)
        if target is not stage or marks:
            target.sync()
        if target is stage:
            _replace(target, [op.slot for number, op in enumerate(merge.journal.ops) if number in marks and op.key.root == root])
        stages[root] = target
    _record_stages(merge, tuple(stages), marks)
    _remove_unused_stages(merge)


def _record_stages(merge: Merge, stages: tuple[Stage | None, ...], marks: _MarksByOp) -> None:
    if not marks and stages == merge.stages:
        return
    all_marks = marks | _mode_marks(merge.journal.ops, marks)
    merge.append_record(journal_codec.moved_record(tuple(one.path if one else "" for one in stages), all_marks))
    for old, new in zip(merge.stages, stages, strict=True):
        if old is not None and old is not new:
            old.close()
    merge.stages = stages


def _mode_marks(ops: tuple[Operation, ...], marks: _MarksByOp) -> _MarksByOp:
    """Return the marks of mode operations on directories that have a new inode now."""
    copied = {
        (ops[number].key, was.inode): now.inode
        for number, sides in marks.items()
        for was, now in zip((ops[number].new, ops[number].old), sides, strict=True)
        if was is not None and now is not None and was.type is FileType.DIRECTORY
    }
    found: _MarksByOp = {}
    for number, op in enumerate(ops):
        if op.kind is OpKind.MODE and op.new is not None and op.old is not None and (op.key, op.new.inode) in copied:
            inode = copied[op.key, op.new.inode]
            found[number] = (op.new.with_values(inode=inode), op.old.with_values(inode=inode))
    return found


def _remove_unused_stages(merge: Merge) -> None:
    """Remove stages outside the merge's folder that the journal does not use any more, unless one keeps a version of the user."""
    current = {stage.path for stage in merge.stages if stage is not None}
    for path in merge.journal.stage_paths - current:
        if path and not path.startswith(f"{merge.folder}/") and not _has_users_version(merge, path):
            remove_stage(path)


def _has_users_version(merge: Merge, path: str) -> bool:
    """Return whether a stage has an entry that was not copied: a save of the user that could not be moved back.

    Only a stopped operation leaves one; after a power cut, other entries are unfinished copies.
    """
    stopped = _stopped_operations(merge)
    ops = {op.slot: op for number, op in enumerate(merge.journal.ops) if number in stopped and op.kind is not OpKind.PRUNE}
    try:
        found = [ops[name] for name in os.listdir(path) if name in ops]
    except FileNotFoundError:
        return False
    stages = ((merge.stages[op.key.root], op.slot) for op in found)
    return any(stage is None or stage.entry_in(slot) is None for stage, slot in stages)


@dataclass(frozen=True, slots=True)
class _Slot:
    """The content of an operation's slot: the old or new entry, and whether it is the user's."""

    op: Operation
    is_done: bool
    is_users: bool

    @property
    def wanted(self) -> EntryMark | None:
        return self.op.old if self.is_done else self.op.new

    def marks(self, now: EntryMark) -> _Marks:
        """Return the operation's marks with `now` as the entry in the slot."""
        return (self.op.new, now) if self.is_done else (now, self.op.old)


def _copy_slots(merge: Merge, root: int, target: Stage) -> _MarksByOp:
    """Copy the slots of a root where needed; return the new marks of operations whose inode changed."""
    stage, done = merge.stages[root], merge.journal.applied_ops()
    stopped, marks = _stopped_operations(merge), {}
    for number, op in enumerate(merge.journal.ops):
        if stage is not None and op.key.root == root and op.slot and not (number in stopped and _is_users(merge, number, done)):
            new_marks = _copy_slot(_slot(merge, number, done), stage, target)
            if new_marks is not None:
                marks[number] = new_marks
    return marks


def _stopped_operations(merge: Merge) -> Collection[int]:
    """Return the numbers of the operations that the last phase did not carry out."""
    last = merge.journal.phases[-1].result if merge.journal.phases else None
    return last.stopped if last is not None else ()


def _is_users(merge: Merge, number: int, done: AbstractSet[int]) -> bool:
    """Return whether the slot of a stopped operation has a save of the user that could not be moved back."""
    one = _slot(merge, number, done)
    stage = merge.stages[one.op.key.root]
    entry = stage.entry_in(one.op.slot) if stage is not None else None
    return entry is not None and not (one.wanted is not None and one.wanted.matches(entry))


def _slot(merge: Merge, number: int, done: AbstractSet[int]) -> _Slot:
    is_done = number in done
    return _Slot(merge.journal.ops[number], is_done, is_done or number in merge.journal.replaced)


def _copy_slot(one: _Slot, stage: Stage, target: Stage) -> _Marks | None:
    """Copy a slot if needed; return the operation's new marks if its inode changed."""
    op, wanted, entry = one.op, one.wanted, stage.entry_in(one.op.slot)
    if entry is None or wanted is None or op.kind is OpKind.PRUNE or entry.type is not wanted.type:
        return None
    is_elsewhere = target is not stage
    if not is_elsewhere and (entry.type is not FileType.FILE or entry.links < 2):
        return None if wanted.matches(entry) else one.marks(entry_mark(entry))
    slot = op.slot if is_elsewhere else f"{op.slot}.copy"
    source, path = dir_tree.Tree(stage.path, is_ours=True), op.slot.encode()  # includes unreadable files
    try:
        _remove_leftover(target, slot)
        entry = stage.entry_in(op.slot, is_copied=True) or entry
        entry = entry.with_values(attributes=acl.attributes_with_acl(source, path, entry))
        copy = target.copy_users_entry(slot, source, path, entry) if one.is_users else target.copy(slot, source, path, entry)[0]
    finally:
        source.close()
    return one.marks(copy.with_values(attributes=entry.attributes) if copy.type is FileType.DIRECTORY else copy)


def _replace(stage: Stage, slots: list[str]) -> None:
    """Replace hard-linked files by their copies, which are durable now."""
    copied = [slot for slot in slots if stage.entry_in(f"{slot}.copy") is not None]
    for slot in copied:
        durable.replace(stage.fd, f"{slot}.copy".encode(), slot.encode())
    if copied:
        stage.sync()


def _remove_leftover(stage: Stage, slot: str) -> None:
    """Remove an incomplete copy that a crash left."""
    found = stage.entry_in(slot)
    if found is not None:
        (durable.rmdir if found.type is FileType.DIRECTORY else durable.unlink)(slot.encode(), stage.fd)


def move_to_stages(merge: Merge, paths: tuple[str, ...]) -> None:
    """Move slots back to a stage from which a rename reaches the target, before an undo or a redo. Raises OSError."""
    stages = list(merge.stages)
    marks: _MarksByOp = {}
    for root, (path, stage) in enumerate(zip(paths, merge.stages, strict=True)):
        if stage is None or not path or path == stage.path:
            continue
        stages[root] = target = Stage(path)
        marks |= _copy_slots(merge, root, target)
        target.sync()
    _record_stages(merge, tuple(stages), marks)
