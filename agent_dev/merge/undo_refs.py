"""What an undo or a redo means for the user's git: refs only where nobody has moved them since, the index entry by entry."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_dev.agent_git.changes import HEADS
from agent_dev.errors import CannotMerge, CannotUndo
from agent_dev.git import bare
from agent_dev.git import user_index as users_index
from agent_dev.git import user_refs as users_refs
from agent_dev.git.user_refs import UserGit
from agent_dev.merge.engine import pending
from agent_dev.merge_engine import index_lock
from agent_dev.merge_engine import index_operation as bring_index
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine.journal import GitSide, IndexMove
from agent_dev.merge_engine.merge_plan import Left
from agent_dev.overlay.changes import Key

Possible = tuple[tuple[int, ...], tuple[Left, ...]]


@contextmanager
def ready(merging: apply.Merge, *, is_forward: bool) -> Iterator[None]:
    """See that a merge's refs can be driven, and keep git from the index for as long. Raises CannotUndo, CannotMerge."""
    git, begin = merging.journal.git, merging.journal.begin
    if git is None or begin is None:
        yield
        return
    if merging.journal.moves_refs(is_forward=is_forward):
        _demand(git, is_forward=is_forward)
    _demand_head(git)
    place = merging.stages[-1]
    if not begin.git or place is None:
        yield
        return
    pending.add(merging.store, merging.id, merging.journal.begun)  # before there is a lock that a crash would leave
    try:
        bring_index.lock(merging, place)
    except CannotMerge:
        pending.remove(merging.store, merging.id)
        raise
    try:
        yield
    finally:
        release(merging)


def release(merging: apply.Merge) -> None:
    """Let git at the index again; before the mark goes by which a recovery would find the lock."""
    begin = merging.journal.begin
    if begin is not None and begin.git:
        index_lock.release(begin.git, merging.id)


def _demand(git: GitSide, *, is_forward: bool) -> None:
    moved = users_refs.strangers(git, is_forward=is_forward)
    if moved:
        name = moved[0].removeprefix(HEADS)
        hint = f"git log {name} shows what came since; nothing was changed"
        raise CannotUndo(message=f"{name} moved since, and what it leads to now would be lost", hint=hint)
    if git.index >= 0:
        return  # a first commit that goes leaves the branch as it was before
    user = UserGit(git.folder, git.git, dict(git.environ))
    gone = [one.name for one in git.refs if not (one.new if is_forward else one.old)]
    _, said, _ = user.run("worktree", "list", "--porcelain", "-z")
    used = [name for name in gone if f"branch {name}".encode("utf-8", "surrogateescape") in said.split(b"\0")]
    if used:
        name = used[0].removeprefix(HEADS)
        raise CannotUndo(message=f"{name} would go, and it is checked out; nothing was changed", hint="git switch another branch")


def _demand_head(git: GitSide) -> None:
    user = UserGit(git.folder, git.git, dict(git.environ))
    if git.index >= 0 and git.refs and user.head() not in {one.name for one in git.refs}:
        name = git.refs[0].name.removeprefix(HEADS)
        raise CannotUndo(message=f"another branch than {name} is checked out; nothing was changed", hint=f"git switch {name}")


def with_index(merging: apply.Merge, numbers: tuple[int, ...], left: tuple[Left, ...], *, is_forward: bool) -> Possible:
    """Return what can be driven with the index among it: one that git has written since is made anew from what it holds now.

    Paths of which the user has staged something else since stay so, and are among those left.
    """
    git = merging.journal.git
    if git is None or git.index < 0 or git.index in numbers or not git.refs:
        return numbers, left
    op = merging.journal.ops[git.index]
    now = merging.reals[op.key.root].look(op.key.path)
    if now is None or (git.index in merging.journal.done()) == is_forward:
        return numbers, left
    with bare.temporary(merging.folder) as folder:
        is_sha256 = len(git.refs[0].new or git.refs[0].old) == 64
        stores = (UserGit(git.folder, git.git, dict(git.environ)).objects(),)  # a sparse index names trees
        place = bare.make(f"{folder}/index", git.git, is_sha256=is_sha256, stores=stores)
        copy = users_index.copied(place, git.folder, frozenset(one.path for one in git.entries))
        moves, others = _moves(git, copy, is_forward=is_forward)
        users_index.change(copy, moves)
        bring_index.replace(merging, git.index, copy.path, now, is_forward=is_forward)
    rest = tuple(one for one in left if one.key != op.key)
    return tuple(sorted((*numbers, git.index))), (*rest, *others)


def _moves(git: GitSide, copy: users_index.Copy, *, is_forward: bool) -> tuple[tuple[IndexMove, ...], tuple[Left, ...]]:
    moves, left = [], []
    for one in git.entries:
        start, end = (one.old, one.new) if is_forward else (one.new, one.old)
        entry = copy.entries.get(one.path)
        now = entry.side if entry is not None else users_index.NOTHING
        if now == start:
            moves.append(IndexMove(one.path, start, end))
        elif now != end:
            left.append(Left(Key(0, one.path), "you staged something else of it since"))
    return tuple(moves), tuple(left)
