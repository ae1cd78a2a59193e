"""What a merge replaced, kept so that nothing can reach it any more: no twin by a hard link, nothing left in the real tree."""

from dataclasses import dataclass, replace

from agent_dev.fs import acl as access
from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine.journal import Act, Mark, Op, mark
from agent_dev.merge_engine.merge_execution import Merge, remove_for_good
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay.changes import FileType


def secure(merge: Merge) -> None:
    """Bring what lies in stages elsewhere home to the merge's folder, and copy what has other names. Raises OSError."""
    marks: dict[int, tuple[Mark | None, Mark | None]] = {}
    stages, done = list(merge.stages), merge.journal.done()
    for root, stage in enumerate(merge.stages):
        if stage is None:
            continue
        home = f"{merge.folder}/stage-{root}"
        into = stage if stage.path == home else Stage(home)
        for number, op in enumerate(merge.journal.ops):
            if op.key.root == root and op.slot:
                moved = _bring(_slot(merge, number, done), stage, into)
                if moved is not None:
                    marks[number] = moved
        if into is not stage or marks:
            into.settle()
        if into is stage:
            _replace(into, [op.slot for number, op in enumerate(merge.journal.ops) if number in marks and op.key.root == root])
        stages[root] = into
    _record(merge, tuple(stages), marks)
    _remove_strays(merge)


def _record(merge: Merge, stages: tuple[Stage | None, ...], marks: dict[int, tuple[Mark | None, Mark | None]]) -> None:
    if not marks and stages == merge.stages:
        return
    every = marks | _followed(merge.journal.ops, marks)
    merge.add(records.moved_record(tuple(one.path if one else "" for one in stages), every))
    for old, new in zip(merge.stages, stages, strict=True):
        if old is not None and old is not new:
            old.close()
    merge.stages = stages


def _followed(
    ops: tuple[Op, ...], marks: dict[int, tuple[Mark | None, Mark | None]]
) -> dict[int, tuple[Mark | None, Mark | None]]:
    """Return the marks of operations that give a mode to a directory that is another inode now."""
    copied = {
        (ops[number].key, was.inode): now.inode
        for number, sides in marks.items()
        for was, now in zip((ops[number].new, ops[number].old), sides, strict=True)
        if was is not None and now is not None and was.type is FileType.DIRECTORY
    }
    found: dict[int, tuple[Mark | None, Mark | None]] = {}
    for number, op in enumerate(ops):
        if op.act is Act.MODE and op.new is not None and op.old is not None and (op.key, op.new.inode) in copied:
            inode = copied[op.key, op.new.inode]
            found[number] = (replace(op.new, inode=inode), replace(op.old, inode=inode))
    return found


def _remove_strays(merge: Merge) -> None:
    """Remove stages outside the merge's folder in which nothing lies that the journal knows."""
    current = {stage.path for stage in merge.stages if stage is not None}
    for place in merge.journal.places - current:
        if place and not place.startswith(f"{merge.folder}/"):
            remove_for_good(place)


@dataclass(frozen=True, slots=True)
class _Slot:
    """What lies in an operation's slot: by the journal, what stood at its path before, or what comes; and whose it is."""

    op: Op
    is_done: bool
    is_users: bool

    @property
    def wanted(self) -> Mark | None:
        return self.op.old if self.is_done else self.op.new

    def marks(self, now: Mark) -> tuple[Mark | None, Mark | None]:
        """Return the operation's marks when this lies in the slot."""
        return (self.op.new, now) if self.is_done else (now, self.op.old)


def _slot(merge: Merge, number: int, done: frozenset[int]) -> _Slot:
    is_done = number in done
    return _Slot(merge.journal.ops[number], is_done, is_done or number in merge.journal.replaced)


def _bring(one: _Slot, stage: Stage, into: Stage) -> tuple[Mark | None, Mark | None] | None:
    """Copy a slot where it must be copied; return the operation's marks when another inode lies there than they say."""
    op, wanted, entry = one.op, one.wanted, stage.look(one.op.slot)
    if entry is None or wanted is None or op.act is Act.PRUNE or entry.type is not wanted.type:
        return None
    is_elsewhere = into is not stage
    if not is_elsewhere and (entry.type is not FileType.FILE or entry.links < 2):
        return None if wanted.is_(entry) else one.marks(mark(entry))
    slot = op.slot if is_elsewhere else f"{op.slot}.copy"
    source, path = files.Tree(stage.path, is_ours=True), op.slot.encode()  # also of what its owner may not read
    try:
        _clear(into, slot)
        entry = access.with_that_of(entry, source, path)
        copy = into.keep(slot, source, path, entry) if one.is_users else into.copy(slot, source, path, entry)[0]
    finally:
        source.close()
    return one.marks(copy)


def _replace(stage: Stage, slots: list[str]) -> None:
    """Let copies take the place of what has other names, now that they are durable."""
    copied = [slot for slot in slots if stage.look(f"{slot}.copy") is not None]
    for slot in copied:
        disk.replace(stage.fd, f"{slot}.copy".encode(), slot.encode())
    if copied:
        stage.settle()


def _clear(stage: Stage, slot: str) -> None:
    """Remove a copy that a crash cut short."""
    found = stage.look(slot)
    if found is not None:
        (disk.rmdir if found.type is FileType.DIRECTORY else disk.unlink)(slot.encode(), stage.fd)


def restage(merge: Merge, places: tuple[str, ...]) -> None:
    """Bring slots to where a rename reaches the target again, before an undo or a redo. Raises OSError."""
    stages, done = list(merge.stages), merge.journal.done()
    marks: dict[int, tuple[Mark | None, Mark | None]] = {}
    for root, (place, stage) in enumerate(zip(places, merge.stages, strict=True)):
        if stage is None or not place or place == stage.path:
            continue
        stages[root] = into = Stage(place)
        for number, op in enumerate(merge.journal.ops):
            if op.key.root == root and op.slot:
                moved = _bring(_slot(merge, number, done), stage, into)
                if moved is not None:
                    marks[number] = moved
        into.settle()
    _record(merge, tuple(stages), marks)
