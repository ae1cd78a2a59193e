"""Bring a session's commits home: checked, as refs, as a branch, or on the user's own branch with its files and index."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from agent_dev.agent_git.changes import UNFINISHED
from agent_dev.commits import conflicts as clashes
from agent_dev.commits import destinations as goals
from agent_dev.commits import lfs_and_submodules as bring_beside
from agent_dev.commits import submodules as pointers
from agent_dev.commits import targets as core
from agent_dev.commits import worktree as bring_files
from agent_dev.commits.agent_git import commits, quarantine, refs
from agent_dev.commits.conflicts import Met
from agent_dev.commits.destinations import Goal, Work
from agent_dev.commits.lfs_and_submodules import Beside, Submodule
from agent_dev.commits.prefetch import between
from agent_dev.commits.targets import Branch, Picks, Wish
from agent_dev.commits.worktree import Files, Ground, Stamp
from agent_dev.errors import CannotBring
from agent_dev.fs.dir_tree import Tree
from agent_dev.git import user_index as users_index
from agent_dev.git.conversion import Conversion
from agent_dev.git.formats.commit_format import Told
from agent_dev.git.formats.index_format import IndexEntry
from agent_dev.git.merge_tree_conflict import GITLINK
from agent_dev.git.replay import ConflictError
from agent_dev.git.user_refs import UserGit
from agent_dev.merge import merge
from agent_dev.merge.merge import Home, Notice
from agent_dev.merge.review import Review
from agent_dev.merge_engine import index_operation as bring_index
from agent_dev.merge_engine.journal import GitSide, IndexMove, RefMove
from agent_dev.merge_engine.merge_plan import Left
from agent_dev.overlay.changes import Key
from agent_dev.session import store

_UNCOMMITTED = "what you have not committed"


@dataclass(frozen=True, slots=True)
class Brought:
    """What came. `merge`: its id, "" when nothing did; `commits`: those that are new, the oldest first.

    `conflicts`: paths that are in each other's way, with the reason. `next`: what to type when it is not what was asked for.
    `met`: those that answers in the wish would settle, and `subject` of which commit they are. `together`: where what was not
    committed was merged with what the commits bring.
    """

    session: str
    merge: str = ""
    ref: str = ""
    before: str = ""
    after: str = ""
    commits: tuple[Told, ...] = ()
    taken: tuple[Key, ...] = ()
    conflicts: tuple[Left, ...] = ()
    why: str = ""
    next: str = ""
    large: int = 0  # contents of Git LFS that come along
    refused: tuple[str, ...] = ()  # those of them that are not what their names say
    submodules: tuple[Submodule, ...] = ()
    met: tuple[Met, ...] = ()
    subject: str = ""
    together: tuple[Key, ...] = ()


def bring(review: Review, wish: Wish, place: store.Store, notice: Notice, *, with_trailers: bool = False) -> Brought:
    """Bring commits home. Raises UsageError, RefusedCommits, CannotBring, CommandFailed, CannotMerge.

    Nothing was changed then.
    """
    git = review.record.get("git")
    if git is None:
        raise CannotBring(message="the session has no git directory, so no commits", hint="agent-dev merge takes its files")
    before, after = refs.remembered(review.session), refs.now(review.session, review.record, review.environ)
    made = commits.made(review.session, review.record, review.environ) if any(wish.words) else ()
    chosen = core.chosen(wish.words, before, after, [one.id for one in made])
    user = UserGit(git["folder"], commits.git_program(review.record, review.environ), review.environ)
    tips = (chosen.tip,) if isinstance(chosen, Branch) else tuple(_ends(chosen))
    with quarantine.opened(review.session, review.record, user, tips) as ours:
        record = review.record
        agent = str(record.get("profile") or (record["command"] or ["agent"])[0])
        trailers = (("Agent", agent), ("Session", review.session.id)) if with_trailers else ()
        work = Work(review, wish, user, user.config(), ours, trailers)
        try:
            goal = goals.to_branch(work, chosen) if isinstance(chosen, Branch) else goals.to_picks(work, chosen, before)
        except ConflictError as error:
            return _stopped(work, error)
        told = goals.between(work, goal.move.new, goal.move.old or goals.fork(work, goal.move.new))
        with bring_beside.opened(work, told, goal.move.new) as beside:
            done = _carry_out(work, goal, beside, told, (place, notice))
        return replace(done, refused=tuple(beside.refused))


def _stopped(work: Work, error: ConflictError) -> Brought:
    why = f"it does not fit what is there now: {error.subject}"
    by_hand = "" if error.clashes else " && git merge NAME"
    met = _with_logs(work, clashes.read(work.place, error.clashes))
    return Brought(
        work.review.session.id,
        conflicts=_told([Left(Key(0, path), why) for path in error.paths], met),
        why="nothing was changed",
        next=f"agent-dev merge {work.label} --commits{goals.word(work.wish)} --as NAME{by_hand}",
        met=met,
        subject=error.subject,
    )


def _with_logs(work: Work, some: tuple[Met, ...]) -> tuple[Met, ...]:
    """Return conflicts, those of submodules with what their commits are. Raises CommandFailed."""
    if not any(GITLINK in (one.clash.mine[0], one.clash.agent[0]) for one in some):
        return some
    git, review = work.review.record["git"], work.review
    users = tuple(f"{one}/objects" for one in pointers.git_dirs(git["common"])) if git is not None else ()
    with pointers.opened(review.session, review.record, review.environ, users) as place:
        return tuple(clashes.with_log(one, partial(pointers.log, place)) for one in some)


def _told(some: list[Left], met: tuple[Met, ...]) -> tuple[Left, ...]:
    """Return what is in the way, of submodules with their commits."""
    links = {one.clash.path: one.why for one in met if GITLINK in (one.clash.mine[0], one.clash.agent[0])}
    return tuple(replace(one, why=links.get(one.key.path, one.why)) for one in some)


def _ends(picks: Picks) -> Iterator[str]:
    for item in picks.items:
        yield item if isinstance(item, str) else item[1]


# Carrying it out


def _carry_out(work: Work, goal: Goal, beside: Beside, told: tuple[Told, ...], where: tuple[store.Store, Notice]) -> Brought:
    move = goal.move
    files, copy, expect = Files(), None, bring_index.look(work.user.folder)
    if goal.is_here:
        files, copy = _files(work, move)
    result = Brought(work.review.session.id, "", move.name, move.old, move.new, told, why=goal.why, next=goal.next)
    result = replace(result, large=beside.count, submodules=beside.submodules)
    if files.twins:
        nothing = replace(result, commits=(), large=0, submodules=(), conflicts=tuple(files.twins), why="nothing was changed")
        return replace(nothing, next=f"agent-dev merge {work.label} --commits{goals.word(work.wish)} --as NAME")
    if files.conflicts:
        hint = f"commit or stash what you changed; or agent-dev merge {work.label} --commits{goals.word(work.wish)} --as NAME"
        met = _with_logs(work, _met(files))
        nothing = replace(result, commits=(), large=0, submodules=(), met=met, subject=_UNCOMMITTED)
        return replace(nothing, conflicts=_told(files.conflicts, met), why="nothing was changed", next=hint)
    result = replace(result, together=tuple(Key(0, path) for path in sorted(files.together)))
    if work.wish.is_dry:
        return replace(result, taken=tuple(key for key in files.changes if key not in files.dropped))
    known = tuple(sorted(set(work.user.values().values())))
    blobs = tuple(one.new[1] for one in files.index if files.new_blobs and one.new[1])
    git = work.review.record["git"]
    assert git is not None  # noqa: S101  (looked at in `bring`)

    def adopt() -> None:
        quarantine.adopt(work.place, git["common"], (move.new, *blobs), known)
        beside.adopt()

    side = GitSide(
        work.user.folder,
        work.user.program,
        work.user.environ,
        (move,),
        entries=tuple(files.index),
        has_more=bool(goals.others(work, move.name)),
    )
    tree = Tree(work.user.folder) if copy is not None else None
    try:
        home = Home(side, files.plan(), files.changes, adopt, tree, copy.path if copy is not None else "", expect)
        merged = merge.bring_home(work.review, home, *where)
    finally:
        if tree is not None:
            tree.close()
    if not merged.id and not merged.conflicts:
        raise CannotBring(message="your index changed meanwhile; nothing was changed", hint="run it again")
    taken = tuple(change.key for change in merged.taken if not change.is_dropped)
    return replace(result, merge=merged.id, taken=taken, conflicts=merged.conflicts)


def _met(files: Files) -> tuple[Met, ...]:
    """Return what can be settled now, one conflict a path; nothing where not all can be.

    What is staged comes first: where the file holds the same the same answer does, else that is the next to settle.
    """
    if len(files.met) < len(files.conflicts):
        return ()
    first: dict[bytes, Met] = {}
    for one in files.met:
        first.setdefault(one.clash.path, one)
    return tuple(first.values())


def _stamp(one: IndexEntry) -> Stamp:
    return Stamp(one.size, one.inode, one.mtime, one.ctime)


def _files(work: Work, move: RefMove) -> tuple[Files, users_index.Copy]:
    """Plan what the work tree and the index need. Raises CannotBring while git is in the middle of something there."""
    busy = [what for mark, what in UNFINISHED.items() if mark != "BISECT_LOG" and work.user.has_mark(mark)]
    if busy:
        raise CannotBring(
            message=f"you are in the middle of a {busy[0]} here; nothing was changed", hint="finish or abort it first"
        )
    moved = between(work.place, move.old, move.new)
    paths = tuple(one.path for one in moved)
    copy = users_index.copied(work.place, work.user.folder, frozenset(paths))
    git = work.review.record["git"]
    assert git is not None  # noqa: S101  (looked at in `bring`)
    if not users_index.may_convert(copy, git["common"], paths, work.config):
        files = bring_files.plan(Ground(work.review, work.place, copy.entries, {}, answers=work.wish.answers), moved)
        users_index.change(copy, tuple(files.index))
        return files, copy
    plain = users_index.copied(work.place, work.user.folder, frozenset(), "attributes")
    every = tuple(IndexMove(one.path, users_index.NOTHING, (one.new_mode, one.new)) for one in moved if one.new_mode)
    gone = tuple(IndexMove(one.path, users_index.NOTHING, users_index.NOTHING) for one in moved if not one.new_mode)
    users_index.change(plain, (*gone, *every))
    conversions = users_index.conversions(plain, git["common"], paths, work.config)
    has_programs = Conversion.PROGRAM in conversions.values()
    vouched = {one.path: _stamp(one) for one in users_index.vouched(copy)} if has_programs else {}
    files = bring_files.plan(Ground(work.review, work.place, copy.entries, conversions, vouched, work.wish.answers), moved)
    users_index.change(copy, tuple(files.index))
    return files, copy
