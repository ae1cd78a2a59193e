"""Recover interrupted merges: roll them back, or complete them if their end was recorded."""

import os
from collections.abc import Callable, Iterable

from agent_dev.errors import CannotRecover, RecoveryRequired, SessionBusy
from agent_dev.fs import unlocked_modes
from agent_dev.merge import conclude
from agent_dev.merge_engine import index_lock, journal_file, merge_execution, pending_marks, remove_merge, replaced_files
from agent_dev.merge_engine.journal import Journal, NextAction
from agent_dev.session import store

Notify = Callable[[str], None]


def recover_root(place: store.Store, root: str, environ: dict[str, str], notice: Notify) -> None:
    """Recover the interrupted merges of a root, at the start of every command. Raises RecoveryRequired.

    Reads one directory if there is nothing to do. Waits for a merge that is running in another process.
    """
    if pending_marks.unfinished_merges(place):
        with journal_file.merge_lock(place, notice):
            recover_roots(place, (root,), environ, notice)


def recover_roots(
    place: store.Store, roots: Iterable[str], environ: dict[str, str], notice: Notify, *, excluded: str = ""
) -> None:
    """Recover every merge of one of the roots, under the lock of all merges. `excluded`: a session that the caller has locked."""
    wanted = set(roots)
    for merge_id in pending_marks.unfinished_merges(place):
        journal = _read(place, merge_id)
        if os.path.isdir(f"{place.merges}/{merge_id}") and journal.phases_begun < pending_marks.phase_count(place, merge_id):
            raise RecoveryRequired(merge=merge_id, reason="its journal is truncated", hint=f"inspect {place.merges}/{merge_id}")
        if journal.header is None:
            _restore_modes(place, merge_id)
            remove_merge.try_remove_merge_files(place, merge_id, ())
        elif wanted.intersection(path for path, _, _ in journal.header.roots):
            _recover_one(place, merge_id, journal, environ, notice, excluded)


def _read(place: store.Store, merge_id: str) -> Journal:
    return merge_execution.read_journal(f"{place.merges}/{merge_id}", merge_id)


def _recover_one(
    place: store.Store, merge_id: str, journal: Journal, environ: dict[str, str], notice: Notify, excluded: str
) -> None:
    try:
        _recover(place, merge_id, journal, environ, notice, excluded)
    finally:
        for git_dir in journal.header.git_dirs if journal.header is not None else ():
            index_lock.release(git_dir, merge_id)


def _recover(place: store.Store, merge_id: str, journal: Journal, environ: dict[str, str], notice: Notify, excluded: str) -> None:
    if (
        not journal.ops
        and not journal.adopted
        and not journal.opened_directories
        and not (journal.git_updates and journal.phases)
    ):
        _restore_modes(place, merge_id)
        remove_merge.try_remove_merge_files(place, merge_id, journal.stage_paths)
        notice(f"merge {merge_id} was interrupted before it changed anything; its preparations were removed")
        return
    merging = merge_execution.open_merge(place, merge_id)
    try:
        _roll_back_or_finish(merging, place, environ, notice, excluded)
    except SessionBusy:
        return  # its session is in use; the next command continues
    except OSError as error:
        reason = f"{error.filename or 'the disk'}: {error.strerror}"
        raise CannotRecover(merge=merge_id, reason=reason, hint="fix the cause and run the command again") from error
    finally:
        merging.close()
    if merging.journal.next_action is NextAction.DISCARD and not merging.must_keep_folder:
        remove_merge.try_remove_merge_files(place, merge_id, merging.journal.stage_paths)
        if not journal.ops:
            notice(f"merge {merge_id} was interrupted before it changed anything; its preparations were removed")


def _restore_modes(place: store.Store, merge_id: str) -> None:
    """Restore the modes of directories that a merge unlocked without a record in its journal. Raises CannotRecover."""
    folder = f"{place.merges}/{merge_id}"
    try:
        unlocked_modes.restore(folder, unlocked_modes.read(folder))
    except FileNotFoundError:
        return  # the merge no longer exists
    except OSError as error:
        raise CannotRecover(merge=merge_id, reason=f"{error.filename or 'the disk'}: {error.strerror}") from error


def _roll_back_or_finish(
    merging: merge_execution.Merge, place: store.Store, environ: dict[str, str], notice: Notify, excluded: str
) -> None:
    is_open = merging.journal.header is not None and merging.journal.header.session == excluded
    merging.restore_modes()
    if merging.journal.next_action is NextAction.ROLL_BACK and not merge_execution.complete_moved_refs(merging):
        _roll_back(merging, notice)
    if merging.journal.next_action is NextAction.FINISH:
        if not is_open:  # else the caller's review would be outdated
            conclude.conclude(merging, place, environ)
            notice(f"merge {merging.id} was interrupted after it was applied; it is complete now")
        return
    if is_open:
        return
    session = conclude.lock_session(merging.journal.header, place)
    if session is not None:
        try:
            conclude.refresh_base_times(merging, session)
        finally:
            store.unlock_session(session)
    if merging.journal.next_action is NextAction.NONE:
        replaced_files.secure_replaced_files(merging)  # first: a rename from a stage in the root may not reach the session
        conclude.recover_slots(merging, place, environ)
        merging.rest()
    elif not conclude.return_adopted_files(merging, place):
        merging.must_keep_folder = True
        merging.rest()
        notice(f"the session of merge {merging.id} no longer exists; its changes are kept in {merging.folder}")


def _roll_back(merging: merge_execution.Merge, notice: Notify) -> None:
    phase = merging.journal.phases[-1]
    unexpected = merge_execution.roll_back(merging)
    if unexpected:
        paths = ", ".join(key.path.decode("utf-8", "replace") for key in list(unexpected)[:3])
        raise RecoveryRequired(
            merge=merging.id,
            reason=f"{paths}: {next(iter(unexpected.values()))}",
            hint=f"check it; agent-dev undo {merging.id} undoes the rest and leaves it as it is",
        )
    operation = {"undo": "its undo", "redo": "its redo"}.get(phase.why, "it")
    notice(f"merge {merging.id}: {operation} was interrupted and has been rolled back")
