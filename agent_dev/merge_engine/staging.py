"""What a merge brings, put into slots: as operations in the order in which they are driven, and what the session needs."""

import os
import time
from dataclasses import replace

from agent_dev.errors import CannotMerge
from agent_dev.fs import acl as access
from agent_dev.fs import dir_tree as files
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine import upper_update as upper
from agent_dev.merge_engine import whole_directories as whole
from agent_dev.merge_engine.journal import Act, Mark, Op, mark
from agent_dev.merge_engine.merge_execution import Merge
from agent_dev.merge_engine.merge_plan import SPECIAL_BITS, MakeFolder, MergePlan, Prune, Put, Remove, SetMode, Step
from agent_dev.merge_engine.merged_texts import Results, is_wanted
from agent_dev.merge_engine.slots import Stage, is_stuck
from agent_dev.overlay.changes import Entry, FileType, Key

Kept = dict[Key, dict[str, str]]


def stage(merge: Merge, plan: MergePlan, uppers: tuple[files.Tree, ...]) -> tuple[tuple[Op, ...], Kept]:
    """Put all that a plan brings into slots, durable; return its operations in the order in which they are driven.

    Also return by key what was put aside in the merge's folder for the session: `part`, the base with only what was chosen,
    or `agent`, the agent's own file where something else lands.

    Directories that open come first, then removals, then directories from the outermost, then the rest; directories that
    shut their owner out come last. Raises CannotMerge; nothing was changed then.
    """
    staging = _Staging(merge, uppers)
    try:
        staging.find_whole(plan)
        for number, step in enumerate(plan.steps):
            merge.tell(number, 2 * len(plan.steps))
            staging.add(step)
        for key in plan.dropped:
            staging.drop(key)
        staging.adopt()
        staging.results.settle()
        for one in (*merge.stages, *staging.asides.values()):
            if one is not None:
                one.settle()
    except OSError as error:
        raise CannotMerge(path=error.filename or merge.folder, reason=f"{error.strerror}; nothing was changed") from error
    finally:
        staging.results.close()
        for one in staging.asides.values():
            one.close()
    folders = sorted(staging.folders, key=lambda op: op.key.path.count(b"/"))
    ops = (*staging.opening, *staging.removals, *folders, *staging.rest, *reversed(staging.closing))
    return ops, staging.kept


class _Staging:
    def __init__(self, merge: Merge, uppers: tuple[files.Tree, ...]) -> None:
        self._merge = merge
        self._uppers = uppers
        self._count = 0
        self.opening: list[Op] = []
        self.removals: list[Op] = []
        self.folders: list[Op] = []
        self.rest: list[Op] = []
        self.closing: list[Op] = []
        self.kept: Kept = {}
        self.adopted: list[tuple[int, Put, str]] = []  # place in `rest`, step, slot
        self.wholes: list[tuple[whole.Whole, str]] = []  # with their slots
        self._within: set[Key] = set()  # what comes with them
        self.asides: dict[int, Stage] = {}
        self.results = Results(merge.folder)

    def find_whole(self, plan: MergePlan) -> None:
        """Find the new directories that can come by one rename each, from a stage that is the merge's own."""
        for root in {step.key.root for step in plan.steps if isinstance(step, MakeFolder)}:
            if self._stage(Key(root, b"")).path.startswith(self._merge.folder):
                for one in whole.find(plan, root, self._uppers[root], self._merge.reals[root]):
                    slot = self._slot()
                    self.wholes.append((one, slot))
                    op = Op(Act.ATTACH, one.key, slot, one.mark, whole=one.members)
                    self.folders.append(op)
                    self._within |= {one.key, *(key for key, _ in op.below())}

    def _slot(self) -> str:
        self._count += 1
        return str(self._count)

    def _stage(self, key: Key) -> Stage:
        stage = self._merge.stages[key.root]
        assert stage is not None  # noqa: S101  (made for every root that the plan names)
        return stage

    def add(self, step: Step) -> None:
        if step.key in self._within:
            return
        match step:
            case MakeFolder():
                mode = access.without(step.mode, access.of(self._uppers[step.key.root], step.key.path))
                self._folder(step.key, Entry(FileType.DIRECTORY, mode, attributes=step.attributes))
            case Put():
                self._put(step)
            case Remove():
                self._demand_that_it_can_be_kept(step.key, step.expect)
                act = Act.PRUNE if step.expect.type is FileType.DIRECTORY else Act.DETACH
                self.removals.append(Op(act, step.key, self._slot(), old=self._leaving(step)))
            case Prune():
                found = self._merge.reals[step.key.root].look(step.key.path)
                if found is not None and found.type is FileType.DIRECTORY:
                    self.removals.append(Op(Act.PRUNE, step.key, self._slot(), old=mark(found), is_loose=True))
            case SetMode():
                self._mode(step)

    def _leaving(self, step: Remove) -> Mark:
        """Return the mark of what goes, of a directory with the attributes that it has: a base knows none, an undo needs them."""
        old = mark(step.expect)
        found = self._merge.reals[step.key.root].look(step.key.path) if old.type is FileType.DIRECTORY else None
        return replace(old, attributes=found.attributes) if found is not None and found.inode == old.inode else old

    def _folder(self, key: Key, entry: Entry, expect: Entry | None = None, *, is_loose: bool = True) -> None:
        slot = self._slot()
        new = self._stage(key).make(slot, entry)
        act, old = (Act.ATTACH, None) if expect is None else (Act.EXCHANGE, mark(expect))
        self.folders.append(Op(act, key, slot, new, old, is_loose=is_loose))
        if entry.mode & 0o777 != new.mode:
            self.closing.append(Op(Act.MODE, key, new=replace(new, mode=entry.mode & 0o777), old=new))

    def _with_access(self, step: Put) -> Put:
        """Return a step whose file has the access list of the one whose place it takes, or none."""
        key, after = step.key, step.after
        if after.type is not FileType.FILE:
            return step
        if step.expect is not None and step.expect.type is FileType.FILE:
            after = access.with_that_of(after, self._merge.reals[key.root], key.path)
        if after is step.after and step.content is not None:
            after = replace(after, mode=access.without(after.mode, access.of(self._uppers[key.root], key.path)))
        return replace(step, after=after)

    def _put(self, step: Put) -> None:
        step = self._with_access(step)
        if step.after.type is FileType.DIRECTORY:
            mode = access.without(step.after.mode, access.of(self._uppers[step.key.root], step.key.path))
            self._folder(step.key, replace(step.after, mode=mode), step.expect, is_loose=False)
            return
        slot, stage = self._slot(), self._stage(step.key)
        if step.expect is not None:
            self._demand_that_it_can_be_kept(step.key, step.expect)
        act, old = (Act.ATTACH, None) if step.expect is None else (Act.EXCHANGE, mark(step.expect))
        upper = self._uppers[step.key.root]
        if self._is_adoptable(step, stage):
            self.adopted.append((len(self.rest), step, slot))
            self.rest.append(Op(act, step.key, slot, mark(step.after), old))
            return
        if step.content is None:
            new, digest = stage.copy(slot, upper, step.key.path, step.after)
        else:
            new, digest = stage.put(slot, step.content, replace(step.after, mtime=step.after.mtime or time.time_ns()))
            self._keep(step, slot, upper)
        self.rest.append(Op(act, step.key, slot, new, old, digest))
        self._keep_result(step, self.rest[-1])

    def _demand_that_it_can_be_kept(self, key: Key, entry: Entry) -> None:
        """Raise CannotMerge for a file that would have to be copied to be kept, and is another's that may not be read."""
        is_moved = self._stage(key).path.startswith(self._merge.folder) and entry.links < 2
        if is_moved or entry.type is not FileType.FILE:
            return
        real = self._merge.reals[key.root]
        folder, _, name = key.path.rpartition(b"/")
        try:
            os.close(real.open(key.path, os.O_RDONLY))
        except PermissionError:
            if os.stat(name, dir_fd=real.folder(folder), follow_symlinks=False).st_uid != os.geteuid():
                reason = "it is another user's and may not be read, so it could not be kept for an undo; nothing was changed"
                raise CannotMerge(path=key.path, reason=reason, hint="leave it out") from None

    def _is_adoptable(self, step: Put, stage: Stage) -> bool:
        """Whether the session's own file can come instead of a copy: no other name leads to it, and nothing must be taken off."""
        after = step.after
        is_plain = after.type is FileType.FILE and after.links == 1 and after.mode & (SPECIAL_BITS | 0o400) == 0o400
        if not is_plain or step.content is not None or not stage.path.startswith(self._merge.folder):
            return False
        return not is_stuck(self._uppers[step.key.root], step.key.path)

    def adopt(self) -> None:
        """Move what can be moved, once the journal says what: a merge that comes to nothing gives it back."""
        moves = (*((one.key, slot) for one, slot in self.wholes), *((step.key, slot) for _, step, slot in self.adopted))
        if not moves:
            return
        self._merge.add(records.adopt_record(moves))
        for one, slot in self.wholes:
            stage = self._stage(one.key)
            upper.hand_over_whole(self._uppers[one.key.root], stage, one.key.path, slot)
            whole.ready(stage, slot, one)
        for place, step, slot in self.adopted:
            tree, stage = self._uppers[step.key.root], self._stage(step.key)
            self.rest[place] = replace(self.rest[place], digest=upper.hand_over(tree, stage, step.key.path, slot, step.after))
            self._keep_result(step, self.rest[place])

    def _keep_result(self, step: Put, op: Op) -> None:
        """Keep what is left of an edited file once more: an undo can then tell it from what the user does later."""
        if is_wanted(step.expect, step.after):
            self.results.add(step.content if step.content is not None else self._stage(step.key).read(op.slot), op.digest)

    def _keep(self, step: Put, slot: str, upper: files.Tree) -> None:
        """Put aside what the session needs when something else than its own file lands."""
        if step.part is not None:
            self._aside(step.key.root).put(slot, step.part, step.after)
            self.kept[step.key] = {"part": slot}
        else:
            self._keep_agents(step.key, slot, upper)

    def drop(self, key: Key) -> None:
        """Put aside the agent's own file of a change that only leaves the session."""
        self._keep_agents(key, self._slot(), self._uppers[key.root])

    def _keep_agents(self, key: Key, slot: str, upper: files.Tree) -> None:
        entry = upper.look(key.path)
        if entry is not None and entry.type is not FileType.DEVICE:  # else a deletion
            self._aside(key.root).copy(slot, upper, key.path, entry)
            self.kept[key] = {"agent": slot}

    def _aside(self, root: int) -> Stage:
        if root not in self.asides:
            self.asides[root] = Stage(aside(self._merge.folder, root))
        return self.asides[root]

    def _mode(self, step: SetMode) -> None:
        """07000 bits are never merged, and never taken from what has them and keeps them."""
        mode = step.after.mode & (0o777 | (step.expect.mode & SPECIAL_BITS))
        old = mark(step.expect)
        op = Op(Act.MODE, step.key, new=replace(old, mode=mode, attributes=step.after.attributes), old=old)
        (self.opening if step.expect.mode & 0o300 != 0o300 else self.closing).append(op)


def aside(folder: str, root: int) -> str:
    """Return where a merge keeps what the session needs of a root."""
    return f"{folder}/aside-{root}"
