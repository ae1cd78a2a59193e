"""Merge what was chosen: plan against the real tree as it is now, apply, keep what was replaced, take it out of the session."""

import os
import signal
import time
from dataclasses import dataclass

from agent_dev.commands.review import Review
from agent_dev.core import merge, selection
from agent_dev.core.changes import Change, ChangeSet, Entry, FileType, Key
from agent_dev.core.merge import Left, MergePlan
from agent_dev.core.selection import Selection
from agent_dev.errors import CannotMerge
from agent_dev.host import apply, quick_json, store, upper
from agent_dev.host import base as bases


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did, or (`id` empty) would do. `left` and `conflicts` carry their reasons."""

    id: str
    taken: tuple[Change, ...]
    left: tuple[Left, ...]
    conflicts: tuple[Left, ...]
    is_all: bool  # the session holds nothing more


def choose(changes: ChangeSet, paths: tuple[Key, ...], *, everything: bool, risky: bool) -> tuple[Selection, frozenset[Key]]:
    """Return what flags choose and what they ask for: `--all`, and each `--take PATH` with all below it."""
    chosen = selection.all_of(changes, risky=risky) if everything else selection.NOTHING
    asked = {change.key for change in changes.changes if _is_meant(change, risky=risky)} if everything else set()
    for path in paths:
        below = frozenset(change.key for change in changes.below(path.root, path.path))
        asked |= below
        chosen = selection.take(chosen, below, changes)
    return chosen, frozenset(asked)


def _is_meant(change: Change, *, risky: bool) -> bool:
    """Whether `--all` asks for a change, in conflict or not."""
    return not change.ignored and (risky or not change.risks)


def plan(review: Review, chosen: Selection, asked: frozenset[Key]) -> MergePlan:
    """Plan a merge; touches nothing."""
    return merge.plan(review.changes, chosen, asked, _folders(review, chosen))


def _folders(review: Review, chosen: Selection) -> merge.Folders:
    """Find the directories that the agent made, and those it removed, around what was chosen."""
    made: dict[Key, int] = {}
    removed: list[Key] = []
    for number, tree in enumerate(review.uppers):
        wanted = {folder for key in chosen.keys if key.root == number for folder in _above(key.path)}
        base = review.base.entries(number)
        for path in wanted:
            entry = tree.look(path)
            if entry is not None and entry.type is FileType.DIRECTORY:
                if path not in base:
                    made[Key(number, path)] = entry.mode
            elif (path in base or review.reals[number].look(path)) and Key(number, path) not in review.changes.by_key():
                removed.append(Key(number, path))
    return merge.Folders(made, tuple(removed))


def _above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")[:-1]
    return [b"/".join(parts[: n + 1]) for n in range(len(parts))]


def preview(review: Review, planned: MergePlan) -> Merged:
    """Return what a plan would do."""
    table = review.changes.by_key()
    return Merged("", tuple(table[key] for key in planned.taken), planned.left, planned.conflicts, is_all=False)


def carry_out(review: Review, planned: MergePlan, place: store.Store) -> Merged:
    """Merge. Raises CannotMerge before anything was touched.

    Ctrl-C and a terminal that goes away wait until what was begun is done and written down.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
    try:
        return _carry_out(review, planned, place)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _carry_out(review: Review, planned: MergePlan, place: store.Store) -> Merged:
    merge_id = f"{review.session.id}.{time.time_ns() // 10**6:x}"
    folder = f"{place.merges}/{merge_id}"
    try:
        os.makedirs(folder, 0o700)
    except OSError as error:
        raise CannotMerge(path=place.merges, reason=f"{error.strerror}; nothing was changed") from None
    grounds = apply.Grounds(review.uppers, review.reals, _places(review, folder, merge_id), folder)
    try:
        applied = apply.apply(planned, grounds)
    finally:
        _remove_if_empty(folder)
        os.utime(place.merges)  # running sessions look at it, and refresh their view now that the files are there
    table = review.changes.by_key()
    taken = tuple(table[key] for key in applied.taken)
    strangers = tuple(Left(key, why) for key, why in applied.stopped.items() if key in table)
    conflicts = (*planned.conflicts, *strangers)
    is_all = bool(taken) and _write_down(review, taken, applied, place, merge_id)
    return Merged(merge_id if taken else "", taken, planned.left, conflicts, is_all)


def _write_down(review: Review, taken: tuple[Change, ...], applied: apply.Applied, place: store.Store, merge_id: str) -> bool:
    """Write what was merged and take it out of the session; say whether that holds nothing more."""
    try:
        _write_record(f"{place.merges}/{merge_id}", review, taken, applied)
    except OSError as error:
        done = f"{len(taken)} changes were merged, but the record of it could not be written: {error.strerror}"
        raise CannotMerge(path=place.merges, reason=done, hint="make room, and look at the real tree") from None
    return _settle(review, taken, store.set_aside(place, merge_id))


def _places(review: Review, folder: str, merge_id: str) -> tuple[tuple[str, ...], ...]:
    """Return for each root where staged content may lie: with the merge, in the git common dir, beside the target."""
    git = review.record.get("git")
    found = []
    for number, real in enumerate(review.reals):
        places = [f"{folder}/stage-{number}"]
        if number == 0 and isinstance(git, dict):
            places.append(f"{git['common']}/agent-dev-stage.{merge_id}")
        found.append((*places, f"{real.path}/.agent-dev-stage.{merge_id}"))
    return tuple(found)


def _remove_if_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # it holds what was replaced


def _write_record(folder: str, review: Review, taken: tuple[Change, ...], applied: apply.Applied) -> None:
    os.makedirs(folder, 0o700, exist_ok=True)
    rows = [
        {
            "root": change.key.root,
            "path": os.fsdecode(change.key.path),
            "kind": str(change.kind),
            "mode": change.before.mode if change.before else None,
            "kept": applied.kept.get(change.key),
        }
        for change in taken
    ]
    record = {
        "version": 1,
        "session": review.session.id,
        "roots": review.record["roots"],
        "time": time.time_ns(),
        "changes": rows,
    }
    with open(f"{folder}/merge.json", "xb") as file:
        file.write(quick_json.dumps(record))
        file.flush()
        os.fsync(file.fileno())


def _settle(review: Review, taken: tuple[Change, ...], aside: str) -> bool:
    """Take out of the session what was merged, through a directory set aside; say whether it holds nothing more."""
    keys = {change.key for change in taken}
    left = tuple(change for change in review.changes.changes if change.key not in keys)
    is_all = not left and not review.changes.problems  # what could not be read is not gone
    if is_all:
        _remember_state(review, store.MERGED)
    git = review.record.get("git")
    for number, tree in enumerate(review.uppers):
        tree.forget()
        skip = (b".git",) if number == 0 and isinstance(git, dict) and git.get("inside") else ()
        mine = tuple(change for change in taken if change.key.root == number)
        if mine and not is_all:
            bases.learn(review.session.base, number, _now(review, number, mine))
        if is_all:
            os.mkdir(f"{aside}/{number}")
            upper.empty(tree, f"{aside}/{number}", skip)
        elif mine:
            upper.take_out(tree, mine, tuple(change for change in left if change.key.root == number), skip)
    store.remove_aside(aside)
    return is_all


def _now(review: Review, number: int, taken: tuple[Change, ...]) -> dict[bytes, Entry | None]:
    """Return what a merge made of the taken paths, and of the directories around them that it made or removed."""
    real, base = review.reals[number], review.base.entries(number)
    real.forget()
    now = {change.key.path: real.look(change.key.path) for change in taken}
    for folder in {folder for path in now for folder in _above(path)} - now.keys():
        found = real.look(folder)
        if (found is None) != (folder not in base):
            now[folder] = found
    return now


def _remember_state(review: Review, state: str) -> None:
    review.record = {**review.record, "state": state}
    store.write(review.session, review.record)
    store.settle(review.session)
