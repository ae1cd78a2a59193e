"""Undo and redo merges: previous contents are restored, and the user's later changes stay."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from agent_dev.errors import CannotMerge, CannotUndo, RecoveryRequired, UnknownOutcome
from agent_dev.fs import acl, digest, disk_space
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git.updates import RefUpdate
from agent_dev.merge import conclude, history, recover, undo_refs, undo_three_way
from agent_dev.merge.recover import Notify
from agent_dev.merge.review import Review, open_review
from agent_dev.merge.undo_three_way import SeparatedEdit, separate_edits
from agent_dev.merge_engine import journal_codec, journal_file, merge_execution, merge_plan, pending_marks, replaced_files
from agent_dev.merge_engine.journal import EntryMark, MergeHeader, NextAction, Operation, OpKind, PhaseResult, entry_mark
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.merge_engine.merged_texts import TextReader
from agent_dev.overlay.changes import sorted_changes
from agent_dev.quick_dataclass import dataclass, field, replace
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext

ATTRIBUTES_CHANGED = "its attributes or ACL changed since the merge"
CHANGED, DELETED = "you changed it since the merge", "you deleted it since the merge"
CHANGED_BY_OTHER, DELETED_BY_OTHER = "another merge changed it since", "another merge deleted it since"
DIRECTORY_CHANGED = "its mode, attributes or ACL changed since the merge"


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The result of an undo or a redo: the merge, the changed paths, and the skipped ones with the reason.

    `three_way_candidates`: skipped paths that a three-way undo could change; `merged_with_yours`: changed paths where the user's
    later edits stay. `renames`: the old key of each file that the merge renamed, by its new one. `time` of the merge in ns since
    1970, `session` its session's id, `name` that session's name; `earlier`: the applied merge before it, if nothing was undone.
    `declined`: the commits whose decline was undone or redone.
    """

    merge: str
    roots: tuple[str, ...]
    paths: tuple[Key, ...]
    skipped: tuple[SkippedChange, ...]
    refs: tuple[RefUpdate, ...] = ()
    three_way_candidates: frozenset[Key] = frozenset()
    merged_with_yours: frozenset[Key] = frozenset()
    renames: Mapping[Key, Key] = field(default_factory=dict)
    time: int = 0
    session: str = ""
    name: str = ""
    earlier: str = ""
    declined: tuple[str, ...] = ()

    @property
    def has_effect(self) -> bool:
        """Return whether anything was undone or redone."""
        return bool(self.paths or self.refs or self.declined)


@dataclass(frozen=True, slots=True)
class _Direction:
    """The direction; `is_three_way`: also undo files that the user changed since, if both edits fit together."""

    is_forward: bool
    is_three_way: bool = False


@dataclass(frozen=True, slots=True)
class _Runnable:
    """The operations that can run, the skipped paths, and the separated edits of files, by operation."""

    numbers: tuple[int, ...]
    left: tuple[SkippedChange, ...]
    separated: dict[int, SeparatedEdit]

    def keys(self, merging: merge_execution.Merge) -> frozenset[Key]:
        return frozenset(merging.journal.ops[number].key for number in self.separated)


def undo(where: CommandContext, merge_id: str, notice: Notify, *, is_three_way: bool = False) -> UndoResult:
    """Undo a merge: the named one, else the newest applied one here. Raises CannotUndo, RecoveryRequired.

    `is_three_way`: in a file that the user changed since, revert only the merge's edit if both fit together.
    """
    return _run(where, merge_id, notice, _Direction(is_forward=False, is_three_way=is_three_way))


def redo(where: CommandContext, merge_id: str, notice: Notify) -> UndoResult:
    """Redo an undone merge: the named one, else the last undone one."""
    return _run(where, merge_id, notice, _Direction(is_forward=True))


def _run(where: CommandContext, merge_id: str, notice: Notify, direction: _Direction) -> UndoResult:
    with journal_file.merge_lock(where.store, notice) as lock:
        _recover(where, merge_id, notice)
        done = _named(where, merge_id or history.find_newest(where, is_forward=direction.is_forward).id, lock, direction)
        if merge_id or direction.is_forward or done.has_effect:
            return done
        return replace(done, earlier=_earlier_merge(where, done.merge))


def _earlier_merge(where: CommandContext, merge_id: str) -> str:
    """Return the newest applied merge but one, "" if there is none: undoing it is the user's decision."""
    try:
        return history.find_newest(where, is_forward=False, excluded=merge_id).id
    except CannotUndo:
        return ""


def _named(where: CommandContext, merge_id: str, lock: int, direction: _Direction) -> UndoResult:
    if "/" in merge_id or not os.path.isdir(f"{where.store.merges}/{merge_id}"):
        raise CannotUndo(message=f"no merge {merge_id} here", hint="agent-dev merges lists the merges")
    with ExitStack() as stack:
        with _outcome_unknown(merge_id):
            review = stack.enter_context(_open_session(where, merge_id, direction))
        merging = _opened(where, merge_id, review)
        merging.lock_fd = lock
        stack.callback(merging.close)
        with _outcome_unknown(merge_id), undo_refs.git_locked(merging, is_forward=direction.is_forward):
            return _run_in_session(where, merging, review, direction)


@contextmanager
def _outcome_unknown(merge_id: str) -> Iterator[None]:
    """Raise UnknownOutcome for a disk error."""
    try:
        yield
    except OSError as error:
        raise UnknownOutcome(merge=merge_id, reason=error.strerror, hint="the next agent-dev command here continues") from error


@contextmanager
def _open_session(where: CommandContext, merge_id: str, direction: _Direction) -> Iterator[Review | None]:
    """Lock and open the session of a merge, if it still exists, with what an undo or a redo needs of it.

    Before the journal is read, because the two need most of the memory.
    """
    session = conclude.lock_session(_header(where, merge_id), where.store)  # raises SessionBusy if an agent uses it
    if session is None:
        yield None
        return
    try:
        review = open_review(session, where.environ, with_risks=False)
        try:
            _release_unneeded(review, direction)
            yield review
        finally:
            review.close()
    finally:
        store.unlock_session(session)


def _header(where: CommandContext, merge_id: str) -> MergeHeader | None:
    """Return the header of a merge; None for a damaged journal, which `_opened` refuses."""
    try:
        return journal_file.read_header(f"{where.store.merges}/{merge_id}")
    except journal_codec.CorruptJournalError:
        return None


def _opened(where: CommandContext, merge_id: str, review: Review | None) -> merge_execution.Merge:
    """Open a merge that needs no recovery. Raises CannotUndo if its repository was replaced or its journal is damaged."""
    try:
        merging = merge_execution.open_merge(where.store, merge_id, review.changes.changes if review is not None else ())
        if review is not None and merging.journal.implying:
            merging.known_changes = review.changes.by_key()
        return merging
    except RecoveryRequired as error:
        message = f"merge {merge_id} cannot be undone: {error.values['reason']}"
        raise CannotUndo(message=message, hint="nothing was changed; agent-dev merges lists the merges") from error


def _recover(where: CommandContext, merge_id: str, notice: Notify) -> None:
    """Recover interrupted merges. Roll the named one back even if unexpected entries block some paths: these stay."""
    if merge_id in pending_marks.unfinished_merges(where.store):
        journal = merge_execution.read_journal(f"{where.store.merges}/{merge_id}", merge_id)
        if journal.next_action is NextAction.ROLL_BACK:
            merging = merge_execution.open_merge(where.store, merge_id)
            merge_execution.roll_back(merging, is_partial=True)
            merging.close()
    recover.recover_roots(where.store, (where.root,), where.environ, notice)


def _run_in_session(
    where: CommandContext, merging: merge_execution.Merge, review: Review | None, direction: _Direction
) -> UndoResult:
    if merging.journal.header is None:
        raise CannotUndo(message=f"merge {merging.id} was never started")
    runnable = _runnable(merging, direction)
    numbers, skipped = undo_refs.include_index(merging, runnable.numbers, runnable.left, is_forward=direction.is_forward)
    ops = merging.journal.ops
    pending_marks.mark_pending(where.store, merging.id, merging.journal.phases_begun)
    if direction.is_forward:
        missing = _refill_slots(merging, review, numbers)
        numbers = tuple(number for number in numbers if number not in missing)
        skipped += tuple(SkippedChange(ops[number].key, why) for number, why in missing.items())
    if not _is_session_only(merging, direction) and not any(not ops[number].is_auxiliary for number in numbers):
        _restore_state(merging, review)
        if not skipped:
            raise CannotUndo(message=f"merge {merging.id} is {'not undone' if direction.is_forward else 'already undone'}")
        return _unchanged_result(merging, runnable, skipped, direction)
    moves = _ref_moves(merging, direction)
    try:
        result = _attempt(merging, runnable, numbers, direction)
    except CannotMerge:
        _try_restore_state(merging, review)
        raise
    undo_refs.release_index(merging)
    skipped += tuple(
        SkippedChange(ops[number].key, why) for number, why in result.stopped.items() if why and not ops[number].is_auxiliary
    )
    if merging.journal.next_action is not NextAction.FINISH:
        _restore_state(merging, review)
        return _unchanged_result(merging, runnable, skipped, direction)
    driven = conclude.applied_changes(merging, tuple(set(numbers) - result.stopped.keys()))
    conclude.conclude(merging, where.store, where.environ, review)
    if review is not None and direction.is_forward:
        review.lower_snapshot.unload()
    paths = tuple(change.key for change in sorted_changes(driven))
    return replace(
        _unchanged_result(merging, runnable, skipped, direction),
        paths=paths,
        refs=moves,
        declined=merging.journal.declined_commits,
        merged_with_yours=runnable.keys(merging) & frozenset(paths),
    )


def _release_unneeded(review: Review, direction: _Direction) -> None:
    """Free what is not needed of an open session: 100,000 changes and the base's rows need much memory.

    A redo needs the paths and kinds of changes, and at its end the rows; an undo needs no changes, and reads rows of its own.
    """
    review.replace_changes(map(merge_plan.without_entries, review.changes.changes if direction.is_forward else ()))
    if direction.is_forward:
        review.lower_snapshot.unload()
    else:
        review.lower_snapshot.release()


def _ref_moves(merging: merge_execution.Merge, direction: _Direction) -> tuple[RefUpdate, ...]:
    if not merging.journal.moves_refs(is_forward=direction.is_forward):
        return ()
    refs = (one for git in merging.journal.git_updates for one in git.refs)
    return tuple(one if direction.is_forward else one.reversed() for one in refs)


def _attempt(merging: merge_execution.Merge, runnable: _Runnable, numbers: tuple[int, ...], direction: _Direction) -> PhaseResult:
    """Stage contents and run the operations. Raises CannotMerge if nothing was changed, else UnknownOutcome."""
    try:
        replaced_files.move_to_stages(merging, _first_stages(merging))
        instead = undo_three_way.stage_substitutes(merging, runnable.separated) if direction.is_three_way else ()
    except OSError as error:
        where = disk_space.failed_path(error, merging.real_trees[0].path, merging.folder)
        raise CannotMerge(path=where, reason=f"{error.strerror}; nothing was changed") from error
    why = "redo" if direction.is_forward else "undo"
    return merge_execution.run_again(merging, why, numbers, is_forward=direction.is_forward, instead=instead)


def _is_session_only(merging: merge_execution.Merge, direction: _Direction) -> bool:
    """Return whether a merge only removed changes from the session, so that no operation has to run."""
    is_applied = bool(conclude.applied_changes(merging)) if not merging.journal.git_updates else merging.journal.is_applied
    return not merging.journal.ops and is_applied != direction.is_forward


def _unchanged_result(
    merging: merge_execution.Merge, runnable: _Runnable, left: tuple[SkippedChange, ...], direction: _Direction
) -> UndoResult:
    """Return a result without changed paths."""
    begin = merging.journal.header
    offered = frozenset() if direction.is_three_way else runnable.keys(merging) & {one.key for one in left}
    roots = tuple(path for path, _, _ in begin.roots) if begin is not None else ()
    skipped = tuple(sorted(left, key=lambda one: (one.key.root, one.key.path)))
    renames = {one.key: one.renamed_from for one in merging.changes() if one.renamed_from}
    done = UndoResult(merging.id, roots, (), skipped, three_way_candidates=offered, renames=renames)
    if begin is None:
        return done
    return replace(done, time=begin.time, session=begin.session, name=store.name_of_session(merging.store, begin.session))


def _refill_slots(merging: merge_execution.Merge, review: Review | None, numbers: tuple[int, ...]) -> dict[int, str]:
    if review is not None:
        return conclude.move_back_to_slots(merging, review, numbers)
    reason = "its session no longer exists, and its content is not stored"
    return {number: reason for number in numbers if not conclude.has_slot(merging, number)}


def _restore_state(merging: merge_execution.Merge, review: Review | None) -> None:
    """Restore the state before an undo or redo that changed nothing."""
    merging.restore_modes()
    replaced_files.secure_replaced_files(merging)
    if review is not None:
        conclude.return_failed_redo(merging, review)
        conclude.refresh_base_times(merging, review.session)
    undo_refs.release_index(merging)
    merging.rest()


def _try_restore_state(merging: merge_execution.Merge, review: Review | None) -> None:
    """Call `_restore_state`; after a disk error the next command recovers."""
    try:
        _restore_state(merging, review)
    except (OSError, UnknownOutcome):
        return


def _first_stages(merging: merge_execution.Merge) -> tuple[str, ...]:
    """Return the first stage of each root: a rename from there reaches the root."""
    first = journal_file.read_header(merging.folder)
    return first.stages if first is not None else ()


def _runnable(merging: merge_execution.Merge, direction: _Direction) -> _Runnable:
    """Separate the operations that can run from those with a path that the user changed since."""
    is_forward = direction.is_forward
    if not is_forward:
        merge_execution.split_changed_directories(merging, merging.journal.applied_ops())
    done, found, ops = merging.journal.applied_ops(), merging.journal.known_marks(), merging.journal.ops
    first = merging.journal.phases[0]
    stopped = first.result.stopped if first.result else {}
    wanted = [number for number in first.numbers if number not in stopped and (number in done) != is_forward]
    numbers: list[int] = []
    changed: dict[int, Entry | None] = {}
    metadata_changes: list[SkippedChange] = []
    moved_marks: dict[int, tuple[EntryMark | None, EntryMark | None]] = {}
    for number in wanted:
        op = ops[number]
        now = merging.real_trees[op.key.root].entry_at(op.key.path)
        merged_mark = found.get(number)
        if why := _metadata_change(merging, op, merged_mark, now, is_forward=is_forward):
            metadata_changes += [] if op.is_auxiliary else [SkippedChange(op.key, why)]
        elif (merged_mark is None and now is None) or (
            merged_mark is not None and (merged_mark.matches_unmoved(now) or _is_same_link(merged_mark, now))
        ):
            numbers.append(number)
        elif (
            now is not None
            and merged_mark is not None
            and now.type is merged_mark.type is FileType.FILE
            and _has_same_bytes(merging, number, merged_mark)
        ):
            numbers.append(number)
            moved_marks[number] = (op.new, entry_mark(now)) if is_forward else (entry_mark(now), op.old)
        elif not op.is_auxiliary:
            changed[number] = now
    others = _OtherMerges(merging)
    again = _moved_by_others(merging, changed, others) if is_forward else {}
    moved_marks |= again
    numbers = sorted((*numbers, *again))
    numbers = numbers if is_forward else _without_modes_of_kept(ops, numbers, wanted)
    if moved_marks:
        stages = merging.journal.header.stages if merging.journal.header else ()
        merging.append_record(journal_codec.moved_record(stages, moved_marks))
    runnable = _with_changed_files(merging, numbers, changed, others, direction)
    return replace(runnable, left=(*runnable.left, *metadata_changes))


def _without_modes_of_kept(ops: Sequence[Operation], numbers: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return the numbers without those that would change the mode of a new directory which stays."""
    kept = {ops[number].key for number in {*wanted} - {*numbers}}
    return [number for number in numbers if ops[number].kind is not OpKind.MODE or ops[number].key not in kept]


class _OtherMerges:
    """The entries that other merges have left since a merge ran its operations; their journals are read when first needed."""

    def __init__(self, merging: merge_execution.Merge) -> None:
        self._merging = merging
        self._marks: dict[tuple[str, bytes], list[tuple[int, EntryMark | None]]] | None = None
        self._times = merging.journal.known_mark_times()

    def have_left(self, number: int, now: Entry | None) -> bool:
        """Return whether another merge has left the path of an operation like this since."""
        if self._marks is None:
            self._marks = history.left_by_others(self._merging.store, self._merging.id)
        key, since = self._merging.journal.ops[number].key, self._times.get(number, 0)
        marks = self._marks.get((self._merging.real_trees[key.root].path, key.path), ())
        return any(now is None if mark is None else mark.matches_unmoved(now) for time, mark in marks if time > since)


def _moved_by_others(
    merging: merge_execution.Merge, changed: dict[int, Entry | None], others: _OtherMerges
) -> dict[int, tuple[EntryMark | None, EntryMark | None]]:
    """Remove from `changed` the files that an undo and redo of another merge only moved away and back; return their marks.

    A move changes a file's ctime, as an edit does. The other merge's journal distinguishes the two.
    """
    found, moved = merging.journal.known_marks(), dict[int, tuple[EntryMark | None, EntryMark | None]]()
    for number, now in tuple(changed.items()):
        op, was = merging.journal.ops[number], found.get(number)
        if now is None or was is None or now.type is FileType.DIRECTORY or not was.matches(now) or was.mode != now.mode:
            continue
        if others.have_left(number, now):
            del changed[number]
            moved[number] = op.new, entry_mark(now)
    return moved


def _with_changed_files(
    merging: merge_execution.Merge,
    numbers: list[int],
    changed: dict[int, Entry | None],
    others: _OtherMerges,
    direction: _Direction,
) -> _Runnable:
    """Return the operations that can run, including files that the user has changed since, if requested."""
    found, ops = merging.journal.known_marks(), merging.journal.ops
    skipped: list[SkippedChange] = []
    separated_edits: dict[int, SeparatedEdit] = {}
    kept = TextReader(merging.folder)
    for number, now in changed.items():
        was = found.get(number)
        why, detail = _change_reason(was, now), ""
        if why == CHANGED and not direction.is_forward:
            separated = separate_edits(merging, kept, number, was, now)
            if isinstance(separated, SeparatedEdit):
                separated_edits[number] = separated
            else:
                detail = separated
        if number not in separated_edits or not direction.is_three_way:
            if others.have_left(number, now):
                why = DELETED_BY_OTHER if now is None else CHANGED_BY_OTHER
            skipped.append(SkippedChange(ops[number].key, why + detail))
    every = sorted((*numbers, *separated_edits)) if direction.is_three_way else numbers
    return _Runnable(tuple(every), tuple(skipped), separated_edits)


def _metadata_change(
    merging: merge_execution.Merge, op: Operation, mark: EntryMark | None, now: Entry | None, *, is_forward: bool
) -> str:
    """Return why an entry that would leave its path must stay because its metadata differ; "" if nothing differs.

    `mark`: its mark when the operation was last run. Operations on modes leave directories at their paths.
    """
    leaving = op.old if is_forward else op.new
    if now is None or mark is None or leaving is None or op.kind is OpKind.MODE or not mark.matches(now):
        return ""
    if now.type is FileType.DIRECTORY:
        own = acl.attributes_with_acl(merging.real_trees[op.key.root], op.key.path, now)
        return DIRECTORY_CHANGED if (now.mode, {*own}) != (mark.mode, {*leaving.attributes}) else ""
    return ATTRIBUTES_CHANGED if not is_forward and conclude.has_other_attributes(merging.real_trees[op.key.root], op) else ""


def _is_same_link(was: EntryMark, now: Entry | None) -> bool:
    """Return whether a link is unchanged: its target is fixed, but a stopped undo may have moved it."""
    return was.type is FileType.SYMLINK and was.matches(now)


def _change_reason(was: EntryMark | None, now: Entry | None) -> str:
    if now is None:
        return DELETED
    return "something was created there since the merge" if was is None else CHANGED


def _has_same_bytes(merging: merge_execution.Merge, number: int, was: EntryMark) -> bool:
    """Return whether a moved or touched file still has the merged content, for example after `git checkout` and back."""
    op = merging.journal.ops[number]
    now = merging.real_trees[op.key.root].entry_at(op.key.path)
    if (
        now is None
        or not op.digest
        or now.size != was.size
        or now.mode != was.mode
        or op.new is None
        or op.new.inode != was.inode
        or conclude.has_other_attributes(merging.real_trees[op.key.root], op)
    ):
        return False
    try:
        return digest.digest_file(merging.real_trees[op.key.root], op.key.path, now.size) == op.digest.hex()
    except PermissionError:
        return False  # not readable
