"""Undo or redo the git part of a merge: refs that have not been moved since, and the index, entry by entry."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from agent_dev.agent_git.changes import HEADS
from agent_dev.errors import CannotMerge, CannotUndo
from agent_dev.fs.entry import Key
from agent_dev.git import bare, user_index, user_refs
from agent_dev.git.updates import NO_ENTRY, GitUpdate, IndexUpdate
from agent_dev.git.user_refs import UserGit
from agent_dev.merge_engine import index_lock, index_operation, merge_execution, pending_marks
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.session import store

RunnableOps = tuple[tuple[int, ...], tuple[SkippedChange, ...]]


@contextmanager
def git_locked(merging: merge_execution.Merge, *, is_forward: bool) -> Iterator[None]:
    """Check that a merge's refs can be moved and hold git's index locks during the block. Raises CannotUndo, CannotMerge."""
    begin = merging.journal.header
    for git in merging.journal.git_updates:
        if merging.journal.moves_refs(is_forward=is_forward):
            _demand(git, is_forward=is_forward)
            _demand_commits(merging, git, is_forward=is_forward)
        _demand_head(git)
    first = begin.session_root_count if begin is not None else 0
    git_dirs = [number for number in range(first, len(merging.stages)) if merging.stages[number] is not None]
    if begin is None or not git_dirs:
        yield
        return
    pending_marks.mark_pending(
        merging.store, merging.id, merging.journal.phases_begun
    )  # before taking a lock that a crash would leave
    try:
        for number in git_dirs:
            index_operation.acquire_lock(merging, number)
    except CannotMerge:
        release_index(merging)
        merging.rest()
        raise
    try:
        yield
    finally:
        release_index(merging)


def release_index(merging: merge_execution.Merge) -> None:
    """Release git's index locks, before the pending mark is removed by which a recovery would find it."""
    begin = merging.journal.header
    for git_dir in begin.git_dirs if begin is not None else ():
        index_lock.release(git_dir, merging.id)


def _demand(git: GitUpdate, *, is_forward: bool) -> None:
    moved = user_refs.find_unexpected_refs(git, is_forward=is_forward)
    if moved:
        name = moved[0].removeprefix(HEADS)
        hint = f"nothing was changed; git log {name} shows the newer commits"
        raise CannotUndo(message=f"{name} moved since the merge; its newer commits would be lost", hint=hint)
    if git.index_operation >= 0:
        return  # undoing a first commit leaves the branch unborn
    user = UserGit(git.folder, git.program, dict(git.environ))
    deleted = [one.name for one in git.refs if not (one.new if is_forward else one.old)]
    _, output, _ = user.run("worktree", "list", "--porcelain", "-z")
    used = [name for name in deleted if f"branch {name}".encode("utf-8", "surrogateescape") in output.split(b"\0")]
    if used:
        name = used[0].removeprefix(HEADS)
        raise CannotUndo(
            message=f"{name} would be deleted, but it is checked out; nothing was changed", hint="git switch to another branch"
        )


def _demand_commits(merging: merge_execution.Merge, git: GitUpdate, *, is_forward: bool) -> None:
    """Raise CannotUndo if a commit that a ref would get is missing: after an undo, git gc may remove what was imported."""
    user = UserGit(git.folder, git.program, dict(git.environ))
    wanted = [one.new if is_forward else one.old for one in git.refs]
    missing = [commit for commit in wanted if commit and user.run("cat-file", "-e", commit)[0]]
    if not missing:
        return
    session = merging.journal.header.session if merging.journal.header is not None else ""
    is_kept = is_forward and os.path.isdir(f"{merging.store.sessions}/{session}")
    name = store.name_of_session(merging.store, session)
    hint = f"agent-dev merge {name} --commits imports it again" if session and is_kept else ""
    raise CannotUndo(message=f"commit {missing[0][:10]} is no longer in the repository; nothing was changed", hint=hint)


def _demand_head(git: GitUpdate) -> None:
    user = UserGit(git.folder, git.program, dict(git.environ))
    if git.index_operation >= 0 and git.refs and user.read_head_branch() not in {one.name for one in git.refs}:
        name = git.refs[0].name.removeprefix(HEADS)
        raise CannotUndo(message=f"{name} is not checked out; nothing was changed", hint=f"git switch {name}")


def include_index(
    merging: merge_execution.Merge, numbers: tuple[int, ...], skipped: tuple[SkippedChange, ...], *, is_forward: bool
) -> RunnableOps:
    """Return the operations and skipped paths, including the indexes: one that git has written since is rebuilt from its entries.

    Paths that the user has staged differently since stay as they are and are skipped.
    """
    for git in merging.journal.git_updates:
        numbers, skipped = _include_index(merging, git, numbers, skipped, is_forward=is_forward)
    return numbers, skipped


def _include_index(
    merging: merge_execution.Merge,
    git: GitUpdate,
    numbers: tuple[int, ...],
    skipped: tuple[SkippedChange, ...],
    *,
    is_forward: bool,
) -> RunnableOps:
    if git.index_operation < 0 or git.index_operation in numbers or not git.refs:
        return numbers, skipped
    op = merging.journal.ops[git.index_operation]
    now = merging.real_trees[op.key.root].entry_at(op.key.path)
    if now is None or (git.index_operation in merging.journal.applied_ops()) == is_forward:
        return numbers, skipped
    with bare.temporary_directory(merging.folder) as folder:
        is_sha256 = len(git.refs[0].new or git.refs[0].old) == 64
        stores = (UserGit(git.folder, git.program, dict(git.environ)).find_object_store(),)  # a sparse index refers to trees
        bare_dir = bare.create(f"{folder}/index", git.program, is_sha256=is_sha256, stores=stores)
        copy = user_index.copy_index(bare_dir, git.folder, tuple(one.path for one in git.index_updates))
        moves, changed = _moves(git, copy, is_forward=is_forward)
        user_index.update_index(copy, moves)
        index_operation.restage_index(merging, git.index_operation, copy.path, now, is_forward=is_forward)
    rest = tuple(one for one in skipped if one.key != op.key)
    return tuple(sorted((*numbers, git.index_operation))), (*rest, *changed)


def _moves(
    git: GitUpdate, copy: user_index.IndexCopy, *, is_forward: bool
) -> tuple[tuple[IndexUpdate, ...], tuple[SkippedChange, ...]]:
    moves, skipped = [], []
    for one in git.index_updates:
        start, end = (one.old, one.new) if is_forward else (one.new, one.old)
        entry = copy.entries.get(one.path)
        now = entry.blob if entry is not None else NO_ENTRY
        if now == start:
            moves.append(IndexUpdate(one.path, start, end))
        elif now != end:
            skipped.append(SkippedChange(Key(git.root, one.path), "you staged another version since the merge"))
    return tuple(moves), tuple(skipped)
