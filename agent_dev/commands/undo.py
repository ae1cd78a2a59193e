"""Take a merge back, do it again, and list them: what was there comes back, what the user changed since stays."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_dev.commands import conclude, recover, undo_git, undo_three_way
from agent_dev.commands.recover import Notice
from agent_dev.commands.review import Review, open_review
from agent_dev.commands.sessions import Here
from agent_dev.commands.undo_three_way import CHANGED, Apart, told_apart
from agent_dev.core import records
from agent_dev.core.changes import Change, Entry, FileType, Key, in_order
from agent_dev.core.journal import Mark, RefMove, Verdict, mark
from agent_dev.core.merge import Left
from agent_dev.errors import AgentDevError, CannotUndo, RecoveryRequired, UnknownOutcome
from agent_dev.host import apply, digest, journals, pending, secure, store


@dataclass(frozen=True, slots=True)
class Recorded:
    """A merge as lists show it. Time in ns since 1970; `changes` are all it brought, `done` those that stand now.

    `last`: when it was last merged, undone or redone.
    """

    id: str
    session: str
    roots: tuple[str, ...]
    time: int
    changes: tuple[Change, ...]
    done: tuple[Change, ...]
    problem: str = ""
    refs: tuple[RefMove, ...] = ()
    stands: bool = False
    last: int = 0

    @property
    def state(self) -> str:
        """One word: merged, undone, or partly undone."""
        if self.problem:
            return "damaged"
        if not self.changes:
            return "merged" if self.stands else "undone"
        if len(self.done) == len(self.changes):
            return "merged"
        return "partly undone" if self.done else "undone"


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo or a redo did: the merge, the paths it drove, and those it left as they are, with the reason.

    `offered`: of those left, what a three-way would take back; `kept`: of those driven, where what the user did since stays.
    """

    merge: str
    roots: tuple[str, ...]
    paths: tuple[Key, ...]
    left: tuple[Left, ...]
    refs: tuple[RefMove, ...] = ()
    offered: frozenset[Key] = frozenset()
    kept: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class _Way:
    """Which way a merge is driven; `is_three_way`: what the user changed since too, where both fit."""

    is_forward: bool
    is_three_way: bool = False


@dataclass(frozen=True, slots=True)
class _Possible:
    """The operations that can be driven, what is left, and files that a three-way tells apart, by operation."""

    numbers: tuple[int, ...]
    left: tuple[Left, ...]
    apart: dict[int, Apart]

    def keys(self, merging: apply.Merge) -> frozenset[Key]:
        return frozenset(merging.journal.ops[number].key for number in self.apart)


def recorded(where: Here, *, every: bool = False) -> tuple[Recorded, ...]:
    """Return the merges of this repository, oldest first; `every`: of all."""
    found = [_recorded(where, name) for name in _names(where)]
    mine = [one for one in found if one is not None and (every or where.root in one.roots)]
    return tuple(sorted(mine, key=lambda one: one.time))


def _names(where: Here) -> list[str]:
    try:
        return sorted(os.listdir(where.store.merges))
    except FileNotFoundError:
        return []


def _recorded(where: Here, merge_id: str) -> Recorded | None:
    try:
        said = apply.read(f"{where.store.merges}/{merge_id}", merge_id)
    except RecoveryRequired as error:
        return Recorded(merge_id, "", _roots(where, merge_id), _made(merge_id) * 10**6, (), (), error.message)
    if said.begin is None or not said.phases:
        return None
    roots = tuple(path for path, _, _ in said.begin.roots)
    table = apply.Merge(where.store, merge_id, "", said, (), (), None)  # type: ignore[arg-type]  # only its journal is asked
    everything = conclude.done_changes(table, said.phases[0].numbers)
    done, refs = conclude.done_changes(table), said.git.refs if said.git is not None else ()
    begin, last = said.begin, said.phases[-1].time
    return Recorded(merge_id, begin.session, roots, begin.time, everything, done, refs=refs, stands=said.stands, last=last)


def _roots(where: Here, merge_id: str) -> tuple[str, ...]:
    """Return the roots of a merge whose journal cannot be read, by its session's record; all that is known where that is gone."""
    session = merge_id.rpartition(".")[0]
    try:
        return tuple(store.read(store.Session(session, f"{where.store.sessions}/{session}"))["roots"])
    except (AgentDevError, OSError):
        return (where.root,)


def _made(merge_id: str) -> int:
    """Return when a merge was made, as its id has it: ms since 1970; 0 for an id that is none of ours."""
    try:
        return int(merge_id.rpartition(".")[2], 16)
    except ValueError:
        return 0


def undo(where: Here, merge_id: str, notice: Notice, *, is_three_way: bool = False) -> Undone:
    """Take a merge back: the named one, else the newest here that stands. Raises CannotUndo, RecoveryRequired.

    `is_three_way`: of a file that the user has changed since, what the merge did is taken back alone where both fit.
    """
    return _again(where, merge_id, notice, _Way(is_forward=False, is_three_way=is_three_way))


def redo(where: Here, merge_id: str, notice: Notice) -> Undone:
    """Do a merge again that was undone: the named one, else the one undone last."""
    return _again(where, merge_id, notice, _Way(is_forward=True))


def _again(where: Here, merge_id: str, notice: Notice, way: _Way) -> Undone:
    with journals.alone(where.store, notice) as lock:
        _recover(where, merge_id, notice)
        chosen = merge_id or _newest(where, is_forward=way.is_forward)
        if "/" in chosen or not os.path.isdir(f"{where.store.merges}/{chosen}"):
            raise CannotUndo(message=f"no merge {chosen} here", hint="agent-dev merges lists them")
        merging = apply.open_merge(where.store, chosen)
        merging.lock = lock
        try:
            return _drive(where, merging, way)
        except OSError as error:
            raise UnknownOutcome(
                merge=chosen, reason=error.strerror, hint="the next command of agent-dev here goes on"
            ) from error
        finally:
            merging.close()


def _recover(where: Here, merge_id: str, notice: Notice) -> None:
    """Bring what was interrupted to rest. The merge that is named is driven back past strangers: they stay as they are."""
    if merge_id in pending.listed(where.store):
        said = apply.read(f"{where.store.merges}/{merge_id}", merge_id)
        if said.verdict is Verdict.ROLL_BACK:
            merging = apply.open_merge(where.store, merge_id)
            apply.roll_back(merging, past_strangers=True)
            merging.close()
    recover.recover(where.store, (where.root,), where.environ, notice)


def _newest(where: Here, *, is_forward: bool) -> str:
    """Return the newest merge that stands, or the one undone last. Raises CannotUndo.

    Journals are read from the newest on, and no more of them than that takes: there may be hundreds. One that cannot be read may
    be the one that is meant.
    """
    found: Recorded | None = None
    for at, name in _ages(where, _touched if is_forward else _made_ns):
        if found is not None and found.last >= at:
            break
        one = _recorded(where, name)
        if one is None or where.root not in one.roots:
            continue
        if one.problem:
            raise CannotUndo(message=one.problem, hint="agent-dev merges lists the others: name the one that you mean")
        if _can_be_driven(one, is_forward=is_forward) and (found is None or one.last > found.last):
            found = one
            if not is_forward:
                break
    if found is None:
        word = "undone" if is_forward else "merged"
        raise CannotUndo(message=f"nothing of {where.root} was {word}", hint="agent-dev merges --all lists those of other places")
    return found.id


def _ages(where: Here, age: Callable[[Here, str], int]) -> list[tuple[int, str]]:
    return sorted(((age(where, name), name) for name in _names(where)), reverse=True)


def _touched(where: Here, merge_id: str) -> int:
    """Return when a journal was last written to, ns since 1970: not before its last phase began."""
    try:
        return os.stat(f"{where.store.merges}/{merge_id}/{journals.JOURNAL}").st_mtime_ns
    except FileNotFoundError:
        return 0


def _made_ns(_where: Here, merge_id: str) -> int:
    return _made(merge_id) * 10**6


def _can_be_driven(one: Recorded, *, is_forward: bool) -> bool:
    if one.refs and one.stands != is_forward:
        return True
    return len(one.done) < len(one.changes) if is_forward else bool(one.done)


def _drive(where: Here, merging: apply.Merge, way: _Way) -> Undone:
    session = conclude.session_of(merging, where.store)  # raises SessionBusy: an agent works on it
    review = None
    try:
        review = open_review(session, where.environ) if session is not None else None
        with undo_git.ready(merging, is_forward=way.is_forward):
            return _drive_with(where, merging, review, way)
    finally:
        if review is not None:
            review.close()
        if session is not None:
            store.let_go(session)


def _drive_with(where: Here, merging: apply.Merge, review: Review | None, way: _Way) -> Undone:
    if merging.journal.begin is None:
        raise CannotUndo(message=f"merge {merging.id} never began")
    able = _possible(merging, way)
    numbers, left = undo_git.with_index(merging, able.numbers, able.left, is_forward=way.is_forward)
    ops = merging.journal.ops
    pending.add(where.store, merging.id, merging.journal.begun)
    if way.is_forward:
        missing = _take_again(merging, review, numbers)
        numbers = tuple(number for number in numbers if number not in missing)
        left += tuple(Left(ops[number].key, why) for number, why in missing.items())
    if not _is_dropping(merging, way) and not any(not ops[number].is_loose for number in numbers):
        _rest(where, merging, review)
        if not left:
            raise CannotUndo(message=f"merge {merging.id} is {'not undone' if way.is_forward else 'undone already'}")
        return _untouched(merging, able, left, way)
    secure.restage(merging, _first_places(merging))
    instead = undo_three_way.stage(merging, able.apart) if way.is_three_way else ()
    moves = _ref_moves(merging, way)
    why = "redo" if way.is_forward else "undo"
    reached = apply.again(merging, why, numbers, is_forward=way.is_forward, instead=instead)
    undo_git.release(merging)
    left += tuple(Left(ops[number].key, why) for number, why in reached.stopped.items() if why and not ops[number].is_loose)
    if merging.journal.verdict is not Verdict.FINISH:
        _rest(where, merging, review)
        return _untouched(merging, able, left, way)
    driven = conclude.done_changes(merging, tuple(set(numbers) - reached.stopped.keys()))
    conclude.conclude(merging, where.store, where.environ, review)
    paths = tuple(change.key for change in in_order(driven))
    return replace(
        _untouched(merging, able, left, way),
        paths=paths,
        refs=moves,
        kept=able.keys(merging) & frozenset(paths),
    )


def _ref_moves(merging: apply.Merge, way: _Way) -> tuple[RefMove, ...]:
    git = merging.journal.git
    if git is None or not merging.journal.moves_refs(is_forward=way.is_forward):
        return ()
    return git.refs if way.is_forward else tuple(one.reversed() for one in git.refs)


def _is_dropping(merging: apply.Merge, way: _Way) -> bool:
    """Whether a merge only took changes out of the session, and there is nothing in the real tree to be driven."""
    stands = bool(conclude.done_changes(merging)) if merging.journal.git is None else merging.journal.stands
    return not merging.journal.ops and stands != way.is_forward


def _untouched(merging: apply.Merge, able: _Possible, left: tuple[Left, ...], way: _Way) -> Undone:
    """Return what is told where nothing was driven."""
    begin = merging.journal.begin
    offered = frozenset() if way.is_three_way else able.keys(merging) & {one.key for one in left}
    roots = tuple(path for path, _, _ in begin.roots) if begin is not None else ()
    return Undone(merging.id, roots, (), tuple(sorted(left, key=lambda one: (one.key.root, one.key.path))), offered=offered)


def _take_again(merging: apply.Merge, review: Review | None, numbers: tuple[int, ...]) -> dict[int, str]:
    if review is not None:
        return conclude.take_again(merging, review, numbers)
    gone = "its session is gone, and what it brought with it"
    return {number: gone for number in numbers if not conclude.has_slot(merging, number)}


def _rest(where: Here, merging: apply.Merge, review: Review | None) -> None:
    """Leave a merge as it was when nothing came of what was begun."""
    secure.secure(merging)
    if review is not None:
        conclude.give_back_again(merging, review)
    undo_git.release(merging)
    pending.remove(where.store, merging.id)


def _first_places(merging: apply.Merge) -> tuple[str, ...]:
    """Return where each root's slots lay at first: from there a rename reaches the root."""
    first = journals.first(merging.folder)
    return first.stages if first is not None else ()


def _possible(merging: apply.Merge, way: _Way) -> _Possible:
    """Tell the operations that can be driven from those whose path the user has changed since."""
    is_forward = way.is_forward
    if not is_forward:
        apply.part(merging, merging.journal.done())
    done, found, ops = merging.journal.done(), merging.journal.found(), merging.journal.ops
    first = merging.journal.phases[0]
    stopped = first.reached.stopped if first.reached else {}
    wanted = [number for number in first.numbers if number not in stopped and (number in done) != is_forward]
    numbers: list[int] = []
    changed: dict[int, Entry | None] = {}
    moved: dict[int, tuple[Mark | None, Mark | None]] = {}
    for number in wanted:
        op = ops[number]
        now = merging.reals[op.key.root].look(op.key.path)
        was = found.get(number)
        if (was is None and now is None) or (was is not None and (was.is_untouched(now) or _is_that_link(was, now))):
            numbers.append(number)
        elif (
            now is not None
            and was is not None
            and now.type is was.type is FileType.FILE
            and _has_same_bytes(merging, number, was)
        ):
            numbers.append(number)
            moved[number] = (op.new, mark(now)) if is_forward else (mark(now), op.old)
        elif not op.is_loose:
            changed[number] = now
    if moved:
        stages = merging.journal.begin.stages if merging.journal.begin else ()
        merging.add(records.moved_record(stages, moved))
    return _with_changed(merging, numbers, changed, way)


def _with_changed(merging: apply.Merge, numbers: list[int], changed: dict[int, Entry | None], way: _Way) -> _Possible:
    """Return what can be driven, with what the user has changed since as far as that was asked for."""
    found, ops = merging.journal.found(), merging.journal.ops
    left: list[Left] = []
    apart: dict[int, Apart] = {}
    for number, now in changed.items():
        was = found.get(number)
        why = _why(was, now)
        if why == CHANGED and not way.is_forward:
            told = told_apart(merging, number, was, now)
            if isinstance(told, Apart):
                apart[number] = told
            else:
                why = told
        if number not in apart or not way.is_three_way:
            left.append(Left(ops[number].key, why))
    every = sorted((*numbers, *apart)) if way.is_three_way else numbers
    return _Possible(tuple(every), tuple(left), apart)


def _is_that_link(was: Mark, now: Entry | None) -> bool:
    """Whether a link is the one that was there: where it leads never changes, though an undo that was stopped has moved it."""
    return was.type is FileType.SYMLINK and was.is_(now)


def _why(was: Mark | None, now: Entry | None) -> str:
    if now is None:
        return "you removed it since"
    return "something was put there since" if was is None else CHANGED


def _has_same_bytes(merging: apply.Merge, number: int, was: Mark) -> bool:
    """Whether a file that was moved or touched still holds what the merge left: a checkout and back, say."""
    op = merging.journal.ops[number]
    now = merging.reals[op.key.root].look(op.key.path)
    if (
        now is None
        or not op.digest
        or now.size != was.size
        or now.mode != was.mode
        or op.new is None
        or op.new.inode != was.inode
    ):
        return False
    return digest.of(merging.reals[op.key.root], op.key.path, now.size) == op.digest
