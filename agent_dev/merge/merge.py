"""Merge a selection: plan it for the current real tree, apply it, save replaced files, update the session."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain

from agent_dev.agent_git.unlisted_work import UnlistedWork
from agent_dev.diff import merge3
from agent_dev.diff import partial_selection as choices
from agent_dev.diff.partial_selection import LineSelection
from agent_dev.errors import CannotMerge, CommandFailed, UnknownOutcome, UsageError
from agent_dev.fs import dir_tree, disk_space
from agent_dev.fs.entry import Entry, FileType, Key, parents_of
from agent_dev.git import user_refs
from agent_dev.git.updates import GitUpdate
from agent_dev.merge import conclude, recover
from agent_dev.merge.review import MAX_DIFF_SIZE, Review
from agent_dev.merge_engine import (
    index_lock,
    index_operation,
    journal_file,
    merge_clock,
    merge_execution,
    merge_plan,
    remove_merge,
    staging,
)
from agent_dev.merge_engine.journal import NextAction, Operation, PhaseResult
from agent_dev.merge_engine.merge_plan import MergePlan, PutEntry, RemoveEntry, SkippedChange
from agent_dev.overlay.changes import MAX_FEW_DELETIONS, Change, ChangeKind, with_requirements
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import store

Notify = Callable[[str], None]
_KINDS_WITH_LINES = (ChangeKind.EDITED, ChangeKind.ADDED, ChangeKind.DELETED, ChangeKind.RENAMED)


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The result of a merge, or (`id` empty) of a preview. `skipped` and `conflicts` include the reasons."""

    id: str
    applied: tuple[Change, ...]
    skipped: tuple[SkippedChange, ...]
    conflicts: tuple[SkippedChange, ...]
    is_session_empty: bool  # the session is empty now
    hard_linked: tuple[Key, ...] = ()  # files with hard links: the other names keep the old content
    partly: int = 0  # number of applied files of which a part stays in the session
    has_commits_left: bool = False  # it applied files, and the session still has commits that were not imported
    unlisted: tuple[UnlistedWork, ...] = ()  # it applied files, and the session still has work in submodules


def plan_selection(review: Review, selection: Selection, requested: frozenset[Key]) -> MergePlan:
    """Plan a merge; change nothing. A selected half of a renamed file selects the other too."""
    selection = replace(selection, keys=with_requirements(selection.keys, review.changes))
    is_restore = bool(review.record.get("is_restore"))
    return merge_plan.make_plan(
        review.changes,
        selection,
        requested,
        _changed_directories(review, selection),
        _results(review, selection),
        is_restore=is_restore,
    )


def _results(review: Review, selection: Selection) -> dict[Key, merge_plan.ReconciledContent]:
    """Return the content that is applied instead of the agent's file: merged with the user's, or only the selected part.

    Raises CannotMerge for a part that conflicts with the user's change.
    """
    found = {key: fit.result for key, fit in review.reconciliations.items() if fit.result is not None and key in selection}
    table = review.changes.by_key()
    for key, choice in selection.partial.items():
        if key in selection and key in table:
            found[key] = _partial_result(review, review.find_change(key), choice)
    return found


def _partial_result(review: Review, change: Change, choice: LineSelection) -> merge_plan.ReconciledContent:
    before, agent = review.content(change.key)
    if change.before is None:
        before = b""
    if change.kind is ChangeKind.DELETED:
        agent = b""
    like = change.before if change.after is None else change.after
    if change.kind not in _KINDS_WITH_LINES or like is None or like.type is not FileType.FILE or before is None or agent is None:
        raise CannotMerge(path=change.key.path, reason="only a text file can be selected in part")
    try:
        part = choices.apply_selection(before, agent, choice)
    except choices.InvalidSelection as error:
        raise UsageError(message=f"{change.key.path.decode('utf-8', 'replace')}: {error}") from None
    content, whole = part, review.reconciliations.get(change.key)
    if change.is_merged:
        yours = review.real_trees[change.key.root].read(change.key.path, MAX_DIFF_SIZE) or b""
        merged = merge3.merge_lines(before, yours, part)
        if not merged.is_clean:
            raise CannotMerge(path=change.key.path, reason="the selected part conflicts with your change")
        content = merged.resolve()
    mode, attributes = _mode(change, like if whole is None or whole.result is None else whole.result, choice)
    base_mode = like.mode if choice.mode else mode if change.before is None else change.before.mode
    is_rest = (part, base_mode, attributes) != (agent, like.mode, like.attributes) or change.kind is ChangeKind.DELETED
    return merge_plan.ReconciledContent(content, mode, attributes, merge_plan.RemainderBase(part, base_mode) if is_rest else None)


def _mode(
    change: Change, like: Entry | merge_plan.ReconciledContent, choice: LineSelection
) -> tuple[int, tuple[tuple[str, bytes], ...]]:
    """Return mode and attributes of a partly selected file; if its mode is not selected, those of the real file."""
    if choice.mode:
        return like.mode, like.attributes
    real_entry = change.expected
    return (like.mode & ~0o111, ()) if real_entry is None else (real_entry.mode, real_entry.attributes)


def _changed_directories(review: Review, selection: Selection) -> merge_plan.ChangedDirectories:
    """Find the directories around the selected changes that the agent created or removed."""
    made: dict[Key, Entry] = {}
    removed: list[Key] = []
    for number, tree in enumerate(review.upper_trees):
        wanted = {folder for key in selection.keys if key.root == number for folder in parents_of(key.path)}
        base = review.lower_snapshot.entries(number)
        for path in wanted:
            entry = tree.entry_at(path)
            if entry is not None and entry.type is FileType.DIRECTORY:
                if path not in base:
                    made[Key(number, path)] = entry
            elif (path in base or review.real_trees[number].entry_at(path)) and Key(number, path) not in review.changes.by_key():
                removed.append(Key(number, path))
    return merge_plan.ChangedDirectories(made, tuple(removed))


def excessive_deletions(review: Review, planned: MergePlan, percent: int) -> int:
    """Return how many files a plan deletes if that exceeds a share of the tree and a minimum count, else 0.

    Emptied files and files replaced by another type count too.
    """
    deleted = merge_plan.count_lost_files(planned, review.changes)
    total = sum(
        1
        for number in range(len(review.real_trees))
        for entry in review.lower_snapshot.entries(number).values()
        if entry.type is FileType.FILE
    )
    return deleted if deleted > MAX_FEW_DELETIONS and deleted * 100 > total * percent else 0


def preview(review: Review, planned: MergePlan) -> MergeResult:
    """Return the result that a plan would have, without running it."""
    table = review.changes.by_key()
    taken = tuple(table[key] for key in planned.selected)
    return MergeResult(
        "",
        taken,
        planned.skipped,
        planned.conflicts,
        is_session_empty=False,
        hard_linked=_hard_linked(planned, review),
    )


def _hard_linked(planned: MergePlan, review: Review) -> tuple[Key, ...]:
    """Return the replaced and renamed files with other hard links in the real tree, unless the plan deletes all of these.

    The other names keep the old content.
    """
    renamed = frozenset(review.changes.renames.values())
    replaced = ((step.key, step.expected) for step in planned.steps if isinstance(step, PutEntry))
    moved = ((step.key, step.expected) for step in planned.steps if isinstance(step, RemoveEntry) and step.key in renamed)
    every = ((key, was) for key, was in chain(replaced, moved) if was is not None)
    found = [(key, was) for key, was in every if was.type is FileType.FILE and was.links > 1]
    if not found:
        return ()
    gone = Counter((step.key.root, step.expected.inode) for step in planned.steps if isinstance(step, RemoveEntry))
    return tuple(key for key, was in found if was.links - gone[key.root, was.inode] > (key not in renamed))


def apply_plan(
    review: Review,
    planned: MergePlan,
    state_dir: store.Store,
    notice: Notify = lambda _: None,
    *,
    is_atomic: bool = False,
    report_progress: merge_execution.ReportProgress = merge_execution.ignore_progress,
) -> MergeResult:
    """Merge. Raises CannotMerge if nothing was changed, UnknownOutcome if the disk failed during the commit.

    `is_atomic`: merge nothing if a selected change conflicts. `notice` receives reasons for a delay, `report_progress` the
    completed steps. Ctrl-C and a hangup are blocked until the merge is done and recorded.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
    try:
        return _carry_out(review, planned, state_dir, notice, _Options(is_atomic, report_progress=report_progress))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True, slots=True)
class RepositoryUpdate:
    """An import's changes to one of the user's repositories: refs and a new index.

    `copy_objects` copies the objects of the commits to it. `git_dir`: the git directory whose index is replaced, or None;
    `index` is the file that replaces `expected_index`.
    """

    refs: GitUpdate
    copy_objects: Callable[[], None]
    git_dir: dir_tree.Tree | None = None
    index: str = ""
    expected_index: Entry | None = None


@dataclass(frozen=True, slots=True)
class CommitImport:
    """The import of commits: the updates of repositories, and the changes of the work trees (`changes`: the plan's, by key)."""

    repositories: tuple[RepositoryUpdate, ...]
    plan: MergePlan
    changes: Mapping[Key, Change]

    @property
    def git_dirs(self) -> tuple[dir_tree.Tree, ...]:
        """The git directories whose indexes are replaced."""
        return tuple(one.git_dir for one in self.repositories if one.git_dir is not None)


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a merge: atomic, an import of commits, progress; and its id and lock."""

    is_atomic: bool
    home: CommitImport | None = None
    report_progress: merge_execution.ReportProgress = merge_execution.ignore_progress
    id: str = ""
    lock: int = -1


def import_commits(review: Review, home: CommitImport, state_dir: store.Store, notice: Notify) -> MergeResult:
    """Import commits: files, indexes and refs of all repositories together, or nothing.

    Raises CannotMerge, CommandFailed, UnknownOutcome.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
    try:
        return _carry_out(review, home.plan, state_dir, notice, _Options(is_atomic=True, home=home))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _carry_out(review: Review, planned: MergePlan, state_dir: store.Store, notice: Notify, options: _Options) -> MergeResult:
    home = options.home
    table = review.changes.by_key() if home is None else home.changes
    if not planned.selected and home is None:
        return MergeResult("", (), planned.skipped, planned.conflicts, is_session_empty=False)
    review.release_derived()
    linked = _hard_linked(planned, review)
    parts = tuple(step.key for step in planned.steps if isinstance(step, PutEntry) and step.part is not None)
    with journal_file.merge_lock(state_dir, notice) as lock:
        merge_id = f"{review.session.id}.{merge_clock.next_time(state_dir) // 10**6:x}"
        recover.recover_roots(state_dir, review.record["roots"], review.environ, notice, excluded=review.session.id)
        merging, result = _apply(review, planned, state_dir, replace(options, id=merge_id, lock=lock))
        try:
            is_done = merging.journal.next_action is NextAction.FINISH
            done = frozenset(change.key for change in conclude.applied_changes(merging)) if is_done else frozenset[Key]()
            taken = tuple(table[key] for key in planned.selected if key in done)
            split = tuple(key for key in linked if key in done)
            partly = sum(key in done for key in parts)
            not_applied = _not_applied(merging, result, planned, done)
            del done
            is_all = is_done and _conclude(merging, state_dir, review)
        finally:
            merging.close()
            if merging.journal.next_action is NextAction.DISCARD:
                _remove_preparations(merging, state_dir)
    conflicts = (*planned.conflicts, *not_applied)
    has_commits = home is None and is_done and not is_all and conclude.has_commits_left(review)
    unlisted = conclude.find_unlisted_work(review) if home is None and is_done and not is_all else ()
    return MergeResult(
        merge_id if is_done else "", taken, planned.skipped, conflicts, is_all, split, partly, has_commits, unlisted
    )


def _not_applied(
    merging: merge_execution.Merge, result: PhaseResult, planned: MergePlan, done: frozenset[Key]
) -> tuple[SkippedChange, ...]:
    """Return the selected changes that were not applied, with the reason."""
    if done.issuperset(planned.selected):
        return ()
    reasons = conclude.failure_reasons(merging, result.stopped)
    why = "a change that it requires was not applied"
    return tuple(SkippedChange(key, reasons.get(key, why)) for key in planned.selected if key not in done)


def _conclude(merging: merge_execution.Merge, state_dir: store.Store, review: Review) -> bool:
    try:
        return conclude.conclude(merging, state_dir, review.environ, review)
    except OSError as error:
        message = f"the merge was applied, but the session could not be updated: {error.strerror}"
        raise CannotMerge(
            path=state_dir.merges, reason=message, hint="free some disk space; the next agent-dev command here continues"
        ) from None


def _apply(
    review: Review, planned: MergePlan, state_dir: store.Store, options: _Options
) -> tuple[merge_execution.Merge, PhaseResult]:
    merge_id, home = options.id, options.home
    grounds = replace(_merge_trees(review, state_dir, merge_id, home), report_progress=options.report_progress)
    try:
        os.makedirs(state_dir.merges, 0o700, exist_ok=True)
    except OSError as error:
        raise CannotMerge(path=state_dir.merges, reason=f"{error.strerror}; nothing was changed") from None
    wanted = {step.key.root for step in planned.steps} | set(range(len(review.real_trees), len(grounds.real_trees)))
    merging = merge_execution.begin_merge(state_dir, merge_id, review.session.id, grounds, wanted)
    merging.lock_fd = options.lock
    merging.known_changes = review.changes.by_key() if home is None else home.changes
    try:
        try:
            result = _drive(merging, review, planned, home, is_atomic=options.is_atomic)
        finally:
            for git_dir in grounds.git_dirs:
                index_lock.release(git_dir, merge_id)
        if merging.journal.next_action is NextAction.DISCARD:
            _restore_session(merging, review)
        return merging, result
    except (CannotMerge, CommandFailed):  # a failed git command, before any change
        _restore_session(merging, review)
        merging.close()
        _remove_preparations(merging, state_dir)
        raise


def _drive(
    merging: merge_execution.Merge, review: Review, planned: MergePlan, home: CommitImport | None, *, is_atomic: bool
) -> PhaseResult:
    table = review.changes.by_key() if home is None else home.changes
    ops, kept = staging.stage_plan(merging, planned, review.upper_trees)
    planned.steps.clear()  # 100,000 need 12 MB
    renames = {} if home is not None else review.changes.renames
    applied = (
        merge_plan.recorded_change(table[key], is_part="part" in kept.get(key, {}), renamed_from=renames.get(key))
        for key in planned.selected
    )
    updates, number = [], len(review.real_trees)
    for one in home.repositories if home is not None else ():
        if one.git_dir is None:
            updates.append(one.refs)
            continue
        ops, number = (*ops, _index(merging, number, one)), number + 1
        updates.append(replace(one.refs, index_operation=len(ops) - 1))
        user_refs.require_head(one.refs)
    for one in home.repositories if home is not None else ():
        _import_objects(one)
    intent = merge_plan.make_intent(ops, applied, kept, tuple(updates))
    return merge_execution.run_merge(merging, intent, is_atomic=is_atomic)


def _index(merging: merge_execution.Merge, root: int, home: RepositoryUpdate) -> Operation:
    try:
        return index_operation.stage_index(merging, root, home.index, home.expected_index)
    except OSError as error:
        where = disk_space.failed_path(error, home.refs.folder, merging.folder)
        raise CannotMerge(path=where, reason=f"{error.strerror}; nothing was changed") from None


def _import_objects(home: RepositoryUpdate) -> None:
    """Copy objects to the user's repository; now only a disk error can stop the merge. Raises CannotMerge, CommandFailed."""
    try:
        home.copy_objects()
    except OSError as error:
        where = disk_space.failed_path(error, home.refs.folder)
        raise CannotMerge(path=where, reason=f"{error.strerror}; nothing was changed") from None


def _merge_trees(review: Review, state_dir: store.Store, merge_id: str, home: CommitImport | None) -> merge_execution.MergeTrees:
    places = _stage_candidates(review, state_dir, merge_id)
    git_dirs = home.git_dirs if home is not None else ()
    index_places = tuple(
        (f"{state_dir.merges}/{merge_id}/stage-{number}", f"{tree.path}/agent-dev-stage.{merge_id}")
        for number, tree in enumerate(git_dirs, start=len(places))
    )
    folders = tuple(tree.path for tree in git_dirs)
    return merge_execution.MergeTrees(review.upper_trees, (*review.real_trees, *git_dirs), (*places, *index_places), folders)


def _restore_session(merging: merge_execution.Merge, review: Review) -> None:
    """Restore the session to its state before a failed merge."""
    try:
        merge_execution.return_adopted(merging, review.upper_trees)
        conclude.refresh_base_times(merging, review.session)
    except OSError as error:
        raise UnknownOutcome(merge=merging.id, reason=error.strerror) from error


def _remove_preparations(merging: merge_execution.Merge, state_dir: store.Store) -> None:
    """Remove the preparations of a failed merge, unless its folder contains a file that the user saved."""
    try:
        if merging.must_keep_folder:
            merging.rest()
        else:
            remove_merge.remove_merge_files(state_dir, merging.id, merging.journal.stage_paths)
    except OSError:
        return  # the next command removes it


def _stage_candidates(review: Review, state_dir: store.Store, merge_id: str) -> tuple[tuple[str, ...], ...]:
    """Return the candidate staging directories of each root: with the merge, in the git common directory, in the root."""
    common = {git["root"]: git["common"] for git in review.record["git"]}
    found = []
    for number, real in enumerate(review.real_trees):
        places = [f"{state_dir.merges}/{merge_id}/stage-{number}"]
        if number in common:
            places.append(f"{common[number]}/agent-dev-stage.{merge_id}")
        found.append((*places, f"{real.path}/.agent-dev-stage.{merge_id}"))
    return tuple(found)
