"""Bring merges to rest that were interrupted: driven back when their end was not written down, else finished."""

import os
from collections.abc import Callable, Iterable

from agent_dev.errors import CannotRecover, RecoveryRequired, SessionBusy
from agent_dev.merge import conclude
from agent_dev.merge.engine import pending
from agent_dev.merge_engine import index_lock
from agent_dev.merge_engine import journal_file as journals
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine import replaced_files as secure
from agent_dev.merge_engine.journal import Journal, Verdict
from agent_dev.session import store

Notice = Callable[[str], None]


def recover_here(place: store.Store, root: str, environ: dict[str, str], notice: Notice) -> None:
    """Bring to rest what was interrupted in a root; at the start of every command. Raises RecoveryRequired.

    One look at a directory when there is nothing. A merge that is under way in another process is waited for.
    """
    if pending.listed(place):
        with journals.alone(place, notice):
            recover(place, (root,), environ, notice)


def recover(place: store.Store, roots: Iterable[str], environ: dict[str, str], notice: Notice, *, but: str = "") -> None:
    """Bring to rest every merge that touches one of some roots; the lock is held. `but`: a session the caller holds."""
    wanted = set(roots)
    for merge_id in pending.listed(place):
        said = _read(place, merge_id)
        if os.path.isdir(f"{place.merges}/{merge_id}") and said.begun < pending.phases(place, merge_id):
            raise RecoveryRequired(merge=merge_id, reason="its journal is cut off", hint=f"look into {place.merges}/{merge_id}")
        if said.begin is None:
            apply.forget_if_possible(place, merge_id, ())
        elif wanted.intersection(path for path, _, _ in said.begin.roots):
            _one(place, merge_id, said, environ, notice, but)


def _read(place: store.Store, merge_id: str) -> Journal:
    return apply.read(f"{place.merges}/{merge_id}", merge_id)


def _one(place: store.Store, merge_id: str, said: Journal, environ: dict[str, str], notice: Notice, but: str) -> None:
    try:
        _come_to_rest(place, merge_id, said, environ, notice, but)
    finally:
        if said.begin is not None and said.begin.git:
            index_lock.release(said.begin.git, merge_id)


def _come_to_rest(place: store.Store, merge_id: str, said: Journal, environ: dict[str, str], notice: Notice, but: str) -> None:
    if not said.ops and not said.adopted and not (said.git and said.phases):
        apply.forget_if_possible(place, merge_id, said.places)
        notice(f"merge {merge_id} was interrupted before it changed anything; what it had prepared is removed")
        return
    merging = apply.open_merge(place, merge_id)
    try:
        _bring_to_rest(merging, place, environ, notice, but)
    except SessionBusy:
        return  # somebody works on its session: the next command goes on
    except OSError as error:
        reason = f"{error.filename or 'the disk'}: {error.strerror}"
        raise CannotRecover(merge=merge_id, reason=reason, hint="make that possible, and run it again") from error
    finally:
        merging.close()
    if merging.journal.verdict is Verdict.FORGET and not merging.keeps:
        apply.forget_if_possible(place, merge_id, merging.journal.places)
        if not said.ops:
            notice(f"merge {merge_id} was interrupted before it changed anything; what it had prepared is removed")


def _bring_to_rest(merging: apply.Merge, place: store.Store, environ: dict[str, str], notice: Notice, but: str) -> None:
    is_open = merging.journal.begin is not None and merging.journal.begin.session == but
    if merging.journal.verdict is Verdict.ROLL_BACK and not apply.go_on(merging):
        _roll_back(merging, notice)
    if merging.journal.verdict is Verdict.FINISH:
        if not is_open:  # else the caller's own review would no longer be true
            conclude.conclude(merging, place, environ)
            notice(f"merge {merging.id} had been interrupted after it was done; it is settled now")
        return
    if is_open:
        return
    session = conclude.session_of(merging, place)
    if session is not None:
        try:
            conclude.forget_times(merging, session)
        finally:
            store.let_go(session)
    if merging.journal.verdict is Verdict.CLEAN:
        secure.secure(merging)  # first: from a stage beside the tree no rename may reach the session
        conclude.settle_slots(merging, place, environ)
        pending.remove(place, merging.id)
    elif not conclude.disown(merging, place):
        merging.keeps = True
        pending.remove(place, merging.id)
        notice(f"the session of merge {merging.id} is gone; what it had brought is kept in {merging.folder}")


def _roll_back(merging: apply.Merge, notice: Notice) -> None:
    phase = merging.journal.phases[-1]
    strange = apply.roll_back(merging)
    if strange:
        paths = ", ".join(key.path.decode("utf-8", "replace") for key in list(strange)[:3])
        raise RecoveryRequired(
            merge=merging.id,
            reason=f"{paths}: {next(iter(strange.values()))}",
            hint=f"look at it; agent-dev undo {merging.id} takes the rest back and leaves it as it is",
        )
    what = {"undo": "an undo of it", "redo": "a redo of it"}.get(phase.why, "it")
    notice(f"merge {merging.id}: {what} was interrupted; everything is as it was before")
