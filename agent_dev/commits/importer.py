"""Import of a session's commits after verification: as refs, as a branch, or into your branch with its files and index."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from agent_dev.agent_git import commits, current_refs, program, quarantine, refs
from agent_dev.agent_git.changes import HEADS, OPERATION_MARKERS
from agent_dev.commits import destinations, gitlinks, lfs_and_submodules, merge_conflicts, risks, targets, worktree
from agent_dev.commits.destinations import ImportContext, RefDestination
from agent_dev.commits.import_plan import FilePlan, ImportInputs, IndexStat
from agent_dev.commits.lfs_and_submodules import ExtraObjects, SubmoduleImport
from agent_dev.commits.lfs_contents import LfsContentFinder
from agent_dev.commits.merge_conflicts import ConflictDetails
from agent_dev.commits.prefetch import diff_commits
from agent_dev.commits.risks import RiskyFile
from agent_dev.commits.targets import AgentBranch, ImportOptions, PickedCommits
from agent_dev.errors import CannotImport
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import Entry, Key
from agent_dev.git import user_index
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.git.formats.index_format import IndexEntry
from agent_dev.git.merge_tree_conflict import GITLINK
from agent_dev.git.replay import ConflictError
from agent_dev.git.updates import GitUpdate, IndexUpdate, RefUpdate
from agent_dev.git.user_refs import UserGit
from agent_dev.merge import merge
from agent_dev.merge.merge import CommitImport, Notify
from agent_dev.merge.review import Review
from agent_dev.merge_engine import index_operation, lfs_objects
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.session import store

_UNCOMMITTED = "your uncommitted changes"


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import. `merge`: the merge's id, "" if nothing was imported; `commits`: new commits, the oldest first.

    `conflicts`: paths in conflict, with reasons. `next_command`: a command to run if the request was not fulfilled. `risky`:
    files that need a review first; nothing was imported. `resolvable`: conflicts that can be resolved, and `subject`: the subject
    of their commit. `merged_files`: files whose uncommitted changes were merged with the commits.
    """

    session: str
    merge: str = ""
    ref: str = ""
    before: str = ""
    after: str = ""
    commits: tuple[ParsedCommit, ...] = ()
    applied: tuple[Key, ...] = ()
    conflicts: tuple[SkippedChange, ...] = ()
    risky: tuple[RiskyFile, ...] = ()
    reason: str = ""
    next_command: str = ""
    lfs_count: int = 0  # number of imported LFS contents
    refused_lfs: tuple[str, ...] = ()  # LFS contents that do not match their ids
    submodules: tuple[SubmoduleImport, ...] = ()
    resolvable: tuple[ConflictDetails, ...] = ()
    subject: str = ""
    merged_files: tuple[Key, ...] = ()
    not_updated: tuple[SkippedChange, ...] = ()  # files that differ from the commits, and why
    split_links: tuple[Key, ...] = ()  # files with further hard links, which keep the old content


def import_commits(
    review: Review, options: ImportOptions, state_store: store.Store, notice: Notify, *, with_trailers: bool = False
) -> ImportResult:
    """Import commits. Raises UsageError, RefusedCommits, CannotImport, CommandFailed or CannotMerge; then nothing was changed."""
    git = review.record.get("git")
    if git is None:
        raise CannotImport(message="the session has no git directory and no commits", hint="to apply its files: agent-dev merge")
    before, after = refs.read_initial_refs(review.session), current_refs.read_refs(review.session, review.record, review.environ)
    commit_ids = commits.list_commits(review.session, review.record, review.environ) if any(options.commit_args) else ()
    selection = targets.parse_commit_args(options.commit_args, before, after, [one.id for one in commit_ids])
    user = UserGit(git["folder"], program.find_git(review.record, review.environ), review.environ)
    tips = (selection.tip,) if isinstance(selection, AgentBranch) else tuple(_end_ids(selection))
    with quarantine.open_quarantine(review.session, review.record, user, tips) as repo:
        record = review.record
        agent = str(record.get("profile") or (record["command"] or ["agent"])[0])
        trailers = (("Agent", agent), ("Session", review.session.id)) if with_trailers else ()
        work = ImportContext(review, options, user, user.read_config(), repo, trailers)
        if not options.include_risky and (risky := risks.find_risky_files(work, destinations.find_incoming(work, selection))):
            return _refused(work, risky)
        try:
            if isinstance(selection, AgentBranch):
                destination = destinations.plan_branch(work, selection)
                if destination.update.name.startswith(HEADS):  # else it is only kept under refs/agent-dev
                    destination = replace(destination, imported_branch=(selection.name, selection.tip))
            else:
                destination = destinations.plan_picks(work, selection, before)
        except ConflictError as error:
            return _stopped(work, error)
        new_commits = destinations.list_commits_between(
            work, destination.update.new, destination.update.old or destinations.find_fork_point(work, destination.update.new)
        )
        with lfs_and_submodules.open_extra_objects(work, new_commits, destination.update.new) as extras:
            result = _execute(work, destination, extras, new_commits, (state_store, notice))
        return replace(result, refused_lfs=tuple(extras.refused_lfs))


def _refused(work: ImportContext, risky: tuple[RiskyFile, ...]) -> ImportResult:
    """Return the result for risky files that were not selected explicitly."""
    return ImportResult(
        work.review.session.id,
        risky=risky,
        reason="the commits contain risky files; nothing was changed",
        next_command=f"agent-dev merge {work.label} --commits{destinations.format_import_options(work.options)} --include-risky",
    )


def _stopped(work: ImportContext, error: ConflictError) -> ImportResult:
    reason = f"could not apply: {error.subject}"
    value = destinations.format_commits_value(work.options)
    then_merge = "" if error.conflicts else " && git merge NAME"
    conflicts = _with_logs(work, merge_conflicts.read_sides(work.repo, error.conflicts))
    return ImportResult(
        work.review.session.id,
        conflicts=_describe([SkippedChange(Key(0, path), reason) for path in error.paths], conflicts),
        reason="nothing was changed",
        next_command=f"agent-dev merge {work.label} --commits{value} --as NAME{then_merge}",
        resolvable=conflicts,
        subject=error.subject,
    )


def _with_logs(work: ImportContext, conflicts: tuple[ConflictDetails, ...]) -> tuple[ConflictDetails, ...]:
    """Add the commits of submodules to conflicts. Raises CommandFailed."""
    if not any(GITLINK in (one.conflict.yours[0], one.conflict.agent[0]) for one in conflicts):
        return conflicts
    git, review = work.review.record["git"], work.review
    user_objects = tuple(f"{one}/objects" for one in gitlinks.find_submodule_git_dirs(git["common"])) if git is not None else ()
    with gitlinks.open_submodule_objects(review.session, review.record, review.environ, user_objects) as repo:
        return tuple(merge_conflicts.add_submodule_log(one, partial(gitlinks.read_submodule_log, repo)) for one in conflicts)


def _describe(paths: list[SkippedChange], conflicts: tuple[ConflictDetails, ...]) -> tuple[SkippedChange, ...]:
    """Return the paths in conflict; for submodules, with their commits."""
    submodule_reasons = {
        one.conflict.path: one.reason for one in conflicts if GITLINK in (one.conflict.yours[0], one.conflict.agent[0])
    }
    return tuple(replace(one, reason=submodule_reasons.get(one.key.path, one.reason)) for one in paths)


def _end_ids(picks: PickedCommits) -> Iterator[str]:
    for item in picks.items:
        yield item if isinstance(item, str) else item[1]


# Execution


def _execute(
    work: ImportContext,
    target: RefDestination,
    extras: ExtraObjects,
    added: tuple[ParsedCommit, ...],
    context: tuple[store.Store, Notify],
) -> ImportResult:
    update = target.update
    files, index, index_stat = FilePlan(), None, index_operation.index_entry(work.user_git.folder)
    if target.is_here:
        files, index = _plan_files(work, update)
    result = ImportResult(
        work.review.session.id,
        "",
        update.name,
        update.old,
        update.new,
        added,
        reason=target.reason,
        next_command=target.next_command,
    )
    if files.case_collisions or files.conflicts:
        return _refuse_files(work, files, result)
    result = replace(
        result,
        lfs_count=extras.lfs_count,
        submodules=extras.submodules,
        merged_files=tuple(Key(0, path) for path in sorted(files.merged_paths)),
        not_updated=tuple(files.not_updated),
    )
    if work.options.is_dry_run:
        return replace(result, applied=tuple(key for key in files.changes if key not in files.dropped))
    merged = _import(work, target, extras, (files, index, index_stat), context)
    if not merged.id and not merged.conflicts:
        raise CannotImport(
            message="your index was changed by another process; nothing was imported", hint="run the command again"
        )
    applied = tuple(change.key for change in merged.applied if not change.is_session_only)
    return replace(result, merge=merged.id, applied=applied, conflicts=merged.conflicts, split_links=merged.hard_linked)


def _refuse_files(work: ImportContext, files: FilePlan, result: ImportResult) -> ImportResult:
    """Return the result of an import that changes nothing, because names collide or the user's edits conflict."""
    retry = f"agent-dev merge {work.label} --commits{destinations.format_commits_value(work.options)} --as NAME"
    unchanged = replace(result, commits=(), reason="nothing was changed")
    if files.case_collisions:
        return replace(unchanged, conflicts=tuple(files.case_collisions), next_command=retry)
    conflicts = _with_logs(work, _first_conflicts(files))
    return replace(
        unchanged,
        resolvable=conflicts,
        subject=_UNCOMMITTED,
        conflicts=_describe(files.conflicts, conflicts),
        next_command=f"commit or stash your changes, or {retry}",
    )


def _import(
    work: ImportContext,
    target: RefDestination,
    extras: ExtraObjects,
    plan: tuple[FilePlan, user_index.IndexCopy | None, Entry | None],
    context: tuple[store.Store, Notify],
) -> merge.MergeResult:
    """Import the objects, then move the refs and change the work tree and the index in one merge."""
    (files, index, index_stat), update = plan, target.update
    known = tuple(sorted(set(work.user_git.read_refs().values())))
    blobs = tuple(one.new[1] for one in files.index_updates if files.new_blobs and one.new[1])
    git = work.review.record["git"]
    assert git is not None  # noqa: S101  (checked in `bring`)

    def adopt() -> None:
        quarantine.import_objects(work.repo, git["common"], (update.new, *blobs), known)
        extras.import_objects(files.lfs_sources, lfs_objects.storage_path(git["common"], work.config))

    git_update = GitUpdate(
        work.user_git.folder,
        work.user_git.program,
        work.user_git.environ,
        (update,),
        index_updates=tuple(files.index_updates),
        has_more=bool(destinations.list_other_branches(work, target.imported_branch[0] or update.name)),
        imported_branch=target.imported_branch,
        imported_commits=target.imported_commits,
    )
    tree = Tree(work.user_git.folder) if index is not None else None
    try:
        request = CommitImport(
            git_update, files.to_merge_plan(), files.changes, adopt, tree, index.path if index is not None else "", index_stat
        )
        return merge.import_commits(work.review, request, *context)
    finally:
        if tree is not None:
            tree.close()


def _first_conflicts(files: FilePlan) -> tuple[ConflictDetails, ...]:
    """Return one conflict per path that can be resolved now; none unless all can be.

    A conflict with the index comes first: if the file has the same content, one resolution serves both; else the file is next.
    """
    if len(files.resolvable) < len(files.conflicts):
        return ()
    first: dict[bytes, ConflictDetails] = {}
    for conflict in files.resolvable:
        first.setdefault(conflict.conflict.path, conflict)
    return tuple(first.values())


def _stamp(entry: IndexEntry) -> IndexStat:
    return IndexStat(entry.size, entry.inode, entry.mtime, entry.ctime)


def _plan_files(work: ImportContext, update: RefUpdate) -> tuple[FilePlan, user_index.IndexCopy]:
    """Plan the updates of work tree and index. Raises CannotImport while a git operation is in progress."""
    in_progress = [
        operation
        for marker, operation in OPERATION_MARKERS.items()
        if marker != "BISECT_LOG" and work.user_git.is_in_progress(marker)
    ]
    if in_progress:
        raise CannotImport(
            message=f"a {in_progress[0]} is in progress in your repository; nothing was changed", hint="finish or abort it first"
        )
    changes = diff_commits(work.repo, update.old, update.new)
    paths = tuple(one.path for one in changes)
    index_copy = user_index.copy_index(work.repo, work.user_git.folder, frozenset(paths))
    git = work.review.record["git"]
    assert git is not None  # noqa: S101  (checked in `bring`)
    if not user_index.may_convert(index_copy, git["common"], paths, work.config):
        files = worktree.plan_worktree(
            ImportInputs(work.review, work.repo, index_copy.entries, {}, resolutions=work.options.resolutions), changes
        )
        user_index.update_index(index_copy, tuple(files.index_updates))
        return files, index_copy
    attributes_copy = user_index.copy_index(work.repo, work.user_git.folder, frozenset(), "attributes")
    additions = tuple(IndexUpdate(one.path, user_index.NO_ENTRY, (one.new_mode, one.new_oid)) for one in changes if one.new_mode)
    removals = tuple(IndexUpdate(one.path, user_index.NO_ENTRY, user_index.NO_ENTRY) for one in changes if not one.new_mode)
    user_index.update_index(attributes_copy, (*removals, *additions))
    conversions = user_index.read_conversions(attributes_copy, git["common"], paths, work.config)
    is_simple = all(conversion.is_simple for conversion in conversions.values())
    clean = {} if is_simple else {one.path: _stamp(one) for one in user_index.read_clean_entries(index_copy)}
    storage = lfs_objects.storage_path(git["common"], work.config)
    contents = LfsContentFinder(work.review, storage, refs.find_private_git_dir(work.review.session, work.review.record) or "")
    inputs = ImportInputs(work.review, work.repo, index_copy.entries, conversions, clean, work.options.resolutions, contents)
    files = worktree.plan_worktree(inputs, changes)
    user_index.update_index(index_copy, tuple(files.index_updates))
    return files, index_copy
