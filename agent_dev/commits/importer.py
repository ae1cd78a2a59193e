"""Import of a session's verified commits: as refs, as a branch, or into your branch with its files and index."""

from collections import ChainMap
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain

from agent_dev.agent_git import program, quarantine
from agent_dev.agent_git.changes import HEADS, OPERATION_MARKERS
from agent_dev.agent_git.submodules import find_submodule_git_dirs
from agent_dev.commits import destinations, gitlinks, lfs_and_submodules, merge_conflicts, risks, worktree
from agent_dev.commits.destinations import ImportContext, RefDestination
from agent_dev.commits.import_plan import FilePlan, ImportInputs, IndexStat
from agent_dev.commits.import_result import ImportedCommits, ImportResult
from agent_dev.commits.lfs_and_submodules import ExtraObjects
from agent_dev.commits.lfs_contents import LfsContentFinder
from agent_dev.commits.merge_conflicts import ConflictDetails
from agent_dev.commits.prefetch import diff_commits
from agent_dev.commits.risks import RiskyFile
from agent_dev.commits.selected_commits import SelectedCommits, select_commits
from agent_dev.commits.targets import AgentBranch, ImportOptions
from agent_dev.errors import CannotImport
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import Entry, Key
from agent_dev.git import user_index
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.git.formats.index_format import IndexEntry
from agent_dev.git.merge_tree_conflict import GITLINK
from agent_dev.git.replay import ConflictError
from agent_dev.git.updates import NO_ENTRY, GitUpdate, IndexUpdate, RefUpdate
from agent_dev.git.user_refs import UserGit
from agent_dev.merge import merge
from agent_dev.merge.merge import CommitImport, Notify, RepositoryUpdate
from agent_dev.merge.review import Review
from agent_dev.merge_engine import index_operation, lfs_objects, merge_plan
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import store

_UNCOMMITTED = "your uncommitted changes"


@dataclass(frozen=True, slots=True)
class _RepositoryImport:
    """The planned import into one repository: its ref, the objects, the new commits, the files and the new index."""

    work: ImportContext
    target: RefDestination
    extras: ExtraObjects
    commits: tuple[ParsedCommit, ...]
    files: FilePlan
    index_copy: str  # its path; "" if the index stays
    expected_index: Entry | None

    @property
    def outcome(self) -> ImportedCommits:
        """The import as a part of the result."""
        update, extras = self.target.update, self.extras
        return ImportedCommits(
            self.work.source.path,
            update.name,
            update.old,
            update.new,
            self.commits,
            self.target.reason,
            self.target.next_command,
            extras.lfs_count,
            tuple(extras.refused_lfs),
            extras.submodules,
        )


def import_commits(
    review: Review, options: ImportOptions, state_store: store.Store, notice: Notify, *, with_trailers: bool = False
) -> ImportResult:
    """Import commits of all repositories, or of none.

    Raises UsageError, RefusedCommits, CannotImport, CommandFailed or CannotMerge; then nothing was changed.
    """
    selected = select_commits(review, options)
    with ExitStack() as stack:
        works = [_open(review, one, options, stack, with_trailers=with_trailers) for one in selected]
        pairs = list(zip(works, selected, strict=True))
        if not options.include_risky:
            found = (risks.find_risky_files(work, destinations.find_incoming(work, one.selection)) for work, one in pairs)
            if risky := tuple(chain.from_iterable(found)):
                return _refused(works[0], options, risky)
        review.release_derived()
        planned = []
        for work, one in pairs:
            try:
                planned.append(_plan(work, one, stack))
            except ConflictError as error:
                return _stopped(work, error)
        return _execute(planned, options, state_store, notice)


def _open(
    review: Review, selected: SelectedCommits, options: ImportOptions, stack: ExitStack, *, with_trailers: bool
) -> ImportContext:
    """Open the quarantine of a repository's commits."""
    source, record = selected.source, review.record
    user = UserGit(source.folder, program.find_git(record, review.environ), review.environ)
    repo = stack.enter_context(quarantine.open_quarantine(source, user, selected.tips))
    agent = str(record.get("profile") or (record["command"] or ["agent"])[0])
    trailers = (("Agent", agent), ("Session", review.session.id)) if with_trailers else ()
    return ImportContext(review, source, replace(options, commit_args=selected.args), user, user.read_config(), repo, trailers)


def _plan(work: ImportContext, selected: SelectedCommits, stack: ExitStack) -> _RepositoryImport:
    """Plan the import into one repository. Raises ConflictError, and as `import_commits`."""
    selection = selected.selection
    if isinstance(selection, AgentBranch):
        target = destinations.plan_branch(work, selection)
        if target.update.name.startswith(HEADS):  # else it is only kept under refs/agent-dev
            target = replace(target, imported_branch=(selection.name, selection.tip))
    else:
        target = destinations.plan_picks(work, selection, selected.before)
    update = target.update
    new_commits = destinations.list_commits_between(
        work, update.new, update.old or destinations.find_fork_point(work, update.new)
    )
    extras = stack.enter_context(lfs_and_submodules.open_extra_objects(work, new_commits, update.new))
    index_entry = index_operation.index_entry(work.user_git.folder)
    if not target.is_here:
        return _RepositoryImport(work, target, extras, new_commits, FilePlan(work.root), "", index_entry)
    files, index_copy = _plan_files(work, update)
    user_index.update_index(index_copy, files.index_updates)
    return _RepositoryImport(work, target, extras, new_commits, files, index_copy.path, index_entry)


def _refused(work: ImportContext, options: ImportOptions, risky: tuple[RiskyFile, ...]) -> ImportResult:
    """Return the result for risky files that were not selected explicitly."""
    return replace(
        _result(work.review),
        risky=risky,
        failure="the commits contain risky files; nothing was changed",
        failure_command=f"agent-dev merge {work.label} --commits{destinations.format_import_options(options)} --include-risky",
    )


def _result(review: Review) -> ImportResult:
    return ImportResult(review.session.id, roots=tuple(review.record["roots"]))


def _stopped(work: ImportContext, error: ConflictError) -> ImportResult:
    reason = f"could not apply: {error.subject}"
    value = destinations.format_commits_value(work.options)
    then_merge = "" if error.conflicts else " && git merge NAME"
    conflicts = _with_logs(work, merge_conflicts.read_sides(work.repo, error.conflicts))
    return replace(
        _result(work.review),
        conflicts=_describe([SkippedChange(Key(work.root, path), reason) for path in error.paths], conflicts),
        conflict_root=work.source.path,
        failure="nothing was changed",
        failure_command=f"agent-dev merge {work.label} --commits{value} --as NAME{then_merge}",
        resolvable=conflicts,
        subject=error.subject,
    )


def _with_logs(work: ImportContext, conflicts: tuple[ConflictDetails, ...]) -> tuple[ConflictDetails, ...]:
    """Add the commits of submodules to conflicts. Raises CommandFailed."""
    if not any(GITLINK in (one.conflict.yours[0], one.conflict.agent[0]) for one in conflicts):
        return conflicts
    user_objects = tuple(f"{one}/objects" for one in find_submodule_git_dirs(work.source.common))
    with gitlinks.open_submodule_objects(work.source, work.review.environ, user_objects) as repo:
        return tuple(merge_conflicts.add_submodule_log(one, partial(gitlinks.read_submodule_log, repo)) for one in conflicts)


def _describe(paths: list[SkippedChange], conflicts: tuple[ConflictDetails, ...]) -> tuple[SkippedChange, ...]:
    """Return the paths in conflict; for submodules, with their commits."""
    submodule_reasons = {
        one.conflict.path: one.reason for one in conflicts if GITLINK in (one.conflict.yours[0], one.conflict.agent[0])
    }
    return tuple(replace(one, reason=submodule_reasons.get(one.key.path, one.reason)) for one in paths)


# Execution


def _execute(planned: list[_RepositoryImport], options: ImportOptions, state_store: store.Store, notice: Notify) -> ImportResult:
    review = planned[0].work.review
    blocked = next((one for one in planned if one.files.case_collisions or one.files.conflicts), None)
    if blocked is not None:
        return _refuse_files(blocked)
    result = replace(
        _result(review),
        repositories=tuple(one.outcome for one in planned),
        merged_files=tuple(Key(one.work.root, path) for one in planned for path in sorted(one.files.merged_paths)),
        not_updated=tuple(left for one in planned for left in one.files.not_updated),
    )
    if options.is_dry_run:
        return replace(result, applied=tuple(key for one in planned for key in one.files.changes if key not in one.files.dropped))
    merged = _import(review, planned, state_store, notice)
    if not merged.id and not merged.conflicts:
        raise CannotImport(
            message="your index was changed by another process; nothing was imported", hint="run the command again"
        )
    return replace(
        result,
        merge=merged.id,
        repositories=tuple(one.outcome for one in planned),  # with the LFS contents that were refused
        applied=tuple(change.key for change in merged.applied if not change.is_session_only),
        conflicts=merged.conflicts,
        split_links=merged.hard_linked,
    )


def _refuse_files(planned: _RepositoryImport) -> ImportResult:
    """Return the result of an import that changes nothing, because names collide or the user's edits conflict."""
    work, files = planned.work, planned.files
    retry = f"agent-dev merge {work.label} --commits{destinations.format_commits_value(work.options)} --as NAME"
    unchanged = replace(
        _result(work.review),
        repositories=(replace(planned.outcome, commits=(), reason="", next_command="", submodules=(), lfs_count=0),),
        conflict_root=work.source.path,
        failure="nothing was changed",
    )
    if files.case_collisions:
        return replace(unchanged, conflicts=tuple(files.case_collisions), failure_command=retry)
    conflicts = _with_logs(work, _first_conflicts(files))
    return replace(
        unchanged,
        resolvable=conflicts,
        subject=_UNCOMMITTED,
        conflicts=_describe(files.conflicts, conflicts),
        failure_command=f"commit or stash your changes, or {retry}",
    )


def _import(review: Review, planned: list[_RepositoryImport], state_store: store.Store, notice: Notify) -> merge.MergeResult:
    """Import the objects, then move the refs and change the work trees and the indexes in one merge."""
    with ExitStack() as stack:
        changes = ChainMap(*(one.files.changes for one in planned))
        repositories = tuple(_repository_update(one, stack) for one in planned)
        plan = merge_plan.join_plans(one.files.take_merge_plan() for one in planned)
        return merge.import_commits(review, CommitImport(repositories, plan, changes), state_store, notice)


def _repository_update(planned: _RepositoryImport, stack: ExitStack) -> RepositoryUpdate:
    work, target, files = planned.work, planned.target, planned.files
    known = tuple(sorted(set(work.user_git.read_refs().values())))
    blobs = tuple(one.new[1] for one in files.index_updates if files.new_blobs and one.new[1])

    def copy_objects() -> None:
        quarantine.import_objects(work.repo, work.source.common, (target.update.new, *blobs), known)
        planned.extras.import_objects(files.lfs_sources, lfs_objects.storage_path(work.source.common, work.config))

    git_update = GitUpdate(
        work.user_git.folder,
        work.user_git.program,
        work.user_git.environ,
        (target.update,),
        index_updates=tuple(files.index_updates),
        imported_branch=target.imported_branch,
        imported_commits=target.imported_commits,
        root=work.root,
    )
    if not planned.index_copy:
        return RepositoryUpdate(git_update, copy_objects)
    tree = stack.enter_context(closing(Tree(work.user_git.folder)))
    return RepositoryUpdate(git_update, copy_objects, tree, planned.index_copy, planned.expected_index)


def _first_conflicts(files: FilePlan) -> tuple[ConflictDetails, ...]:
    """Return one conflict per path that can be resolved now; none unless all can be.

    A conflict with the index comes first: if the file has the same content, one resolution serves both; else the file's is next.
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
    """Plan the updates of work tree and index; return the plan and a copy of the index.

    Raises CannotImport while a git operation is in progress.
    """
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
    index_copy = user_index.copy_index(work.repo, work.user_git.folder, paths)
    common = work.source.common
    if not user_index.may_convert(index_copy, common, paths, work.config):
        files = worktree.plan_worktree(
            ImportInputs(work.review, work.root, work.repo, index_copy.entries, {}, resolutions=work.options.resolutions), changes
        )
        return files, index_copy.with_flagged_entries()
    attributes_copy = user_index.copy_index(work.repo, work.user_git.folder, (), "attributes")
    additions = tuple(IndexUpdate(one.path, NO_ENTRY, (one.new_mode, one.new_oid)) for one in changes if one.new_mode)
    removals = tuple(IndexUpdate(one.path, NO_ENTRY, NO_ENTRY) for one in changes if not one.new_mode)
    user_index.update_index(attributes_copy, (*removals, *additions))
    conversions = user_index.read_conversions(attributes_copy, common, paths, work.config)
    is_simple = all(conversion.is_simple for conversion in conversions.values())
    clean = {} if is_simple else {one.path: _stamp(one) for one in user_index.read_clean_entries(index_copy)}
    storage = lfs_objects.storage_path(common, work.config)
    contents = LfsContentFinder(work.review, work.root, storage, work.source.private_dir)
    inputs = ImportInputs(
        work.review, work.root, work.repo, index_copy.entries, conversions, clean, work.options.resolutions, contents
    )
    files = worktree.plan_worktree(inputs, changes)
    return files, index_copy.with_flagged_entries()
