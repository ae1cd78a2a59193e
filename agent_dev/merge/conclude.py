"""Update the session and the saved files after a merge, an undo or a redo in the real tree.

Every step can be repeated after a crash; the `FINISHED` record in the journal comes last.
"""

import os
from collections.abc import Callable, Container, Iterator, Mapping
from itertools import chain

from agent_dev.agent_git import refs
from agent_dev.agent_git.repositories import list_repositories
from agent_dev.agent_git.unlisted_work import UnlistedWork
from agent_dev.errors import AgentDevError
from agent_dev.fs import acl, attribute_digest, background_removal, dir_tree, durable, walk
from agent_dev.fs.entry import Entry, FileType, Key, parents_of
from agent_dev.merge import session_access
from agent_dev.merge.review import Review, open_review
from agent_dev.merge_engine import journal_codec, merge_execution, replaced_files, staging, upper_update, whole_directories
from agent_dev.merge_engine.journal import EntryMark, MemberMarks, MergeHeader, Operation, OpKind
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay import interpret
from agent_dev.overlay import lower_snapshot as bases
from agent_dev.overlay.changes import Change
from agent_dev.overlay.fold_renames import fold_recorded
from agent_dev.session import events, store, uppers


def applied_changes(merge: merge_execution.Merge, numbers: tuple[int, ...] | None = None) -> tuple[Change, ...]:
    """Return the changes of a merge that are applied now, or with `numbers` those of these operations."""
    wanted: Container[int] = merge.journal.applied_ops() if numbers is None else frozenset(numbers)
    ops = [op for number, op in enumerate(merge.journal.ops) if number not in wanted and not op.is_auxiliary]
    not_done = {op.key for op in ops} | {key for op in ops if op.members for key, _ in op.member_marks()}
    over = [phase for phase in merge.journal.phases if phase.result is not None]
    if numbers is None and not (over and over[-1].is_forward):
        not_done |= {change.key for change in merge.changes() if change.is_session_only}
    return tuple(change for change in merge.changes() if change.key not in not_done)


def failure_reasons(merge: merge_execution.Merge, stopped: Mapping[int, str]) -> dict[Key, str]:
    """Return by key why operations were not carried out, including the contents of whole directories."""
    ops = [(merge.journal.ops[number], why) for number, why in stopped.items() if why]
    within = {key: why for op, why in ops if op.members for key, _ in op.member_marks()}
    return within | {op.key: why for op, why in ops}


def conclude(merge: merge_execution.Merge, place: store.Store, environ: dict[str, str], review: Review | None = None) -> bool:
    """Finish the last phase of a merge; return whether the session is empty now.

    `review`: the open review of the session; without one the session is opened here, if it still exists.
    """
    phase = merge.journal.phases[-1]
    replaced_files.secure_replaced_files(merge)
    session = lock_session(merge.journal.header, place) if review is None else review.session
    is_all = False
    if session is not None:
        opened = review if review is not None else _open(session, environ)
        try:
            if opened is not None:
                is_all = _remove_applied(merge, opened, place) if phase.is_forward else _restore_undone(merge, opened)
                events.log_event(
                    session, phase.why, merge=merge.id, changes=len(fold_recorded(applied_changes(merge, phase.numbers)))
                )
        finally:
            if review is None:
                if opened is not None:
                    opened.close()
                store.unlock_session(session)
    merge.restore_modes()
    merge.append_record(journal_codec.FINISHED)
    merge.rest()
    os.utime(place.merges)  # running sessions watch it and refresh their view of the files
    return is_all


def _open(session: store.Session, environ: dict[str, str]) -> Review | None:
    try:
        return open_review(session, environ, with_risks=False)
    except AgentDevError:
        return None  # an unreadable session stays unchanged


# Merge and redo: remove changes from the session


def _remove_applied(merge: merge_execution.Merge, review: Review, place: store.Store) -> bool:
    parts = _saved_slots(merge, "part")
    done = tuple(change for change in applied_changes(merge) if not change.is_from_commit)
    applied = tuple(change for change in done if change.key not in parts)
    keys, recorded = {change.key for change in applied}, _recorded_earlier(merge)
    remaining = tuple(change for change in review.changes.changes if change.key not in keys)
    del keys  # much memory for 100,000
    is_all = not (remaining or review.changes.problems or has_commits_left(review) or find_unlisted_work(review))
    if is_all:
        _write_state(review, store.MERGED)
    if remaining:
        merge_execution.return_adopted(merge, review.upper_trees)
    aside = background_removal.make_removal_directory(place.removals_folder, f"{merge.id}.taken")
    for number, tree in enumerate(review.upper_trees):
        tree.close_directories()
        skip = (b".git",) if refs.has_private_git_dir(review.record, number) else ()
        root_changes = tuple(change for change in applied if change.key.root == number)
        root_done = tuple(change for change in done if change.key.root == number and change.key not in recorded)
        unknown = _unknown_paths(tree, review.lower_snapshot.entries(number), skip) if root_changes and not is_all else ()
        if root_done:
            merge.real_trees[number].close_directories()
            own = {change.key: parts[change.key] for change in root_done if change.key in parts}
            bases.record_merge(
                review.lower_snapshot,
                merge.id,
                number,
                _current_entries(merge, review, number, root_done),
                _remainder_bases(merge, number, own),
                edited=_differing_paths(merge, number),
            )
        if is_all:
            os.makedirs(f"{aside}/{number}", exist_ok=True)
            upper_update.move_all_aside(tree, f"{aside}/{number}", skip)
        elif root_changes:
            others = tuple(change for change in remaining if change.key.root == number)
            upper_update.remove_applied(
                tree, root_changes, others, skip, with_git=bool(review.record.get("is_restore")), unknown=unknown
            )
    review.lower_snapshot.release_index()
    durable.sync_file_system_of(review.session.folder)  # else a power cut after `FINISHED` could restore removed changes
    background_removal.remove_in_background(aside)
    return is_all


def _recorded_earlier(merge: merge_execution.Merge) -> frozenset[Key]:
    """Return the keys of changes that an earlier phase applied, if this one continues it.

    Recorded again, their new base versions would replace those that an undo restores.
    """
    if len(merge.journal.phases) == 1:  # there is no earlier one
        return frozenset()
    earlier = merge.journal.applied_ops() - frozenset(merge.journal.phases[-1].numbers)
    if not earlier:
        return frozenset()
    return frozenset(change.key for change in applied_changes(merge, tuple(earlier)) if not change.is_session_only)


def has_commits_left(review: Review) -> bool:
    """Return whether a session holds commits that were neither imported nor declined, or that cannot be read."""
    if not refs.have_refs_changed(review.session, review.record):
        return False
    from agent_dev.agent_git import commits  # few agents commit

    try:
        sources = list_repositories(review.session, review.record)
        return any(commits.list_undecided(source, review.environ) for source in sources)
    except AgentDevError:
        return True


def find_unlisted_work(review: Review) -> tuple[UnlistedWork, ...]:
    """Return the work in a session's submodules that only the session has."""
    if not refs.have_refs_changed(review.session, review.record):
        return ()
    from agent_dev.agent_git import read_unlisted  # few agents commit

    sources = list_repositories(review.session, review.record)
    found = (one for source in sources for one in read_unlisted.find_in_submodules(source, review.environ))
    return tuple(one for one in found if one.has_content)


def _unknown_paths(tree: dir_tree.Tree, base: Mapping[bytes, Entry], skip: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the paths of the agent's changes in unreadable directories, which are not listed: they stay."""
    found = list(walk.walk(tree.path, skip=skip))
    return (*interpret.unknown_deletions(found, base), *interpret.unknown_folders(found, base))


def _saved_slots(merge: merge_execution.Merge, kind: str) -> dict[Key, str]:
    """Return by key the slots in which a merge saved the session's version (`agent` or `part`)."""
    slots = ((key, kept.get(kind)) for key, kept in merge.journal.kept.items())
    later = {merge.journal.ops[number].key: one.agent_slot for number, one in merge.journal.replaced.items() if kind == "agent"}
    return {key: str(slot) for key, slot in (*slots, *later.items()) if slot}


def keys_stored_elsewhere(merge: merge_execution.Merge) -> frozenset[Key]:
    """Return the keys with a version for the session that is not in the slots: saved aside, or imported by commits."""
    return frozenset((*_saved_slots(merge, "agent"), *_saved_slots(merge, "part"), *_imported_keys(merge)))


def _remainder_bases(merge: merge_execution.Merge, number: int, parts: dict[Key, str]) -> dict[bytes, tuple[bytes, int]]:
    """Return the base version plus the selected parts, for files whose real content or mode differs from that."""
    found: dict[bytes, tuple[bytes, int]] = {}
    modes = {key: kept["part_mode"] for key, kept in merge.journal.kept.items() if "part_mode" in kept}
    for key, slot in parts.items():
        if key.root == number:
            with open(f"{staging.aside_path(merge.folder, number)}/{slot}", "rb") as file:
                data = file.read()
            real = merge.real_trees[number].entry_at(key.path)
            real_mode = real.mode if real is not None else 0
            mode = int(modes.get(key, real_mode))
            if mode != real_mode or not _has_content(merge.real_trees[number], key.path, data):
                found[key.path] = (data, mode)
    return found


def _has_content(tree: dir_tree.Tree, path: bytes, data: bytes) -> bool:
    """Return whether a file has this content; an unreadable one counts as different."""
    try:
        return tree.read(path, len(data)) == data
    except PermissionError:
        return False


def _current_entries(
    merge: merge_execution.Merge, review: Review, number: int, taken: tuple[Change, ...]
) -> Iterator[tuple[bytes, Entry | None]]:
    """Yield the entries that a merge left at the paths, and at parent directories that it created or removed."""
    real, base = merge.real_trees[number], review.lower_snapshot.entries(number)
    mark_of, folders = _recorded_marks(merge), set[bytes]()
    for change in taken:
        path = change.key.path
        folders.update(parents_of(path))
        now, mark = real.entry_at(path), mark_of(change.key)
        yield path, now if mark is None or _is_marked(now, mark) else _entry_of(mark)
    folders.difference_update(change.key.path for change in taken)
    known = base.existing(folders)
    for folder in folders:
        found = real.entry_at(folder)
        if (found is None) != (folder not in known):
            yield folder, found


def _is_marked(now: Entry | None, mark: EntryMark) -> bool:
    return now is not None and now.identity == mark.identity


def _entry_of(mark: EntryMark) -> Entry:
    return Entry(mark.type, mark.mode, mark.size, mark.inode, mark.mtime, mark.ctime)


def _recorded_marks(merge: merge_execution.Merge) -> Callable[[Key], EntryMark | None]:
    """Return a function from a key to the mark that the phase recorded of a file there: later changes are the user's."""
    result = merge.journal.phases[-1].result
    found = result.marks if result is not None else {}
    ops = merge.journal.ops
    own = {ops[number].key: mark for number, mark in found.items() if mark is not None}
    members = MemberMarks(ops[number] for number, mark in found.items() if mark is not None)

    def mark_of(key: Key) -> EntryMark | None:
        mark = members.get(key) or own.get(key)
        return mark if mark is not None and mark.type is FileType.FILE else None

    return mark_of


def _write_state(review: Review, state: str) -> None:
    is_discarded = review.record["state"] == store.DISCARDED  # the state to restore with `undiscard`
    review.record = {**review.record, "discarded_as" if is_discarded else "state": state}  # type: ignore[misc]
    store.write_record(review.session, review.record, is_durable=True)
    store.sync_record(review.session)


# Undo: restore changes to the session


def _restore_undone(merge: merge_execution.Merge, review: Review) -> bool:
    phase = merge.journal.phases[-1]
    stopped, imported = phase.result.stopped if phase.result else {}, _imported_keys(merge)
    ops = [merge.journal.ops[number] for number in phase.numbers if number not in stopped]
    marks = phase.result.marks if phase.result else {}
    for number, real in enumerate(merge.real_trees[: len(review.real_trees)]):
        root_ops = [op for op in ops if op.key.root == number]
        dropped = _session_only_paths(merge, number)
        if not root_ops and not dropped:
            continue
        real.close_directories()
        _restore_to_session(merge, review, number, [op for op in root_ops if op.key not in imported])
        own = [one for one in phase.numbers if one not in stopped and merge.journal.ops[one].key.root == number]
        members = (key.path for op in root_ops for key, _ in op.member_marks())
        paths = chain((op.key.path for op in root_ops), dropped, members)
        entry_at = _restored_entry_at(merge, number, own, marks)
        bases.record_undo(review.session.lower_snapshot, merge.id, number, paths, entry_at, _differing_paths(merge, number))
    _write_state(review, store.WAITING)
    return False


def _restored_entry_at(
    merge: merge_execution.Merge, number: int, numbers: list[int], marks: Mapping[int, EntryMark | None]
) -> Callable[[bytes], Entry | None]:
    """Return a function from a path to the entry that an undo restored there; None below whole directories that it removed."""
    ops, moves = merge.journal.ops, dict[bytes, int]()
    for one in numbers:
        op = ops[one]
        # Of two operations at a path, the one that restored an entry counts.
        if op.kind in (OpKind.ATTACH, OpKind.DETACH, OpKind.EXCHANGE) and (op.old is not None or op.key.path not in moves):
            moves[op.key.path] = one
    members, real = MemberMarks(ops[one] for one in numbers), merge.real_trees[number]

    def entry_at(path: bytes) -> Entry | None:
        move = moves.get(path)
        if move is None and members.get(Key(number, path)) is not None:
            return None
        now = real.entry_at(path)
        return now if move is None else _restored(ops[move], marks.get(move), now)

    return entry_at


def _restored(op: Operation, mark: EntryMark | None, now: Entry | None) -> Entry | None:
    """Return the entry that an undo restored at a path; the user's later changes to it are not part of the base."""
    if op.old is None or op.old.type is not FileType.FILE:
        return now if op.old is not None else None
    if mark is None or (mark.content_identity, mark.mode) != (op.old.content_identity, op.old.mode):
        mark = op.old.with_values(ctime=0)
    if mark.matches_unmoved(now):
        return now
    return _entry_of(mark)


def _differing_paths(merge: merge_execution.Merge, number: int) -> frozenset[bytes]:
    """Return the paths of a root that differed from the base before the merge, or that an undo leaves different."""
    merged = {change.key for change in merge.changes() if change.is_merged}
    merged |= {merge.journal.ops[one].key for one in merge.journal.replaced}
    return frozenset(key.path for key in merged if key.root == number)


def _imported_keys(merge: merge_execution.Merge) -> frozenset[Key]:
    """Return the keys that commits imported: the session's own files are not affected."""
    return frozenset(change.key for change in merge.changes() if change.is_from_commit)


def _session_only_paths(merge: merge_execution.Merge, number: int) -> tuple[bytes, ...]:
    return tuple(change.key.path for change in merge.changes() if change.is_session_only and change.key.root == number)


def _restore_to_session(merge: merge_execution.Merge, review: Review, number: int, ops: list[Operation]) -> None:
    real, upper_tree, stage = merge.real_trees[number], review.upper_trees[number], merge.stages[number]
    saved, parts = _saved_slots(merge, "agent"), _saved_slots(merge, "part")
    if stage is not None:
        own = [op for op in ops if op.key not in saved and op.key not in parts]
        upper_update.restore_entries(upper_tree, real, stage, tuple(_entries_to_restore(own)))
    paths = [*(op.key.path for op in ops if op.key in saved), *_session_only_paths(merge, number)]
    if paths:
        kept = Stage(staging.aside_path(merge.folder, number))
        given = tuple(upper_update.RestoredEntry(path, saved.get(Key(number, path))) for path in paths)
        upper_update.restore_entries(upper_tree, real, kept, given, is_copied=True)
        kept.close()


def _entries_to_restore(ops: list[Operation]) -> list[upper_update.RestoredEntry]:
    set_modes = {op.key: op.new for op in ops if op.kind is OpKind.MODE and op.new is not None}
    modes = {key: new.mode for key, new in set_modes.items()}
    created = {op.key for op in ops if op.kind is not OpKind.MODE}
    entries = [
        upper_update.RestoredEntry(key.path, "", new.mode, new.attributes) for key, new in set_modes.items() if key not in created
    ]
    for op in ops:
        if op.kind is not OpKind.MODE:
            mode = op.new.mode if op.new is not None else 0
            slot = op.slot if op.new is not None else None
            entries.append(upper_update.RestoredEntry(op.key.path, slot, modes.get(op.key, mode), is_whole=bool(op.members)))
    return entries


def return_adopted_files(merge: merge_execution.Merge, place: store.Store) -> bool:
    """Return adopted files of an interrupted merge to their session; return whether all of them left the slots.

    Raises SessionBusy, OSError.
    """
    if not merge.journal.adopted:
        return True
    session = lock_session(merge.journal.header, place)
    if session is None:
        return False
    count = merge.journal.header.session_root_count if merge.journal.header else 0
    store.make_uppers_accessible(session, count)
    trees = uppers.open_trees(session, count)
    try:
        merge_execution.return_adopted(merge, trees)
    finally:
        uppers.close_trees(session, trees)
        store.unlock_session(session)
    return True


def has_slot(merge: merge_execution.Merge, number: int) -> bool:
    """Return whether an operation's new content is in its slot, or it has none."""
    op = merge.journal.ops[number]
    stage = merge.stages[op.key.root]
    return op.new is None or not op.slot or op.kind is OpKind.MODE or (stage is not None and stage.entry_in(op.slot) is not None)


def move_back_to_slots(merge: merge_execution.Merge, review: Review, numbers: tuple[int, ...]) -> dict[int, str]:
    """Move restored changes from the session back into their slots; return the operations that the session has no change for.

    If the redo is interrupted, `return_failed_redo` returns them. Raises OSError.
    """
    missing = {}
    aside = _saved_slots(merge, "agent")
    for number in numbers:
        op = merge.journal.ops[number]
        stage = merge.stages[op.key.root]
        if op.key in aside and not _is_saved_restored(merge, review.upper_trees[op.key.root], op.key, aside[op.key]):
            missing[number] = "the session has another version of it now"
            continue
        if has_slot(merge, number) or stage is None or op.new is None:
            continue
        tree = review.upper_trees[op.key.root]
        found = tree.entry_at(op.key.path)
        if not _is_still_restored(tree, op, found):
            missing[number] = "the session has another version of it now"
            continue
        if op.members:
            upper_update.move_directory_to_slot(tree, stage, op.key.path, op.slot)
            continue
        if found is not None:
            if op.old is not None and op.old.type is FileType.FILE:
                found = acl.with_acl_of(found, merge.real_trees[op.key.root], op.key.path)
            upper_update.move_to_slot(tree, stage, op.key.path, op.slot, found)
    return missing


def _is_still_restored(tree: dir_tree.Tree, op: Operation, found: Entry | None) -> bool:
    """Return whether a session still has the entry that an undo restored to it."""
    if op.members:
        return whole_directories.is_unchanged_at(tree, op)
    if op.new is None or found is None or not op.new.matches(found) or found.links > 1:
        return False
    return found.type is not FileType.FILE or (found.mode == op.new.mode and not has_other_attributes(tree, op))


def has_other_attributes(tree: dir_tree.Tree, op: Operation) -> bool:
    """Return whether a file has other attributes or another ACL than when an operation applied it."""
    folder, _, name = op.key.path.rpartition(b"/")
    recorded = op.attributes_digest
    return bool(recorded) and attribute_digest.digest_attributes(tree.directory(folder), name) != recorded


def _is_saved_restored(merge: merge_execution.Merge, tree: dir_tree.Tree, key: Key, slot: str) -> bool:
    """Return whether a session still has the saved version that an undo restored: a redo removes it again."""
    kept = dir_tree.Tree(staging.aside_path(merge.folder, key.root), is_ours=True)
    try:
        wanted, found = kept.entry_at(slot.encode()), tree.entry_at(key.path)
        if wanted is None or found is None or (found.type, found.size, found.target) != (wanted.type, wanted.size, wanted.target):
            return False
        if wanted.type is not FileType.FILE:
            return True
        is_same = (found.mode & 0o777, found.attributes) == (wanted.mode & 0o777, wanted.attributes)
        return is_same and kept.read(slot.encode(), wanted.size) == tree.read(key.path, found.size)
    finally:
        kept.close()


def recover_slots(merge: merge_execution.Merge, place: store.Store, environ: dict[str, str]) -> None:
    """Move the entries that an interrupted redo moved into the slots back to their session. Raises SessionBusy, OSError."""
    if merge.journal.phases[-1].is_forward:
        return
    session = lock_session(merge.journal.header, place)
    opened = _open(session, environ) if session is not None else None
    try:
        if opened is not None:
            return_failed_redo(merge, opened)
            opened.close()
    finally:
        if session is not None:
            store.unlock_session(session)


def return_failed_redo(merge: merge_execution.Merge, review: Review) -> None:
    """Return to a session the slots of all undone operations, after a redo that failed."""
    done = merge.journal.applied_ops()
    first = merge.journal.phases[0].result if merge.journal.phases else None
    stopped = first.stopped if first is not None else {}
    undone = [op for number, op in enumerate(merge.journal.ops) if number not in done and number not in stopped]
    imported = _imported_keys(merge)
    for number in range(len(review.real_trees)):
        root_ops = [
            op
            for op in undone
            if op.key.root == number and op.key not in imported and op.kind in (OpKind.ATTACH, OpKind.EXCHANGE)
        ]
        if root_ops:
            _restore_to_session(merge, review, number, root_ops)


def refresh_base_times(merge: merge_execution.Merge, session: store.Session) -> None:
    """Refresh a locked session's base for rolled-back files: moving them changed their ctime."""
    count = merge.journal.header.session_root_count if merge.journal.header else 0
    for number, real in enumerate(merge.real_trees[:count]):
        real.close_directories()
        theirs = _differing_paths(merge, number)
        root_ops = [op for op in merge.journal.ops if op.key.root == number and op.old is not None and op.kind is not OpKind.MODE]
        unmerged_ops = [op for op in root_ops if op.key.path not in theirs]
        found = ((op, real.entry_at(op.key.path)) for op in unmerged_ops)
        now = {op.key.path: entry for op, entry in found if entry is not None and op.old is not None and op.old.matches(entry)}
        if now:
            bases.record_new_times(session.lower_snapshot, number, now)


def lock_session(begin: MergeHeader | None, place: store.Store) -> store.Session | None:
    """Lock and return the session of a merge; None if it no longer exists. Raises SessionBusy."""
    folders = [f"{where}/{begin.session}" for where in (place.sessions, place.trash)] if begin is not None else []
    folder = next(filter(os.path.isdir, folders), "")
    if begin is None or not folder:
        return None
    found = store.Session(begin.session, folder)
    try:
        session = session_access.lock_when_free(found, store.RUNNING if store.has_in_record(found, (store.RUNNING,)) else "")
    except FileNotFoundError:
        return None  # it was just removed from the trash
    session_access.finish_interrupted_work(session)
    return session
