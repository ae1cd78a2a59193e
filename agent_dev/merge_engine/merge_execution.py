"""Carry out a merge plan, take it back, do it again, and bring an interrupted one to rest (decision 0010).

The order is what makes it all-or-nothing: the journal's first record, which says where staged things lie; the staged things;
the record of every operation; the operations; the record that they are done. All durable before the next begins. Killed
anywhere before the last record, everything is driven back; after it, nothing is left to do in the real tree.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent_dev.errors import CannotMerge, RecoveryRequired, UnknownOutcome
from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.fs.rmtree import remove_tree
from agent_dev.git import user_refs as users_refs
from agent_dev.linux import pid_namespace as leftovers
from agent_dev.merge.engine import pending
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine import journal_file as journals
from agent_dev.merge_engine import upper_update as upper
from agent_dev.merge_engine import whole_directories as whole
from agent_dev.merge_engine.driver import Driver
from agent_dev.merge_engine.journal import Act, Begin, GitSide, Instead, Journal, Mark, Op, Phase, Place, Reached, mark
from agent_dev.merge_engine.merge_plan import change_of
from agent_dev.merge_engine.slots import Stage, choose
from agent_dev.overlay.changes import Change, Entry, FileType, Key
from agent_dev.session.store import Store

Row = Mapping[str, Any]
Tell = Callable[[int, int], object]  # is told how many of how many steps are done


def silent(_done: int, _whole: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Grounds:
    """Where a merge happens: uppers and real trees by root, and for each root the places where staged things may lie."""

    uppers: tuple[files.Tree, ...]
    reals: tuple[files.Tree, ...]
    places: tuple[tuple[str, ...], ...]
    git: str = ""  # a git dir whose index is replaced: the last of the real trees, without an upper
    tell: Tell = silent


@dataclass(slots=True)
class Merge:
    """A merge on disk: its folder, what its journal says, its trees, open stages and the journal for writing."""

    store: Store
    id: str
    folder: str
    journal: Journal
    reals: tuple[files.Tree, ...]
    stages: tuple[Stage | None, ...]
    file: journals.JournalFile
    owns_trees: bool = False  # opened for it alone
    keeps: bool = False  # its folder holds something of the user's, and must stay
    lock: int = -1  # under which it works
    tell: Tell = silent
    _changes: tuple[Change, ...] | None = None

    def changes(self) -> tuple[Change, ...]:
        """Return what it was to bring, as far as its journal tells."""
        if self._changes is None or len(self._changes) != len(self.journal.rows):
            self._changes = tuple(map(change_of, self.journal.rows))
        return self._changes

    def driver(self) -> Driver:
        """Return what drives its operations."""
        modes = {op.key for op in self.journal.ops if op.act is Act.MODE}
        return Driver(self.reals, self.stages, frozenset(op.key for op in self.journal.ops if op.act is not Act.MODE) & modes)

    def add(self, *rows: Row, says: Journal | None = None) -> None:
        """Write records, and take them in as a later command would. Raises OSError, or UnknownOutcome.

        `says`: the journal with them, where the caller has it: reading thousands of operations again takes its time.
        """
        try:
            lines = self.file.add(*rows)
        except journals.UnknownOutcomeError as error:
            raise UnknownOutcome(merge=self.id, reason=str(error)) from error
        if says is not None:
            self.journal = replace(says, chain=records.chain_of(lines[-1]))
            return
        for line in lines:
            self.journal = records.after(self.journal, line)

    def close(self) -> None:
        """Close stages and journal, and trees that were opened for it."""
        if self.owns_trees:
            for tree in self.reals:
                tree.close()
        for stage in self.stages:
            if stage is not None:
                stage.close()
        self.file.close()


def begin(store: Store, merge_id: str, session: str, grounds: Grounds, wanted: Iterable[int]) -> Merge:
    """Make a merge's folder, journal and stages for the roots that are wanted. Raises CannotMerge; nothing was changed then."""
    folder = f"{store.merges}/{merge_id}"
    roots = set(wanted)
    try:
        os.mkdir(folder, 0o700)
        places = tuple(
            _place(grounds.reals[number], grounds.places[number]) if number in roots else ""
            for number in range(len(grounds.reals))
        )
        pending.add(store, merge_id)
        file = journals.JournalFile(folder)
        disk.sync_path(store.merges)  # else a power cut may take the folder with all that is in it
        about = Begin(
            merge_id, session, tuple(map(_root, grounds.reals)), places, time.time_ns(), grounds.git, leftovers.boot_id()
        )
        (line,) = file.add(records.begin_record(about))
        stages = tuple(Stage(place) if place else None for place in places)
    except (OSError, journals.UnknownOutcomeError) as error:
        forget_if_possible(store, merge_id, ())
        where = error.filename if isinstance(error, OSError) and error.filename else folder
        raise CannotMerge(path=where, reason=f"{_reason(error)}; nothing was changed") from error
    except CannotMerge:
        forget_if_possible(store, merge_id, ())
        raise
    return Merge(store, merge_id, folder, records.after(Journal(), line), grounds.reals, stages, file, tell=grounds.tell)


def _place(real: files.Tree, candidates: tuple[str, ...]) -> str:
    place = choose(candidates, real)
    if place is None:
        raise CannotMerge(path=real.path, reason="no place from which a rename reaches it; nothing was changed")
    return place


def _root(tree: files.Tree) -> tuple[str, int, int]:
    status = os.fstat(tree.fd)
    return tree.path, status.st_dev, status.st_ino


def forget(store: Store, merge_id: str, stages: Iterable[str]) -> None:
    """Remove a merge of which nothing is in any tree: stages elsewhere first, its folder by one rename."""
    for place in stages:
        if place and not place.startswith(f"{store.merges}/"):
            remove_for_good(place)
    gone = f"{store.gone}/{merge_id}"
    try:
        os.makedirs(store.gone, 0o700, exist_ok=True)
        os.rename(f"{store.merges}/{merge_id}", gone)
        disk.sync_path(store.merges)  # else a power cut may bring it back without its journal
    except FileNotFoundError:
        pass
    remove_tree(gone)
    pending.remove(store, merge_id)


def remove_for_good(place: str) -> None:
    """Remove a stage from among the user's files; durable on return, for nobody looks for it again."""
    try:
        remove_tree(place)
        disk.sync_path(os.path.dirname(place))
    except FileNotFoundError:
        pass  # with the directory in which it was


def forget_if_possible(store: Store, merge_id: str, stages: Iterable[str]) -> None:
    """As `forget`; what a failing disk leaves the next command removes."""
    try:
        forget(store, merge_id, stages)
    except OSError:
        return


def disown(merge: Merge, uppers: tuple[files.Tree, ...]) -> None:
    """Move what was adopted and did not arrive back into the session, where it is still in its slot, durable. Raises OSError."""
    arrived = {merge.journal.ops[number].key for number in merge.journal.done()}
    roots = set()
    for key, slot in merge.journal.adopted:
        stage = merge.stages[key.root]
        if key not in arrived and stage is not None and stage.look(slot) is not None:
            upper.move_in(uppers[key.root], merge.reals[key.root], stage, key.path, slot)
            roots.add(key.root)
    for root in roots:
        disk.syncfs(uppers[root].fd)  # before the stage goes


# Driving


def carry_out(
    merge: Merge, ops: tuple[Op, ...], rows: tuple[Row, ...], *, is_atomic: bool, git: GitSide | None = None
) -> Reached:
    """Drive a merge's operations forward, and move refs when they are done; return how it ended, durable.

    When nothing could be done, or with `is_atomic` not everything, all is as it was, and the journal has no such phase.
    Raises CannotMerge when the disk failed or a ref moved and all is as it was, UnknownOutcome when the disk does not say.
    """
    phase = Phase("merge", tuple(range(len(ops))), is_forward=True, time=time.time_ns())
    try:
        says = replace(merge.journal, ops=ops, rows=tuple(dict(row) for row in rows), git=git).with_phase(phase)
        merge.add(records.intent_record(ops, rows, git), records.phase_record(phase), says=says)
        pending.add(merge.store, merge.id, merge.journal.begun)
    except OSError as error:
        raise CannotMerge(path=merge.folder, reason=f"{error.strerror}; nothing was changed") from error
    return _drive(merge, phase, is_atomic=is_atomic)


def again(merge: Merge, why: str, numbers: tuple[int, ...], *, is_forward: bool, instead: tuple[Instead, ...] = ()) -> Reached:
    """Drive operations of an earlier merge back, or forward again, as `carry_out`; `instead` of some an undo's own, staged."""
    phase = Phase(why, numbers, is_forward, time.time_ns(), instead=instead)
    begun = merge.journal.begun
    try:
        merge.add(records.phase_record(phase))
        pending.add(merge.store, merge.id, merge.journal.begun)
    except OSError as error:
        if merge.journal.begun > begun:
            _roll_back_or_say(merge, {}, error)
        raise CannotMerge(path=merge.folder, reason=f"{error.strerror}; nothing was changed") from error
    return _drive(merge, phase, is_atomic=False)


def _drive(merge: Merge, phase: Phase, *, is_atomic: bool) -> Reached:
    driver = merge.driver()
    ops = [(number, merge.journal.ops[number]) for number in phase.numbers]
    stopped: dict[int, str] = {}
    try:
        stopped = driver.forward(_told(ops, merge.tell), is_strict=phase.why == "merge") if phase.is_forward else driver.back(ops)
        driver.sync()
        if phase.is_forward:
            stopped |= _given_back(driver, [(number, op) for number, op in ops if number not in stopped])
        merge.keeps = driver.keeps
        if (is_atomic and any(stopped.values())) or (ops and all(number in stopped or op.is_loose for number, op in ops)):
            _roll_back_or_say(merge, stopped)
            return Reached(stopped)
        reached = Reached(stopped, driver.found((number, op) for number, op in ops if number not in stopped))
        has_refs = merge.journal.moves_refs(is_forward=phase.is_forward)
        if has_refs and merge.journal.git is not None:
            users_refs.swap(merge.journal.git, merge.id, merge.lock, is_forward=phase.is_forward)
        else:
            merge.add(records.reached_record(reached), says=merge.journal.with_reached(reached))
    except (OSError, users_refs.RefMovedError) as error:
        _roll_back_or_say(merge, stopped, error)
        where = (error.filename if isinstance(error, OSError) else error.name) or merge.reals[0].path
        raise CannotMerge(path=where, reason=f"{_reason(error)}; nothing was changed") from error
    if has_refs:
        _say_reached(merge, reached)
    return reached


def _say_reached(merge: Merge, reached: Reached) -> None:
    """Write the end of a phase down whose refs have moved: from here on there is no way back. Raises UnknownOutcome."""
    try:
        merge.add(records.reached_record(reached), says=merge.journal.with_reached(reached))
    except OSError as error:
        raise UnknownOutcome(merge=merge.id, reason=_reason(error)) from error


def go_on(merge: Merge) -> bool:
    """Bring a phase to its end whose refs had moved, which come after all else; return whether it was so. Raises OSError."""
    phase, git = merge.journal.phases[-1], merge.journal.git
    if git is None or not merge.journal.moves_refs(is_forward=phase.is_forward):
        return False
    if not users_refs.have_moved(git, is_forward=phase.is_forward):
        return False
    users_refs.swap_rest(git, merge.id, merge.lock, is_forward=phase.is_forward)
    driver = merge.driver()
    ops = [(number, merge.journal.ops[number]) for number in phase.numbers]
    places = {number: driver.place(op, is_forward=phase.is_forward) for number, op in ops}
    stopped = {number: "" for number, place in places.items() if place is not Place.DRIVEN}
    reached = Reached(stopped, driver.found((number, op) for number, op in ops if number not in stopped))
    merge.add(records.reached_record(reached), says=merge.journal.with_reached(reached))
    return True


def _told(ops: list[tuple[int, Op]], tell: Tell) -> Iterator[tuple[int, Op]]:
    """Yield operations and tell how far it is: as many steps again were prepared before."""
    for done, one in enumerate(ops, 1):
        yield one
        tell(len(ops) + done, 2 * len(ops))


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _given_back(driver: Driver, done: list[tuple[int, Op]]) -> dict[int, str]:
    """Drive back what somebody wrote to through an old descriptor, so that what was written is at its path again."""
    written = driver.written_behind(done)
    failed = driver.back((number, op) for number, op in done if number in written)
    driver.sync()
    return {number: why for number, why in written.items() if number not in failed}


def _roll_back_or_say(merge: Merge, stopped: Mapping[int, str], error: Exception | None = None) -> None:
    first = f"{_reason(error)}, and then " if error is not None else ""
    try:
        problems = roll_back(merge, without=frozenset(stopped))
    except OSError as second:
        raise UnknownOutcome(merge=merge.id, reason=f"{first}{_reason(second)}") from error
    if problems:
        raise UnknownOutcome(merge=merge.id, reason=f"{first}{'; '.join(problems.values())}") from error


def roll_back(merge: Merge, *, without: frozenset[int] = frozenset(), past_strangers: bool = False) -> dict[Key, str]:
    """Drive the last phase, which did not reach its end, back to where it began.

    Returns the paths where a stranger is in the way; then nothing was changed, unless `past_strangers`: they stay as they
    are and the rest goes back. `without`: operations that are known not to have happened. Raises OSError.
    """
    part(merge, [number for number in merge.journal.phases[-1].numbers if number not in without])
    *_, phase = merge.journal.phases
    driver = merge.driver()
    ops = [(number, merge.journal.ops[number]) for number in phase.numbers if number not in without]
    places = {number: driver.place(op, is_forward=phase.is_forward) for number, op in ops}
    strange = {op.key: "something else is there now" for number, op in ops if places[number] is Place.STRANGE and not op.is_loose}
    if strange and not past_strangers:
        return strange
    driven = [(number, op) for number, op in ops if places[number] is Place.DRIVEN]
    stopped = driver.back(driven) if phase.is_forward else driver.forward(driven, is_strict=False)
    for _, op in ops:
        driver.touch(op)  # a recovery that was killed may have driven it back, not durable
    driver.sync()
    ops_by_number = dict(driven)
    failed = {ops_by_number[number].key: why for number, why in stopped.items() if why and not ops_by_number[number].is_loose}
    if failed and not past_strangers:
        return failed
    merge.add(records.back_record(_seen_again(merge, tuple(number for number, _ in ops))))
    return {}


def _seen_again(merge: Merge, numbers: tuple[int, ...]) -> dict[int, Mark]:
    """Return what stands at paths as the phase before the last one left it, but for ctimes, and inodes of remade directories."""
    seen = {}
    for number, was in merge.journal.found().items():
        op = merge.journal.ops[number]
        if number in numbers and was is not None and (was.type is not FileType.DIRECTORY or op.act is Act.PRUNE):
            now = merge.reals[op.key.root].look(op.key.path)
            if now is not None and _is_again(was, now):
                seen[number] = mark(now)
    return seen


def _is_again(was: Mark, now: Entry) -> bool:
    if was.type is FileType.DIRECTORY:
        return (now.type, now.mode) == (was.type, was.mode) and now.inode != was.inode
    return was.is_(now) and (was.mode, was.mtime) == (now.mode, now.mtime) and was.ctime != now.ctime


def part(merge: Merge, numbers: Iterable[int]) -> None:
    """Make many operations of each whole directory that stands at its path other than it came. Raises OSError."""
    for number in numbers:
        op = merge.journal.ops[number]
        stage = merge.stages[op.key.root]
        real = merge.reals[op.key.root]
        if op.whole and stage is not None and stage.look(op.slot) is None and not whole.is_as_at(real, op):
            digests = whole.digests(real, op)
            merge.add(records.parted_record(number, digests), says=merge.journal.parted(number, digests))


# Opening what is there


def open_merge(store: Store, merge_id: str) -> Merge:
    """Open a merge for undo, redo or recovery. Raises RecoveryRequired when what its journal says is not what is there."""
    folder = f"{store.merges}/{merge_id}"
    said = read(folder, merge_id)
    if said.begin is None:
        raise RecoveryRequired(merge=merge_id, reason="its journal has no beginning")
    if said.begun < pending.phases(store, merge_id):
        raise RecoveryRequired(merge=merge_id, reason="its journal is cut off")
    reals: list[files.Tree] = []
    stages: list[Stage | None] = []
    try:
        for number, (path, _, _) in enumerate(said.begin.roots):
            reals.append(files.Tree(path))
            status = os.fstat(reals[-1].fd)
            if not said.begin.is_root(number, status.st_dev, status.st_ino, leftovers.boot_id()):
                raise RecoveryRequired(merge=merge_id, reason=f"{path} is another directory than it was")
        stages.extend(Stage(place) if place and os.path.isdir(place) else None for place in said.begin.stages)
        file = journals.JournalFile(folder)
    except OSError as error:
        _close(reals, stages)
        raise RecoveryRequired(merge=merge_id, reason=f"{error.filename}: {error.strerror}") from error
    except RecoveryRequired:
        _close(reals, stages)
        raise
    return Merge(store, merge_id, folder, said, tuple(reals), tuple(stages), file, owns_trees=True)


def _close(reals: Iterable[files.Tree], stages: Iterable[Stage | None]) -> None:
    for tree in reals:
        tree.close()
    for one in stages:
        if one is not None:
            one.close()


def read(folder: str, merge_id: str) -> Journal:
    """Return what a merge's journal says. Raises RecoveryRequired for one that is damaged."""
    try:
        return journals.read(folder)
    except records.CorruptJournalError as error:
        raise RecoveryRequired(merge=merge_id, reason=f"its journal is damaged: {error}") from error
