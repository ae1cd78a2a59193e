"""Stage the new content of a merge in slots, and save files that the session needs; return the operations in order."""

import os
import tempfile
import time

from agent_dev.errors import CannotMerge
from agent_dev.fs import acl, dir_tree, disk_space, durable
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.merge_engine import journal_codec, lfs_objects, upper_update, whole_directories
from agent_dev.merge_engine.journal import EntryMark, MemberMarks, Operation, OpKind, entry_mark
from agent_dev.merge_engine.merge_execution import Merge
from agent_dev.merge_engine.merge_plan import (
    SPECIAL_BITS,
    MakeDirectory,
    MergePlan,
    PruneDirectory,
    PutEntry,
    RemoveEntry,
    SetMode,
    Step,
)
from agent_dev.merge_engine.merged_texts import TextWriter, is_mergeable_text
from agent_dev.merge_engine.slots import Stage, excluded_attributes
from agent_dev.quick_dataclass import replace

SavedSlots = dict[Key, dict[str, str | int]]


def stage_plan(merge: Merge, plan: MergePlan, uppers: tuple[dir_tree.Tree, ...]) -> tuple[tuple[Operation, ...], SavedSlots]:
    """Copy or move all new content of a plan into slots, durable; return its operations in execution order.

    Also return by key the files saved in the merge's folder for the session: `part`, the base version with only the selected
    part, or `agent`, the agent's own file if something else is applied.

    Operations that make directories accessible come first, then removals, then directories from the outermost, then the rest;
    operations that make directories unreadable come last. Raises CannotMerge; nothing was changed then.
    """
    staging = _Staging(merge, uppers, is_restore=plan.is_restore)
    try:
        staging.find_whole(plan)
        for number, step in enumerate(plan.steps):
            merge.report_progress(number, 2 * len(plan.steps))
            staging.add(step)
        for key in plan.dropped:
            staging.drop(key)
        staging.adopt()
        staging.results.flush()
        for one in (*merge.stages, *staging.asides.values()):
            if one is not None:
                one.sync()
    except OSError as error:
        where = disk_space.failed_path(error, merge.folder, *(real.path for real in merge.real_trees))
        raise CannotMerge(path=where, reason=f"{error.strerror}; nothing was changed") from error
    finally:
        staging.results.close()
        for one in staging.asides.values():
            one.close()
    folders = sorted(staging.folders, key=lambda op: op.key.path.count(b"/"))
    ops = (*staging.opening, *staging.removals, *folders, *staging.rest, *reversed(staging.closing))
    return ops, staging.kept


class _Staging:
    def __init__(self, merge: Merge, uppers: tuple[dir_tree.Tree, ...], *, is_restore: bool) -> None:
        self._merge = merge
        self._is_restore = is_restore
        self._bits = 0o7777 if is_restore else 0o777
        for one in merge.stages:
            if one is not None:
                one.mode_mask = self._bits
        self._uppers = uppers
        self._count = 0
        self.opening: list[Operation] = []
        self.removals: list[Operation] = []
        self.folders: list[Operation] = []
        self.rest: list[Operation] = []
        self.closing: list[Operation] = []
        self.kept: SavedSlots = {}
        self.adopted: list[PutEntry | None] = []  # for each operation in `rest`: the step whose file is moved
        self.wholes: list[tuple[whole_directories.WholeDirectory, str]] = []  # and their slots
        self._whole_keys: set[Key] = set()
        self._members = MemberMarks(())  # of the whole directories
        self.asides: dict[int, Stage] = {}
        self.results = TextWriter(merge.folder)

    def find_whole(self, plan: MergePlan) -> None:
        """Find the new directories that one rename each can apply, from a stage in the merge's folder."""
        for root in {step.key.root for step in plan.steps if isinstance(step, MakeDirectory)}:
            if self._stage(Key(root, b"")).path.startswith(self._merge.folder):
                for one in whole_directories.find_whole_directories(plan, root, self._uppers[root], self._merge.real_trees[root]):
                    slot = self._slot()
                    self.wholes.append((one, slot))
                    self.folders.append(Operation(OpKind.ATTACH, one.key, slot, one.mark, members=one.members))
        self._whole_keys = {op.key for op in self.folders}
        self._members = MemberMarks(self.folders)

    def _slot(self) -> str:
        self._count += 1
        return str(self._count)

    def _stage(self, key: Key) -> Stage:
        stage = self._merge.stages[key.root]
        assert stage is not None  # noqa: S101  (made for every root that the plan names)
        return stage

    def add(self, step: Step) -> None:
        if step.key in self._whole_keys or self._members.get(step.key) is not None:
            return
        match step:
            case MakeDirectory():
                mode = acl.mode_without_acl(step.mode, acl.read_below(self._uppers[step.key.root], step.key.path))
                self._add_directory(step.key, Entry(FileType.DIRECTORY, mode, attributes=step.attributes))
            case PutEntry():
                self._add_put(step)
            case RemoveEntry():
                self._check_restorable(step.key, step.expected)
                act = OpKind.PRUNE if step.expected.type is FileType.DIRECTORY else OpKind.DETACH
                self.removals.append(Operation(act, step.key, self._slot(), old=self._removed_mark(step.key, step.expected)))
            case PruneDirectory():
                found = self._merge.real_trees[step.key.root].entry_at(step.key.path)
                if found is not None and found.type is FileType.DIRECTORY:
                    old = self._with_own_attributes(step.key, entry_mark(found), found)
                    self.removals.append(Operation(OpKind.PRUNE, step.key, self._slot(), old=old, is_auxiliary=True))
            case SetMode():
                self._add_mode(step)

    def _removed_mark(self, key: Key, expected: Entry) -> EntryMark:
        """Return the mark of an entry to remove or replace; for a directory with its attributes and ACL, which an undo needs."""
        old = entry_mark(expected)
        found = self._current(key, old)
        return self._with_own_attributes(key, old, found) if found is not None else old

    def _current(self, key: Key, old: EntryMark) -> Entry | None:
        """Return a directory's current entry, with attributes that the base may lack; None if it was replaced."""
        found = self._merge.real_trees[key.root].entry_at(key.path) if old.type is FileType.DIRECTORY else None
        return found if found is not None and found.inode == old.inode else None

    def _with_own_attributes(self, key: Key, old: EntryMark, found: Entry) -> EntryMark:
        """Return the mark of a directory with its current attributes and ACL."""
        return old.with_values(attributes=acl.attributes_with_acl(self._merge.real_trees[key.root], key.path, found))

    def _add_directory(self, key: Key, entry: Entry, expect: Entry | None = None, *, is_loose: bool = True) -> None:
        slot = self._slot()
        new = self._stage(key).create(slot, entry)
        act, old = (OpKind.ATTACH, None) if expect is None else (OpKind.EXCHANGE, entry_mark(expect))
        self.folders.append(Operation(act, key, slot, new, old, is_auxiliary=is_loose))
        if entry.mode & self._bits != new.mode:
            self.closing.append(Operation(OpKind.MODE, key, new=new.with_values(mode=entry.mode & self._bits), old=new))

    def _with_acl(self, step: PutEntry) -> PutEntry:
        """Return a step whose file has the ACL of the file that it replaces, or none."""
        key, after = step.key, step.after
        if after.type is not FileType.FILE:
            return step
        if self._is_restore:
            return replace(step, after=acl.with_acl_of(after, self._uppers[key.root], key.path))
        if step.expected is not None and step.expected.type is FileType.FILE:
            after = acl.with_acl_of(after, self._merge.real_trees[key.root], key.path)
        if after is step.after and (step.content is not None or step.source is not None):
            after = after.with_values(mode=acl.mode_without_acl(after.mode, acl.read_below(self._uppers[key.root], key.path)))
        return step if after is step.after else replace(step, after=after)

    def _add_put(self, step: PutEntry) -> None:
        step = self._with_acl(step)
        if step.after.type is FileType.DIRECTORY:
            mode = acl.mode_without_acl(step.after.mode, acl.read_below(self._uppers[step.key.root], step.key.path))
            self._add_directory(step.key, step.after.with_values(mode=mode), step.expected, is_loose=False)
            return
        slot, stage = self._slot(), self._stage(step.key)
        act, old = OpKind.ATTACH, None
        if step.expected is not None:
            self._check_restorable(step.key, step.expected)
            act, old = OpKind.EXCHANGE, self._removed_mark(step.key, step.expected)
        upper = self._uppers[step.key.root]
        if self._is_adoptable(step, stage):
            self.adopted.append(step)
            self.rest.append(Operation(act, step.key, slot, entry_mark(step.after), old))
            return
        self.adopted.append(None)
        if step.source is not None:
            after = step.after.with_values(mtime=step.after.mtime or time.time_ns())
            new, digest = lfs_objects.copy_to_slot(step.source, stage, slot, after)
        elif step.content is None:
            new, digest = stage.copy(slot, upper, step.key.path, step.after)
        else:
            new, digest = stage.write(slot, step.content, step.after.with_values(mtime=step.after.mtime or time.time_ns()))
            self._save_for_session(step, slot, upper)
        self.rest.append(
            Operation(
                act,
                step.key,
                slot,
                new,
                old,
                bytes.fromhex(digest),
                attributes_digest=_attributes_digest(stage, slot, step.after),
            )
        )
        self._save_result(step, self.rest[-1])

    def _check_restorable(self, key: Key, entry: Entry) -> None:
        """Raise CannotMerge for an unreadable file of another user, and for attributes that cannot be stored with the merge.

        An undo would need a copy of it.
        """
        is_external = not self._stage(key).path.startswith(self._merge.folder)
        real = self._merge.real_trees[key.root]
        if is_external and (found := real.entry_at(key.path)) is not None and found.attributes:
            self._check_attributes(key, found)
        if entry.type is not FileType.FILE or (not is_external and entry.links < 2):
            return
        folder, _, name = key.path.rpartition(b"/")
        try:
            os.close(real.open(key.path, os.O_RDONLY))
        except PermissionError:
            if os.stat(name, dir_fd=real.directory(folder), follow_symlinks=False).st_uid != os.geteuid():
                reason = "it belongs to another user and is unreadable, so an undo could not restore it; nothing was changed"
                raise CannotMerge(path=key.path, reason=reason, hint="deselect it") from None

    def _check_attributes(self, key: Key, entry: Entry) -> None:
        """Raise CannotMerge for an entry whose attributes the merge's folder, on another file system, cannot store."""
        try:
            with tempfile.TemporaryFile(dir=self._merge.folder) as probe:
                for attribute, value in entry.attributes:
                    os.setxattr(probe.fileno(), attribute, value)
        except OSError as error:
            why = f"the state directory cannot store its attributes ({error.strerror}), so an undo could not restore it"
            raise CannotMerge(path=key.path, reason=f"{why}; nothing was changed", hint="deselect it") from None

    def _is_adoptable(self, step: PutEntry, stage: Stage) -> bool:
        """Return whether the session's file can be moved instead of copied: no hard links and no attributes to remove."""
        after = step.after
        is_plain = after.type is FileType.FILE and after.links == 1 and after.mode & (SPECIAL_BITS | 0o400) == 0o400
        if not is_plain or step.content is not None or step.source is not None or not stage.path.startswith(self._merge.folder):
            return False
        attributes = excluded_attributes(self._uppers[step.key.root], step.key.path)
        can_remove = after.mode & 0o200 or not attributes  # the kernel does not remove attributes from a read-only file
        return bool(can_remove) and not any(one.startswith("security.") for one in attributes)

    def adopt(self) -> None:
        """Move the adoptable entries, after the journal lists them: a failed merge moves them back."""
        adopted = (op for step, op in zip(self.adopted, self.rest, strict=True) if step is not None)
        moves = (*((one.key, slot) for one, slot in self.wholes), *((op.key, op.slot) for op in adopted))
        if not moves:
            return
        journal = self._merge.journal
        self._merge.append_records(journal_codec.adopt_records(moves), replace(journal, adopted=journal.adopted.add(moves)))
        for one, slot in self.wholes:
            stage = self._stage(one.key)
            upper_update.move_directory_to_slot(self._uppers[one.key.root], stage, one.key.path, slot)
            whole_directories.prepare_in_slot(stage, slot, one)
        for place, step in enumerate(self.adopted):
            if step is None:
                continue
            op = self.rest[place]
            tree, stage, slot = self._uppers[step.key.root], self._stage(step.key), op.slot
            digest = upper_update.move_to_slot(tree, stage, step.key.path, slot, step.after)
            new = entry_mark(step.after)
            if (found := stage.entry_in(slot)) is not None and found.mode != new.mode:
                new = new.with_values(mode=found.mode)  # the mode may differ without the agent's ACL
            self.rest[place] = replace(
                op, new=new, digest=bytes.fromhex(digest), attributes_digest=_attributes_digest(stage, slot, step.after)
            )
            self._save_result(step, self.rest[place])

    def _save_result(self, step: PutEntry, op: Operation) -> None:
        """Save an edited file's result, so that an undo can separate the user's later edits from it."""
        if is_mergeable_text(step.expected, step.after):
            self.results.add(step.content if step.content is not None else self._stage(step.key).read(op.slot), op.digest)

    def _save_for_session(self, step: PutEntry, slot: str, upper: dir_tree.Tree) -> None:
        """Save the file that the session needs if other content is applied."""
        if step.part is not None:
            # Its mode is in the record: with the agent's own, the file may be unreadable.
            self._aside_stage(step.key.root).write(slot, step.part.content, step.after.with_values(mode=0o600))
            self.kept[step.key] = {"part": slot, "part_mode": step.part.mode}
        else:
            self._save_agents_file(step.key, slot, upper)

    def drop(self, key: Key) -> None:
        """Save the agent's file of a change that will only be removed from the session."""
        self._save_agents_file(key, self._slot(), self._uppers[key.root])

    def _save_agents_file(self, key: Key, slot: str, upper: dir_tree.Tree) -> None:
        entry = upper.entry_at(key.path)
        if entry is not None and entry.type is not FileType.DEVICE:  # else a deletion
            aside_stage = self._aside_stage(key.root)
            aside_stage.copy(slot, upper, key.path, entry)
            if entry.type is FileType.DIRECTORY:
                durable.chmod_at(slot.encode(), aside_stage.fd, entry.mode)  # recorded nowhere else
            self.kept[key] = {"agent": slot}

    def _aside_stage(self, root: int) -> Stage:
        if root not in self.asides:
            self.asides[root] = Stage(aside_path(self._merge.folder, root))
        return self.asides[root]

    def _add_mode(self, step: SetMode) -> None:
        """Add a mode operation. 07000 bits are never merged, and never removed from an entry that has and keeps them."""
        mode = step.after.mode if self._is_restore else step.after.mode & (0o777 | (step.expected.mode & SPECIAL_BITS))
        old = entry_mark(step.expected)
        if (found := self._current(step.key, old)) is not None:
            old = old.with_values(attributes=found.attributes)
        op = Operation(OpKind.MODE, step.key, new=old.with_values(mode=mode, attributes=step.after.attributes), old=old)
        is_opening = step.expected.mode & 0o300 != 0o300 and mode & 0o300 == 0o300
        (self.opening if is_opening else self.closing).append(op)


def _attributes_digest(stage: Stage, slot: str, entry: Entry) -> str:
    """Return the digest of a slot's attributes and ACLs; links and FIFOs have none that matter."""
    return stage.attributes_digest(slot) if entry.type is FileType.FILE else ""


def aside_path(folder: str, root: int) -> str:
    """Return the directory where a merge saves a root's files for the session."""
    return f"{folder}/aside-{root}"
