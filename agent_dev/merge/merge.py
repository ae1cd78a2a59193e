"""Merge what was chosen: plan against the real tree as it is now, apply, keep what was replaced, take it out of the session."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_dev.diff import merge3 as threeway
from agent_dev.diff import partial as choices
from agent_dev.diff.partial import Choice
from agent_dev.errors import CannotMerge, UnknownOutcome, UsageError
from agent_dev.fs import dir_tree as files
from agent_dev.git import user_refs as users_refs
from agent_dev.merge import conclude, recover
from agent_dev.merge.engine import pending
from agent_dev.merge.review import LARGEST_DIFF, Review
from agent_dev.merge_engine import index_lock, staging
from agent_dev.merge_engine import index_operation as bring_index
from agent_dev.merge_engine import journal_file as journals
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine import merge_plan as merge
from agent_dev.merge_engine.journal import GitSide, Reached, Verdict
from agent_dev.merge_engine.merge_plan import Left, MergePlan
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind, parents_of
from agent_dev.overlay.selection import Selection
from agent_dev.session import store

Notice = Callable[[str], None]
_WITH_LINES = (Kind.EDITED, Kind.ADDED, Kind.DELETED)
_A_HANDFUL = 10  # deletions that are never many


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did, or (`id` empty) would do. `left` and `conflicts` carry their reasons."""

    id: str
    taken: tuple[Change, ...]
    left: tuple[Left, ...]
    conflicts: tuple[Left, ...]
    is_all: bool  # the session holds nothing more


def plan(review: Review, chosen: Selection, asked: frozenset[Key]) -> MergePlan:
    """Plan a merge; touches nothing."""
    return merge.plan(review.changes, chosen, asked, _folders(review, chosen), _results(review, chosen))


def _results(review: Review, chosen: Selection) -> dict[Key, merge.Result]:
    """Return what lands where the agent's own file does not: merged with the user's, or only what was chosen of it.

    Raises CannotMerge for a part that does not fit what the user changed.
    """
    found = {key: made.result for key, made in review.fits.items() if made.result is not None and key in chosen}
    table = review.changes.by_key()
    for key, choice in chosen.choices.items():
        if key in chosen and key in table:
            found[key] = _part(review, table[key], choice)
    return found


def _part(review: Review, change: Change, choice: Choice) -> merge.Result:
    before, agent = review.content(change.key)
    if change.before is None:
        before = b""
    if change.kind is Kind.DELETED:
        agent = b""
    like = change.before if change.after is None else change.after
    if change.kind not in _WITH_LINES or like is None or like.type is not FileType.FILE or before is None or agent is None:
        raise CannotMerge(path=change.key.path, reason="only a file with lines can be taken in part")
    try:
        part = choices.apply(before, agent, choice)
    except choices.WrongChoice as error:
        raise UsageError(message=f"{change.key.path.decode('utf-8', 'replace')}: {error}") from None
    content, whole = part, review.fits.get(change.key)
    if change.is_merged:
        mine = review.reals[change.key.root].read(change.key.path, LARGEST_DIFF) or b""
        merged = threeway.merge(before, mine, part)
        if not merged.is_clean:
            raise CannotMerge(path=change.key.path, reason="this part and what you changed are in each other's way")
        content = merged.resolve()
    mode, attributes = _mode(change, like if whole is None or whole.result is None else whole.result, choice)
    is_rest = part != agent or (mode, attributes) != (like.mode, like.attributes) or change.kind is Kind.DELETED
    return merge.Result(content, mode, attributes, part if is_rest else None)


def _mode(change: Change, like: Entry | merge.Result, choice: Choice) -> tuple[int, tuple[tuple[str, bytes], ...]]:
    """Return mode and attributes of a part: what stands there has, or a plain file, when the new ones were not chosen."""
    if choice.mode:
        return like.mode, like.attributes
    stands = change.expect
    return (like.mode & ~0o111, ()) if stands is None else (stands.mode, stands.attributes)


def _folders(review: Review, chosen: Selection) -> merge.Folders:
    """Find the directories that the agent made, and those it removed, around what was chosen."""
    made: dict[Key, Entry] = {}
    removed: list[Key] = []
    for number, tree in enumerate(review.uppers):
        wanted = {folder for key in chosen.keys if key.root == number for folder in parents_of(key.path)}
        base = review.base.entries(number)
        for path in wanted:
            entry = tree.look(path)
            if entry is not None and entry.type is FileType.DIRECTORY:
                if path not in base:
                    made[Key(number, path)] = entry
            elif (path in base or review.reals[number].look(path)) and Key(number, path) not in review.changes.by_key():
                removed.append(Key(number, path))
    return merge.Folders(made, tuple(removed))


def deletes_too_much(review: Review, planned: MergePlan, percent: int) -> int:
    """Return how many files a plan deletes when that is more than some share of the tree, and more than a handful; else 0."""
    gone = sum(isinstance(step, merge.Remove) for step in planned.steps)
    held = sum(
        1 for number in range(len(review.reals)) for entry in review.base.entries(number).values() if entry.type is FileType.FILE
    )
    return gone if gone > _A_HANDFUL and gone * 100 > held * percent else 0


def preview(review: Review, planned: MergePlan) -> Merged:
    """Return what a plan would do."""
    table = review.changes.by_key()
    return Merged("", tuple(table[key] for key in planned.taken), planned.left, planned.conflicts, is_all=False)


def carry_out(
    review: Review,
    planned: MergePlan,
    place: store.Store,
    notice: Notice = lambda _: None,
    *,
    is_atomic: bool = False,
    tell: apply.Tell = apply.silent,
) -> Merged:
    """Merge. Raises CannotMerge when nothing was changed, UnknownOutcome when the disk failed at the last moment.

    `is_atomic`: when something chosen turns out to be in conflict, nothing is merged. `notice` is told what delays it,
    `tell` how many of how many steps are done.
    Ctrl-C and a terminal that goes away wait until what was begun is done and written down.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
    try:
        return _carry_out(review, planned, place, notice, _How(is_atomic, tell=tell))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True, slots=True)
class Home:
    """What commits bring: refs, what the work tree needs for them (`changes` are the plan's, by key), and a new index.

    `adopt` puts their objects among the user's. `tree`: the git dir whose index is replaced, None for none; `index` the file
    that takes the place of `expect`.
    """

    side: GitSide
    plan: MergePlan
    changes: dict[Key, Change]
    adopt: Callable[[], None]
    tree: files.Tree | None = None
    index: str = ""
    expect: Entry | None = None


@dataclass(frozen=True, slots=True)
class _How:
    """How a merge is carried out: all or nothing, what commits bring, who is told; its id, the lock under which it works."""

    is_atomic: bool
    home: Home | None = None
    tell: apply.Tell = apply.silent
    id: str = ""
    lock: int = -1


def bring_home(review: Review, home: Home, place: store.Store, notice: Notice) -> Merged:
    """Bring commits home: files, index and refs together, or nothing. Raises CannotMerge, UnknownOutcome."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
    try:
        return _carry_out(review, home.plan, place, notice, _How(is_atomic=True, home=home))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _carry_out(review: Review, planned: MergePlan, place: store.Store, notice: Notice, how: _How) -> Merged:
    home = how.home
    table = review.changes.by_key() if home is None else home.changes
    if not planned.taken and home is None:
        return Merged("", (), planned.left, planned.conflicts, is_all=False)
    merge_id = f"{review.session.id}.{time.time_ns() // 10**6:x}"
    with journals.alone(place, notice) as lock:
        recover.recover(place, review.record["roots"], review.environ, notice, but=review.session.id)
        merging, reached = _apply(review, planned, place, replace(how, id=merge_id, lock=lock))
        try:
            is_done = merging.journal.verdict is Verdict.FINISH
            done = {change.key for change in conclude.done_changes(merging)} if is_done else set()
            taken = tuple(table[key] for key in planned.taken if key in done)
            why = conclude.reasons(merging, reached.stopped)
            strangers = tuple(
                Left(key, why.get(key, "something it needs was in the way")) for key in planned.taken if key not in done
            )
            is_all = is_done and _conclude(merging, place, review)
        finally:
            merging.close()
            if merging.journal.verdict is Verdict.FORGET:
                _forget(merging, place)
    return Merged(merge_id if is_done else "", taken, planned.left, (*planned.conflicts, *strangers), is_all)


def _conclude(merging: apply.Merge, place: store.Store, review: Review) -> bool:
    try:
        return conclude.conclude(merging, place, review.environ, review)
    except OSError as error:
        done = f"everything was merged, but what is kept of it could not be settled: {error.strerror}"
        raise CannotMerge(path=place.merges, reason=done, hint="make room; the next command of agent-dev here goes on") from None


def _apply(review: Review, planned: MergePlan, place: store.Store, how: _How) -> tuple[apply.Merge, Reached]:
    merge_id, home = how.id, how.home
    grounds = replace(_grounds(review, place, merge_id, home), tell=how.tell)
    try:
        os.makedirs(place.merges, 0o700, exist_ok=True)
    except OSError as error:
        raise CannotMerge(path=place.merges, reason=f"{error.strerror}; nothing was changed") from None
    wanted = {step.key.root for step in planned.steps} | ({len(review.reals)} if grounds.git else set())
    merging = apply.begin(place, merge_id, review.session.id, grounds, wanted)
    merging.lock = how.lock
    try:
        try:
            reached = _drive(merging, review, planned, home, is_atomic=how.is_atomic)
        finally:
            if grounds.git:
                index_lock.release(grounds.git, merge_id)
        if merging.journal.verdict is Verdict.FORGET:
            _take_back(merging, review)
        return merging, reached
    except CannotMerge:
        _take_back(merging, review)
        merging.close()
        _forget(merging, place)
        raise


def _drive(merging: apply.Merge, review: Review, planned: MergePlan, home: Home | None, *, is_atomic: bool) -> Reached:
    table = review.changes.by_key() if home is None else home.changes
    ops, kept = staging.stage(merging, planned, review.uppers)
    rows = tuple({**merge.row(table[key], is_part="part" in kept.get(key, {})), **kept.get(key, {})} for key in planned.taken)
    side = None if home is None else home.side
    if home is not None and home.tree is not None:
        ops = (*ops, bring_index.stage(merging, home.index, home.expect))
        side = replace(home.side, index=len(ops) - 1)
        users_refs.demand_head(home.side)
    if home is not None:
        _adopt(home)
    return apply.carry_out(merging, ops, rows, is_atomic=is_atomic, git=side)


def _adopt(home: Home) -> None:
    """Put objects among the user's, when nothing but the disk can stop the merge any more. Raises CannotMerge."""
    try:
        home.adopt()
    except OSError as error:
        raise CannotMerge(path=error.filename or home.side.folder, reason=f"{error.strerror}; nothing was changed") from None


def _grounds(review: Review, place: store.Store, merge_id: str, home: Home | None) -> apply.Grounds:
    places = _places(review, place, merge_id)
    if home is None or home.tree is None:
        return apply.Grounds(review.uppers, review.reals, places)
    folder = home.tree.path
    mine = (f"{place.merges}/{merge_id}/stage-{len(places)}", f"{folder}/agent-dev-stage.{merge_id}")
    return apply.Grounds(review.uppers, (*review.reals, home.tree), (*places, mine), folder)


def _take_back(merging: apply.Merge, review: Review) -> None:
    """Make the session what it was before a merge that came to nothing."""
    try:
        apply.disown(merging, review.uppers)
        conclude.forget_times(merging, review.session)
    except OSError as error:
        raise UnknownOutcome(merge=merging.id, reason=error.strerror) from error


def _forget(merging: apply.Merge, place: store.Store) -> None:
    """Remove what was prepared for a merge that is not to be, unless its folder holds something that the user saved."""
    try:
        if merging.keeps:
            pending.remove(place, merging.id)
        else:
            apply.forget(place, merging.id, merging.journal.places)
    except OSError:
        return  # the next command removes it


def _places(review: Review, place: store.Store, merge_id: str) -> tuple[tuple[str, ...], ...]:
    """Return for each root where staged content may lie: with the merge, in the git common dir, beside the target."""
    git = review.record.get("git")
    found = []
    for number, real in enumerate(review.reals):
        places = [f"{place.merges}/{merge_id}/stage-{number}"]
        if number == 0 and isinstance(git, dict):
            places.append(f"{git['common']}/agent-dev-stage.{merge_id}")
        found.append((*places, f"{real.path}/.agent-dev-stage.{merge_id}"))
    return tuple(found)
