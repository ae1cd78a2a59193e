"""What a merge, an undo or a redo that is done in the real tree means for its session and for what is kept of it.

All of it can be done again after a crash: `SETTLED` in the journal comes last.
"""

import os
from collections.abc import Mapping

from agent_dev.commits.agent_git import refs
from agent_dev.errors import AgentDevError
from agent_dev.fs import acl as access
from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.merge.engine import pending
from agent_dev.merge.review import Review, open_review
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine import replaced_files as secure
from agent_dev.merge_engine import staging
from agent_dev.merge_engine import upper_update as upper
from agent_dev.merge_engine import whole_directories as whole
from agent_dev.merge_engine.journal import Act, Op
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay import lower_snapshot as bases
from agent_dev.overlay.changes import Change, Entry, FileType, Key, parents_of
from agent_dev.session import events, sessions, store
from agent_dev.session import removal as ended


def done_changes(merge: apply.Merge, numbers: tuple[int, ...] | None = None) -> tuple[Change, ...]:
    """Return the changes of a merge whose operations stand after (or, of a phase, whose operations it drove)."""
    wanted = merge.journal.done() if numbers is None else frozenset(numbers)
    ops = [op for number, op in enumerate(merge.journal.ops) if number not in wanted and not op.is_loose]
    not_done = {op.key for op in ops} | {key for op in ops if op.whole for key, _ in op.below()}
    over = [phase for phase in merge.journal.phases if phase.reached is not None]
    if numbers is None and not (over and over[-1].is_forward):
        not_done |= {change.key for change in merge.changes() if change.is_dropped}
    return tuple(change for change in merge.changes() if change.key not in not_done)


def reasons(merge: apply.Merge, stopped: Mapping[int, str]) -> dict[Key, str]:
    """Return by key why operations were not done, and all that comes with them."""
    ops = [(merge.journal.ops[number], why) for number, why in stopped.items() if why]
    within = {key: why for op, why in ops if op.whole for key, _ in op.below()}
    return within | {op.key: why for op, why in ops}


def conclude(merge: apply.Merge, place: store.Store, environ: dict[str, str], review: Review | None = None) -> bool:
    """Settle the last phase of a merge; return whether its session holds nothing more.

    `review`: of its session, when that is open; else the session is opened here, if it is still there.
    """
    phase = merge.journal.phases[-1]
    secure.secure(merge)
    session = session_of(merge, place) if review is None else review.session
    is_all = False
    if session is not None:
        opened = review if review is not None else _open(session, environ)
        try:
            if opened is not None:
                is_all = _taken(merge, opened, place) if phase.is_forward else _undone(merge, opened)
                events.note(session, phase.why, merge=merge.id, changes=len(done_changes(merge, phase.numbers)))
        finally:
            if review is None:
                if opened is not None:
                    opened.close()
                store.let_go(session)
    merge.add(records.SETTLED)
    pending.remove(place, merge.id)
    os.utime(place.merges)  # running sessions look at it, and refresh their view now that the files are there
    return is_all


def _open(session: store.Session, environ: dict[str, str]) -> Review | None:
    try:
        return open_review(session, environ)
    except AgentDevError:
        return None  # a session that cannot be read keeps what it holds


# A merge or a redo: out of the session


def _taken(merge: apply.Merge, review: Review, place: store.Store) -> bool:
    parts = _kept(merge, "part")
    done = tuple(change for change in done_changes(merge) if not change.is_apart)
    taken = tuple(change for change in done if change.key not in parts)
    keys = {change.key for change in taken}
    left = tuple(change for change in review.changes.changes if change.key not in keys)
    has_more = merge.journal.git is not None and merge.journal.git.has_more
    is_all = not left and not review.changes.problems and not has_more  # what could not be read is not gone
    if is_all:
        _remember_state(review, store.MERGED)
    if left:
        apply.disown(merge, review.uppers)
    aside = ended.set_aside(place, f"{merge.id}.taken")
    for number, tree in enumerate(review.uppers):
        tree.forget()
        skip = (b".git",) if refs.has_copy(review.record, number) else ()
        mine = tuple(change for change in taken if change.key.root == number)
        some = tuple(change for change in done if change.key.root == number)
        if some:
            now = _now(merge, review, number, some)
            own = {change.key: parts[change.key] for change in some if change.key in parts}
            bases.learn(review.session.base, number, now, _parts(merge, review, number, own))
        if is_all:
            os.makedirs(f"{aside}/{number}", exist_ok=True)
            upper.empty(tree, f"{aside}/{number}", skip)
        elif mine:
            upper.take_out(tree, mine, tuple(change for change in left if change.key.root == number), skip)
    disk.sync_all(review.session.folder)  # else a power cut after `SETTLED` brings back what was taken out
    ended.remove_aside(aside)
    return is_all


def _kept(merge: apply.Merge, what: str) -> dict[Key, str]:
    """Return by key the slots in which a merge put something aside for the session."""
    slots = ((change.key, row.get(what)) for change, row in zip(merge.changes(), merge.journal.rows, strict=True))
    later = {merge.journal.ops[number].key: one.agent for number, one in merge.journal.replaced.items() if what == "agent"}
    return {key: str(slot) for key, slot in (*slots, *later.items()) if slot}


def not_in_slots(merge: apply.Merge) -> frozenset[Key]:
    """Return the keys of which an undo gives the session nothing that it takes from there: put aside, or brought by commits."""
    return frozenset((*_kept(merge, "agent"), *_kept(merge, "part"), *_apart(merge)))


def _parts(merge: apply.Merge, review: Review, number: int, parts: dict[Key, str]) -> dict[bytes, bytes]:
    """Return the bytes of which only what was chosen differs from the base, where the real file holds others."""
    found = {}
    for key, slot in parts.items():
        if key.root == number:
            with open(f"{staging.aside(merge.folder, number)}/{slot}", "rb") as file:
                data = file.read()
            if review.reals[number].read(key.path, len(data)) != data:
                found[key.path] = data
    return found


def _now(merge: apply.Merge, review: Review, number: int, taken: tuple[Change, ...]) -> dict[bytes, Entry | None]:
    """Return what a merge made of the taken paths, and of the directories around them that it made or removed."""
    real, base = review.reals[number], review.base.entries(number)
    real.forget()
    seen = _seen(merge, number)
    now = {path: seen[path] if path in seen else real.look(path) for path in (change.key.path for change in taken)}
    for folder in {folder for path in now for folder in parents_of(path)} - now.keys():
        found = real.look(folder)
        if (found is None) != (folder not in base):
            now[folder] = found
    return now


def _seen(merge: apply.Merge, number: int) -> dict[bytes, Entry | None]:
    """Return what the phase found at the paths of a root when it was done: what came later is the user's."""
    reached = merge.journal.phases[-1].reached
    found = reached.found if reached is not None else {}
    ops = [(merge.journal.ops[one], mark) for one, mark in found.items() if mark is not None]
    own = [(op.key, mark) for op, mark in ops if op.key.root == number]
    within = [one for op, _ in ops if op.whole and op.key.root == number for one in op.below()]
    return {
        key.path: Entry(mark.type, mark.mode, mark.size, mark.inode, mark.mtime, mark.ctime)
        for key, mark in (*own, *within)
        if mark.type is FileType.FILE
    }


def _remember_state(review: Review, state: str) -> None:
    review.record = {**review.record, "state": state}
    store.write(review.session, review.record, is_durable=True)
    store.settle(review.session)


# An undo: back into the session


def _undone(merge: apply.Merge, review: Review) -> bool:
    phase = merge.journal.phases[-1]
    stopped, apart = phase.reached.stopped if phase.reached else {}, _apart(merge)
    ops = [merge.journal.ops[number] for number in phase.numbers if number not in stopped]
    for number, real in enumerate(review.reals):
        mine = [op for op in ops if op.key.root == number]
        dropped = _dropped(merge, number)
        if not mine and not dropped:
            continue
        real.forget()
        _give_back(merge, review, number, [op for op in mine if op.key not in apart])
        now = {path: real.look(path) for path in (*(op.key.path for op in mine), *dropped)}
        now |= {key.path: None for op in mine if op.whole for key, _ in op.below()}
        bases.unlearn(review.session.base, number, now, _theirs(merge, number))
    _remember_state(review, store.WAITING)
    return False


def _theirs(merge: apply.Merge, number: int) -> frozenset[bytes]:
    """Return the paths of a root that a merge found other than the base was, or that an undo leaves other."""
    merged = {change.key for change in merge.changes() if change.is_merged}
    merged |= {merge.journal.ops[one].key for one in merge.journal.replaced}
    return frozenset(key.path for key in merged if key.root == number)


def _apart(merge: apply.Merge) -> frozenset[Key]:
    """Return the keys of which the session's own files know nothing: commits brought them."""
    return frozenset(change.key for change in merge.changes() if change.is_apart)


def _dropped(merge: apply.Merge, number: int) -> tuple[bytes, ...]:
    return tuple(change.key.path for change in merge.changes() if change.is_dropped and change.key.root == number)


def _give_back(merge: apply.Merge, review: Review, number: int, ops: list[Op]) -> None:
    real, into, stage = review.reals[number], review.uppers[number], merge.stages[number]
    aside, parts = _kept(merge, "agent"), _kept(merge, "part")
    if stage is not None:
        own = [op for op in ops if op.key not in aside and op.key not in parts]
        upper.give_back(into, real, stage, tuple(_given(own)))
    paths = [*(op.key.path for op in ops if op.key in aside), *_dropped(merge, number)]
    if paths:
        kept = Stage(staging.aside(merge.folder, number))
        given = tuple(upper.Given(path, aside.get(Key(number, path))) for path in paths)
        upper.give_back(into, real, kept, given, is_copied=True)
        kept.close()


def _given(ops: list[Op]) -> list[upper.Given]:
    modes = {op.key: op.new.mode for op in ops if op.act is Act.MODE and op.new is not None}
    made = {op.key for op in ops if op.act is not Act.MODE}
    given = [upper.Given(key.path, "", mode) for key, mode in modes.items() if key not in made]
    for op in ops:
        if op.act is not Act.MODE:
            mode = op.new.mode if op.new is not None else 0
            slot = op.slot if op.new is not None else None
            given.append(upper.Given(op.key.path, slot, modes.get(op.key, mode), is_whole=bool(op.whole)))
    return given


def disown(merge: apply.Merge, place: store.Store) -> bool:
    """Give back to its session what an interrupted merge had adopted; return whether nothing of it is left in the slots.

    Raises SessionBusy, OSError.
    """
    if not merge.journal.adopted:
        return True
    session = session_of(merge, place)
    if session is None:
        return False
    count = merge.journal.begin.session_roots if merge.journal.begin else 0
    store.reopen(session, count)
    uppers = [files.Tree(session.root(number, "").upper, is_ours=True) for number in range(count)]
    try:
        apply.disown(merge, tuple(uppers))
    finally:
        for tree in uppers:
            tree.close()
        store.let_go(session)
    return True


def has_slot(merge: apply.Merge, number: int) -> bool:
    """Whether what an operation brings is in its slot, or it brings nothing."""
    op = merge.journal.ops[number]
    stage = merge.stages[op.key.root]
    return op.new is None or not op.slot or op.act is Act.MODE or (stage is not None and stage.look(op.slot) is not None)


def take_again(merge: apply.Merge, review: Review, numbers: tuple[int, ...]) -> dict[int, str]:
    """Move what an undo gave back to the session into its slots again; return operations for which it is not there any more.

    Until the redo is done, a crash gives it back (`give_back_again`). Raises OSError.
    """
    missing = {}
    aside = _kept(merge, "agent")
    for number in numbers:
        op = merge.journal.ops[number]
        stage = merge.stages[op.key.root]
        if op.key in aside and not _is_given(merge, review.uppers[op.key.root], op.key, aside[op.key]):
            missing[number] = "the session has something else there now"
            continue
        if has_slot(merge, number) or stage is None or op.new is None:
            continue
        tree = review.uppers[op.key.root]
        found = tree.look(op.key.path)
        if not _is_still(tree, op, found):
            missing[number] = "the session has something else there now"
            continue
        if op.whole:
            upper.hand_over_whole(tree, stage, op.key.path, op.slot)
            continue
        if found is not None:
            if op.old is not None and op.old.type is FileType.FILE:
                found = access.with_that_of(found, merge.reals[op.key.root], op.key.path)
            upper.hand_over(tree, stage, op.key.path, op.slot, found)
    return missing


def _is_still(tree: files.Tree, op: Op, found: Entry | None) -> bool:
    """Whether a session holds what an undo gave back to it."""
    if op.whole:
        return whole.is_as_at(tree, op)
    return op.new is not None and found is not None and op.new.is_(found) and found.links < 2


def _is_given(merge: apply.Merge, tree: files.Tree, key: Key, slot: str) -> bool:
    """Whether a session holds what was put aside for it: a redo takes that out of it again."""
    kept = files.Tree(staging.aside(merge.folder, key.root), is_ours=True)
    try:
        wanted, found = kept.look(slot.encode()), tree.look(key.path)
        if wanted is None or found is None or (found.type, found.size, found.target) != (wanted.type, wanted.size, wanted.target):
            return False
        return wanted.type is not FileType.FILE or kept.read(slot.encode(), wanted.size) == tree.read(key.path, found.size)
    finally:
        kept.close()


def settle_slots(merge: apply.Merge, place: store.Store, environ: dict[str, str]) -> None:
    """Give back what an interrupted redo had taken from the session, where that is still there. Raises SessionBusy, OSError."""
    if merge.journal.phases[-1].is_forward:
        return
    session = session_of(merge, place)
    opened = _open(session, environ) if session is not None else None
    try:
        if opened is not None:
            give_back_again(merge, opened)
            opened.close()
    finally:
        if session is not None:
            store.let_go(session)


def give_back_again(merge: apply.Merge, review: Review) -> None:
    """Give back to a session what a redo that came to nothing had taken: the slots of all that is undone."""
    done = merge.journal.done()
    first = merge.journal.phases[0].reached if merge.journal.phases else None
    stopped = first.stopped if first is not None else {}
    undone = [op for number, op in enumerate(merge.journal.ops) if number not in done and number not in stopped]
    apart = _apart(merge)
    for number in range(len(review.reals)):
        mine = [op for op in undone if op.key.root == number and op.key not in apart and op.act in (Act.ATTACH, Act.EXCHANGE)]
        if mine:
            _give_back(merge, review, number, mine)


def forget_times(merge: apply.Merge, session: store.Session) -> None:
    """Tell a held session's base that what was driven back is what it was: moving it has changed its time of change."""
    count = merge.journal.begin.session_roots if merge.journal.begin else 0
    for number, real in enumerate(merge.reals[:count]):
        real.forget()
        theirs = _theirs(merge, number)
        mine = [op for op in merge.journal.ops if op.key.root == number and op.old is not None and op.act is not Act.MODE]
        own = [op for op in mine if op.key.path not in theirs]
        now = {op.key.path: entry for op in own if op.old and op.old.is_(entry := real.look(op.key.path))}
        if now:
            bases.unlearn(session.base, number, now)


def session_of(merge: apply.Merge, place: store.Store) -> store.Session | None:
    """Return the session of a merge, held; None when it is not there any more. Raises SessionBusy."""
    begin = merge.journal.begin
    folder = f"{place.sessions}/{begin.session}" if begin else ""
    if begin is None or not os.path.isdir(folder):
        return None
    session = store.hold(store.Session(begin.session, folder))
    sessions.finish_rollback(session)
    return session
