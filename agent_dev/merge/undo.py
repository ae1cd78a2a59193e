"""Take a merge back, or do it again: what was there comes back, what the user changed since stays."""

import os
from dataclasses import dataclass, replace

from agent_dev.errors import CannotMerge, CannotUndo, RecoveryRequired, UnknownOutcome
from agent_dev.fs import digest
from agent_dev.merge import conclude, recover, undo_three_way
from agent_dev.merge import history as merges
from agent_dev.merge import undo_refs as undo_git
from agent_dev.merge.engine import pending
from agent_dev.merge.recover import Notice
from agent_dev.merge.review import Review, open_review
from agent_dev.merge.undo_three_way import CHANGED, Apart, told_apart
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine import journal_file as journals
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine import replaced_files as secure
from agent_dev.merge_engine.journal import Mark, Reached, RefMove, Verdict, mark
from agent_dev.merge_engine.merge_plan import Left
from agent_dev.merge_engine.merged_texts import Kept
from agent_dev.overlay.changes import Entry, FileType, Key, in_order
from agent_dev.session import store
from agent_dev.session.sessions import Here


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
        chosen = merge_id or merges.newest(where, is_forward=way.is_forward)
        if "/" in chosen or not os.path.isdir(f"{where.store.merges}/{chosen}"):
            raise CannotUndo(message=f"no merge {chosen} here", hint="agent-dev merges lists them")
        merging = _opened(where, chosen)
        merging.lock = lock
        try:
            return _drive(where, merging, way)
        except OSError as error:
            raise UnknownOutcome(
                merge=chosen, reason=error.strerror, hint="the next command of agent-dev here goes on"
            ) from error
        finally:
            merging.close()


def _opened(where: Here, merge_id: str) -> apply.Merge:
    """Open a merge that is at rest. Raises CannotUndo: its repository is another directory now, or its journal is damaged."""
    try:
        return apply.open_merge(where.store, merge_id)
    except RecoveryRequired as error:
        message = f"merge {merge_id} stays as it is: {error.values['reason']}"
        raise CannotUndo(message=message, hint="agent-dev merges lists them; nothing was changed") from error


def _recover(where: Here, merge_id: str, notice: Notice) -> None:
    """Bring what was interrupted to rest. The merge that is named is driven back past strangers: they stay as they are."""
    if merge_id in pending.listed(where.store):
        said = apply.read(f"{where.store.merges}/{merge_id}", merge_id)
        if said.verdict is Verdict.ROLL_BACK:
            merging = apply.open_merge(where.store, merge_id)
            apply.roll_back(merging, past_strangers=True)
            merging.close()
    recover.recover(where.store, (where.root,), where.environ, notice)


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
    moves = _ref_moves(merging, way)
    try:
        reached = _attempt(merging, able, numbers, way)
    except CannotMerge:
        _rest_if_possible(where, merging, review)
        raise
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


def _attempt(merging: apply.Merge, able: _Possible, numbers: tuple[int, ...], way: _Way) -> Reached:
    """Stage what is needed and drive the operations. Raises CannotMerge when all is as it was, UnknownOutcome."""
    try:
        secure.restage(merging, _first_places(merging))
        instead = undo_three_way.stage(merging, able.apart) if way.is_three_way else ()
    except OSError as error:
        where = error.filename or merging.reals[0].path
        raise CannotMerge(path=where, reason=f"{error.strerror}; nothing was changed") from error
    why = "redo" if way.is_forward else "undo"
    return apply.again(merging, why, numbers, is_forward=way.is_forward, instead=instead)


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


def _rest_if_possible(where: Here, merging: apply.Merge, review: Review | None) -> None:
    """As `_rest`; what a failing disk leaves the next command brings to rest."""
    try:
        _rest(where, merging, review)
    except (OSError, UnknownOutcome):
        return


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
    kept = Kept(merging.folder)
    for number, now in changed.items():
        was = found.get(number)
        why = _why(was, now)
        if why == CHANGED and not way.is_forward:
            told = told_apart(merging, kept, number, was, now)
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
