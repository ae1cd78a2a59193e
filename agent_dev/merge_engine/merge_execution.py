"""Execute a merge plan, undo it, redo it, and recover an interrupted one (decision 0010).

The order makes it atomic: the journal's first record with the stage paths; the staged content; the record of every operation;
the operations; the record that they are done. Each step is durable before the next begins. A merge killed before the last record
is rolled back; after it, the real tree is complete.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

from agent_dev.errors import CannotMerge, RecoveryRequired, UnknownOutcome
from agent_dev.fs import dir_tree, disk_space, durable, unlocked_directories, unlocked_modes
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git import user_refs
from agent_dev.linux import pid_namespace
from agent_dev.merge_engine import (
    journal_codec,
    journal_file,
    merge_clock,
    pending_marks,
    remove_merge,
    upper_update,
    whole_directories,
)
from agent_dev.merge_engine.driver import Driver
from agent_dev.merge_engine.journal import (
    EntryMark,
    Intent,
    Journal,
    MergeHeader,
    Operation,
    OpKind,
    OpProgress,
    Phase,
    PhaseResult,
    Substitute,
    entry_mark,
)
from agent_dev.merge_engine.merge_plan import added_file, is_added_file
from agent_dev.merge_engine.slots import Stage, find_stage_path
from agent_dev.overlay.changes import Change
from agent_dev.quick_dataclass import dataclass, field, replace
from agent_dev.session.store import Store

Record = Mapping[str, Any]
ReportProgress = Callable[[int, int], object]  # receives the done and total number of steps


def ignore_progress(_done: int, _whole: int) -> None:
    """Do nothing: progress is not reported."""


@dataclass(slots=True)
class MergeTrees:
    """The trees of a merge: uppers and real trees by root, and for each root the candidate stage paths."""

    upper_trees: tuple[dir_tree.Tree, ...]
    real_trees: tuple[dir_tree.Tree, ...]
    stage_candidates: tuple[tuple[str, ...], ...]
    git_dirs: tuple[str, ...] = ()  # git directories whose indexes are replaced: the last real trees, without uppers
    report_progress: ReportProgress = ignore_progress


@dataclass(slots=True)
class Merge:
    """A merge on disk: its folder, journal, trees, open stages, and the journal file for writing."""

    store: Store
    id: str
    folder: str
    journal: Journal
    real_trees: tuple[dir_tree.Tree, ...]
    stages: tuple[Stage | None, ...]
    journal_file: journal_file.JournalFile
    owns_trees: bool = False  # opened for this merge only
    must_keep_folder: bool = False  # its folder has a file of the user and must stay
    lock_fd: int = -1  # the lock of all merges
    report_progress: ReportProgress = ignore_progress
    is_marked_pending: bool = False  # has a pending mark, which must precede journal writes
    known_changes: Mapping[Key, Change] = field(default_factory=dict)  # of the session
    _changes: tuple[Change, ...] | None = None

    def changes(self) -> tuple[Change, ...]:
        """Return the changes that the journal records, then those that its whole directories imply."""
        if self._changes is not None:
            return self._changes
        found = (*self.journal.changes, *(self._implied_change(key, kind) for key, kind in self.journal.implied_files()))
        if self.journal.phases_begun:  # before, the journal does not have them yet
            self._changes = found
        return found

    def _implied_change(self, key: Key, kind: FileType) -> Change:
        """Return the change of a file in a whole directory: the session's own if it is the same, which saves a copy."""
        known = self.known_changes.get(key)
        return known if known is not None and is_added_file(known, kind) else added_file(key, kind)

    def __post_init__(self) -> None:
        """Allow the trees to open unreadable directories, each recorded in the journal first."""
        for number, tree in enumerate(self.real_trees):
            tree.unlocked = unlocked_directories.UnlockedDirectories(tree.fd, partial(self._note, number))

    def _note(self, root: int, path: bytes, inode: int, mode: int) -> None:
        tree = self.real_trees[root]
        self.append_record(journal_codec.opened_record(Key(root, path), inode, mode))
        unlocked_modes.add(self.folder, unlocked_modes.Note(tree.path, os.fstat(tree.fd).st_ino, path, inode, mode))

    def restore_modes(self) -> None:
        """Restore the modes of unreadable directories that this or a killed command opened. Raises OSError."""
        for number, tree in enumerate(self.real_trees):
            opened = self.journal.opened_directories
            tree.restore_modes([(key.path, inode, mode) for key, inode, mode in opened if key.root == number])
        if notes := unlocked_modes.read(self.folder):
            unlocked_modes.restore(
                self.folder, notes if len(notes) > len(self.journal.opened_directories) else ()
            )  # if the journal lost some
        if self.journal.opened_directories:
            self.append_record(journal_codec.LOCKED)

    def rest(self) -> None:
        """Restore the modes of unlocked directories, the last record of the journal, and mark the merge as complete.

        Raises OSError.
        """
        self.restore_modes()
        pending_marks.mark_complete(self.store, self.id, self.journal)

    def driver(self) -> Driver:
        """Return the driver of its operations."""
        modes = {op.key for op in self.journal.ops if op.kind is OpKind.MODE}
        return Driver(
            self.real_trees, self.stages, frozenset(op.key for op in self.journal.ops if op.kind is not OpKind.MODE) & modes
        )

    def append_record(self, record: Record) -> None:
        """Append a record to the journal and update the state. Raises OSError or UnknownOutcome."""
        lines: list[bytes] = []
        with self._writing():
            self.journal_file.append((record,), lines.append)
        self.journal = journal_codec.with_line(self.journal, memoryview(lines[0])[:-1])

    def append_records(self, records: Iterable[Record], journal: Journal) -> None:
        """Append records that lead to this journal, because decoding thousands of operations again is slow.

        Raises OSError or UnknownOutcome.
        """
        with self._writing():
            checksum = self.journal_file.append(records)
        self.journal = replace(journal, checksum=checksum)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if not self.is_marked_pending:
            pending_marks.mark_pending(self.store, self.id, self.journal.phases_begun)
            self.is_marked_pending = True
        try:
            yield
        except journal_file.UnknownOutcomeError as error:
            raise UnknownOutcome(merge=self.id, reason=str(error)) from error

    def close(self) -> None:
        """Close stages, journal, and trees that were opened for this merge."""
        try:
            self.restore_modes()
        finally:
            for tree in self.real_trees:
                tree.unlocked = None
            self._close()

    def _close(self) -> None:
        if self.owns_trees:
            for tree in self.real_trees:
                tree.close()
        for stage in self.stages:
            if stage is not None:
                stage.close()
        self.journal_file.close()


def begin_merge(store: Store, merge_id: str, session: str, trees: MergeTrees, wanted: Iterable[int]) -> Merge:
    """Create a merge's folder, journal and stages for the wanted roots. Raises CannotMerge; nothing was changed then."""
    folder = f"{store.merges}/{merge_id}"
    roots = set(wanted)
    try:
        os.mkdir(folder, 0o700)
        stage_paths = tuple(
            _select_stage_path(trees.real_trees[number], trees.stage_candidates[number]) if number in roots else ""
            for number in range(len(trees.real_trees))
        )
        pending_marks.mark_pending(store, merge_id)
        file = journal_file.JournalFile(folder)
        durable.sync_path(store.merges)  # else a power cut may lose the folder with its content
        about = MergeHeader(
            merge_id,
            session,
            tuple(map(_root_identity, trees.real_trees)),
            stage_paths,
            merge_clock.next_time(store),
            trees.git_dirs,
            pid_namespace.boot_id(),
        )
        lines: list[bytes] = []
        file.append((journal_codec.begin_record(about),), lines.append)
        stages = tuple(Stage(path) if path else None for path in stage_paths)
    except (OSError, journal_file.UnknownOutcomeError) as error:
        remove_merge.try_remove_merge_files(store, merge_id, ())
        where = disk_space.failed_path(error, folder, store.merges) if isinstance(error, OSError) else folder
        raise CannotMerge(path=where, reason=f"{_reason(error)}; nothing was changed") from error
    except CannotMerge:
        remove_merge.try_remove_merge_files(store, merge_id, ())
        raise
    return Merge(
        store,
        merge_id,
        folder,
        journal_codec.with_line(Journal(), lines[0][:-1]),
        trees.real_trees,
        stages,
        file,
        report_progress=trees.report_progress,
        is_marked_pending=True,
    )


def _select_stage_path(real: dir_tree.Tree, candidates: tuple[str, ...]) -> str:
    path = find_stage_path(candidates, real)
    if path is None:
        raise CannotMerge(path=real.path, reason="no staging directory on the same file system is writable; nothing was changed")
    return path


def _root_identity(tree: dir_tree.Tree) -> tuple[str, int, int]:
    status = os.fstat(tree.fd)
    return tree.path, status.st_dev, status.st_ino


def return_adopted(merge: Merge, uppers: tuple[dir_tree.Tree, ...]) -> None:
    """Move adopted files that were not applied from their slots back into the session, durable. Raises OSError."""
    arrived = {merge.journal.ops[number].key for number in merge.journal.applied_ops()}
    adopted = {op.slot: op.new for op in merge.journal.ops}
    roots = set()
    for key, slot in merge.journal.adopted:
        stage, new = merge.stages[key.root], adopted.get(slot)
        found = stage.entry_in(slot) if stage is not None and key not in arrived else None
        if stage is not None and found is not None and (new is None or new.matches(found)):  # not a save of the user
            upper_update.move_from_slot(uppers[key.root], merge.real_trees[key.root], stage, key.path, slot)
            roots.add(key.root)
    for root in roots:
        durable.syncfs(uppers[root].fd)  # before the stage is removed


# Running operations


def run_merge(merge: Merge, intent: Intent, *, is_atomic: bool) -> PhaseResult:
    """Run a merge's operations forward, then move refs; return the durable result.

    If no operation succeeded, or with `is_atomic` not all, everything is rolled back and the journal has no such phase. Raises
    CannotMerge if a disk error or a moved ref caused a complete rollback, UnknownOutcome if the disk state is unknown.
    """
    phase = Phase("merge", tuple(range(len(intent.ops))), is_forward=True, time=merge_clock.next_time(merge.store))
    try:
        records = chain(journal_codec.intent_records(intent), (journal_codec.phase_record(phase),))
        merge.append_records(records, merge.journal.with_intent(intent).with_phase(phase))
        pending_marks.mark_pending(merge.store, merge.id, merge.journal.phases_begun)
    except OSError as error:
        raise CannotMerge(
            path=disk_space.failed_path(error, merge.folder), reason=f"{error.strerror}; nothing was changed"
        ) from error
    return _run(merge, phase, is_atomic=is_atomic)


def run_again(
    merge: Merge, why: str, numbers: tuple[int, ...], *, is_forward: bool, instead: tuple[Substitute, ...] = ()
) -> PhaseResult:
    """Run operations of an earlier merge backward or forward, as `run_merge`; `instead`: staged substitutes of an undo."""
    phase = Phase(why, numbers, is_forward, merge_clock.next_time(merge.store), substitutes=instead)
    begun = merge.journal.phases_begun
    try:
        merge.append_record(journal_codec.phase_record(phase))
        pending_marks.mark_pending(merge.store, merge.id, merge.journal.phases_begun)
    except OSError as error:
        if merge.journal.phases_begun > begun:
            _roll_back_or_raise(merge, {}, error)
        raise CannotMerge(
            path=disk_space.failed_path(error, merge.folder), reason=f"{error.strerror}; nothing was changed"
        ) from error
    return _run(merge, phase, is_atomic=False)


def _run(merge: Merge, phase: Phase, *, is_atomic: bool) -> PhaseResult:
    driver = merge.driver()
    ops = [(number, merge.journal.ops[number]) for number in phase.numbers]
    stopped: dict[int, str] = {}
    try:
        stopped = (
            driver.run_forward(_with_progress(ops, merge.report_progress), is_strict=phase.why == "merge")
            if phase.is_forward
            else driver.run_backward(ops)
        )
        driver.sync()
        if phase.is_forward:
            stopped |= _revert_late_writes(driver, [(number, op) for number, op in ops if number not in stopped])
        merge.must_keep_folder = driver.must_keep_slots
        if (is_atomic and any(stopped.values())) or (ops and all(number in stopped or op.is_auxiliary for number, op in ops)):
            _roll_back_or_raise(merge, stopped)
            return PhaseResult(stopped)
        done = ((number, op) for number, op in ops if number not in stopped)
        result = PhaseResult(stopped, driver.current_marks(done, is_forward=phase.is_forward))
        merge.restore_modes()
        has_refs = merge.journal.moves_refs(is_forward=phase.is_forward)
        if has_refs:
            user_refs.update_refs(merge.journal.git_updates, merge.id, merge.lock_fd, is_forward=phase.is_forward)
        else:
            merge.append_records(journal_codec.reached_records(result), merge.journal.with_result(result))
    except user_refs.RefsTornError as error:
        raise UnknownOutcome(merge=merge.id, reason=str(error)) from error
    except (OSError, user_refs.RefMovedError) as error:
        _roll_back_or_raise(merge, stopped, error)
        where = (
            disk_space.failed_path(error, merge.real_trees[0].path, merge.folder) if isinstance(error, OSError) else error.name
        )
        raise CannotMerge(path=where, reason=f"{_reason(error)}; nothing was changed") from error
    if has_refs:
        _record_result(merge, result)
    return result


def _record_result(merge: Merge, result: PhaseResult) -> None:
    """Record the end of a phase whose refs have moved, so that it can only be completed. Raises UnknownOutcome."""
    try:
        merge.append_records(journal_codec.reached_records(result), merge.journal.with_result(result))
    except OSError as error:
        raise UnknownOutcome(merge=merge.id, reason=_reason(error)) from error


def complete_moved_refs(merge: Merge) -> bool:
    """Complete a phase if its refs, which move last, had moved; return whether they had. Raises OSError."""
    phase = merge.journal.phases[-1]
    if not merge.journal.moves_refs(is_forward=phase.is_forward) or not _complete_refs(merge, is_forward=phase.is_forward):
        return False
    driver = merge.driver()
    ops = [(number, merge.journal.ops[number]) for number in phase.numbers]
    progress = {number: driver.progress_of(op, is_forward=phase.is_forward) for number, op in ops}
    stopped = {number: "" for number, state in progress.items() if state is not OpProgress.DONE}
    done = ((number, op) for number, op in ops if number not in stopped)
    result = PhaseResult(stopped, driver.current_marks(done, is_forward=phase.is_forward))
    merge.restore_modes()
    merge.append_records(journal_codec.reached_records(result), merge.journal.with_result(result))
    return True


def _complete_refs(merge: Merge, *, is_forward: bool) -> bool:
    """Complete the updates of refs if one repository's had moved; move these back if another one's cannot move any more."""
    moved = tuple(git for git in merge.journal.git_updates if user_refs.have_refs_moved(git, is_forward=is_forward))
    rest = tuple(git for git in merge.journal.git_updates if git not in moved)
    if not moved:
        return False
    if any(user_refs.find_unexpected_refs(git, is_forward=is_forward) for git in rest):
        try:
            user_refs.update_refs(moved, merge.id, merge.lock_fd, is_forward=not is_forward)
        except (OSError, user_refs.RefMovedError, user_refs.RefsTornError):
            pass  # newer commits build on them
        else:
            return False
    for git in merge.journal.git_updates:
        user_refs.finish_ref_updates(git, merge.id, merge.lock_fd, is_forward=is_forward)
    return True


def _with_progress(ops: list[tuple[int, Operation]], report: ReportProgress) -> Iterator[tuple[int, Operation]]:
    """Yield operations and report progress; staging was the first half."""
    for done, one in enumerate(ops, 1):
        yield one
        report(len(ops) + done, 2 * len(ops))


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _revert_late_writes(driver: Driver, done: list[tuple[int, Operation]]) -> dict[int, str]:
    """Roll back files that a process wrote to through an old descriptor, so that its writes are at their path again."""
    written = driver.late_writes(done)
    failed = driver.run_backward((number, op) for number, op in done if number in written)
    driver.sync()
    return {number: why for number, why in written.items() if number not in failed}


def _roll_back_or_raise(merge: Merge, stopped: Mapping[int, str], error: Exception | None = None) -> None:
    first = f"{_reason(error)}, and then " if error is not None else ""
    try:
        problems = roll_back(merge, without=frozenset(stopped))
    except OSError as second:
        raise UnknownOutcome(merge=merge.id, reason=f"{first}{_reason(second)}") from error
    if problems:
        raise UnknownOutcome(merge=merge.id, reason=f"{first}{'; '.join(problems.values())}") from error


def roll_back(merge: Merge, *, without: frozenset[int] = frozenset(), is_partial: bool = False) -> dict[Key, str]:
    """Roll the last, unfinished phase back to its start.

    Returns the paths with unexpected entries; then nothing was changed, unless `is_partial`: these stay and the rest is
    rolled back. `without`: operations that certainly did not run. Raises OSError.
    """
    split_changed_directories(merge, [number for number in merge.journal.phases[-1].numbers if number not in without])
    *_, phase = merge.journal.phases
    driver = merge.driver()
    ops = [(number, merge.journal.ops[number]) for number in phase.numbers if number not in without]
    progress = {number: driver.progress_of(op, is_forward=phase.is_forward) for number, op in ops}
    unexpected = {
        op.key: "something else is there now"
        for number, op in ops
        if progress[number] is OpProgress.UNEXPECTED and not op.is_auxiliary
    }
    if unexpected and not is_partial:
        return unexpected
    driven = [(number, op) for number, op in ops if progress[number] is OpProgress.DONE]
    stopped = driver.run_backward(driven) if phase.is_forward else driver.run_forward(driven, is_strict=False)
    for _, op in ops:
        driver.mark_for_sync(op)  # a killed recovery may have rolled it back without syncing
    driver.sync()
    ops_by_number = dict(driven)
    failed = {ops_by_number[number].key: why for number, why in stopped.items() if why and not ops_by_number[number].is_auxiliary}
    if failed and not is_partial:
        return failed
    merge.restore_modes()
    merge.append_record(journal_codec.back_record(_restored_marks(merge, tuple(number for number, _ in ops))))
    return {}


def _restored_marks(merge: Merge, numbers: tuple[int, ...]) -> dict[int, EntryMark]:
    """Return new marks of entries that are restored to an earlier phase, but have new ctimes or are recreated directories."""
    seen = {}
    for number, was in merge.journal.known_marks().items():
        op = merge.journal.ops[number]
        if number in numbers and was is not None and (was.type is not FileType.DIRECTORY or op.kind is OpKind.PRUNE):
            now = merge.real_trees[op.key.root].entry_at(op.key.path)
            if now is not None and _is_restored(was, now):
                seen[number] = entry_mark(now)
    return seen


def _is_restored(was: EntryMark, now: Entry) -> bool:
    if was.type is FileType.DIRECTORY:
        return (now.type, now.mode) == (was.type, was.mode) and now.inode != was.inode
    return was.matches(now) and (was.mode, was.mtime) == (now.mode, now.mtime) and was.ctime != now.ctime


def split_changed_directories(merge: Merge, numbers: Iterable[int]) -> None:
    """Split each whole directory that was changed since into one operation per entry. Raises OSError."""
    for number in numbers:
        op = merge.journal.ops[number]
        stage = merge.stages[op.key.root]
        real = merge.real_trees[op.key.root]
        if (
            op.members
            and stage is not None
            and stage.entry_in(op.slot) is None
            and not whole_directories.is_unchanged_at(real, op)
        ):
            digests = whole_directories.member_digests(real, op)
            merge.append_records(
                (journal_codec.parted_record(number, digests),), merge.journal.with_split_directory(number, digests)
            )


# Opening an existing merge


def open_merge(store: Store, merge_id: str, known: Iterable[Change] = ()) -> Merge:
    """Open a merge for undo, redo or recovery. Raises RecoveryRequired if the disk contradicts its journal.

    `known`: see `journal_codec.decode`.
    """
    folder = f"{store.merges}/{merge_id}"
    journal = read_journal(folder, merge_id, known)
    if journal.header is None:
        raise RecoveryRequired(merge=merge_id, reason="its journal has no first record")
    if pending_marks.is_truncated(store, merge_id, journal):
        raise RecoveryRequired(merge=merge_id, reason="its journal is truncated")
    real_trees: list[dir_tree.Tree] = []
    stages: list[Stage | None] = []
    try:
        for number, (path, _, _) in enumerate(journal.header.roots):
            real_trees.append(dir_tree.Tree(path))
            status = os.fstat(real_trees[-1].fd)
            if not journal.header.is_root(number, status.st_dev, status.st_ino, pid_namespace.boot_id()):
                raise RecoveryRequired(merge=merge_id, reason=f"{path} is not the same directory any more")
        stages.extend(Stage(place) if place and os.path.isdir(place) else None for place in journal.header.stages)
        file = journal_file.JournalFile(folder)
    except OSError as error:
        _close(real_trees, stages)
        raise RecoveryRequired(merge=merge_id, reason=f"{error.filename}: {error.strerror}") from error
    except RecoveryRequired:
        _close(real_trees, stages)
        raise
    return Merge(store, merge_id, folder, journal, tuple(real_trees), tuple(stages), file, owns_trees=True)


def _close(real_trees: Iterable[dir_tree.Tree], stages: Iterable[Stage | None]) -> None:
    for tree in real_trees:
        tree.close()
    for one in stages:
        if one is not None:
            one.close()


def read_journal(folder: str, merge_id: str, known: Iterable[Change] = ()) -> Journal:
    """Return a merge's journal. Raises RecoveryRequired for a damaged one."""
    try:
        return journal_file.read_journal(folder, known)
    except journal_codec.CorruptJournalError as error:
        raise RecoveryRequired(merge=merge_id, reason=f"its journal is damaged: {error}") from error
