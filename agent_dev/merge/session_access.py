"""Lock a session, finish interrupted work in it, stop it, discard it."""

import os
import select
import time

from agent_dev.errors import SessionBusy, UnreadableSession
from agent_dev.linux import pid_namespace, signals
from agent_dev.quick_dataclass import replace
from agent_dev.session import open_transaction, removal, store
from agent_dev.session.sessions import CommandContext, ListedSession, list_sessions

_UNFINISHED = ("rollback.pending", "rollback.shown", "packing", open_transaction.LINK_NAME, store.ARCHIVE)
_PATIENCE = 10_000  # ms
_READ_PATIENCE = 2_000  # ms; for a command that only reads
_POLL_INTERVAL = 0.02  # seconds between two checks of a lock


def lock_ended(one: ListedSession) -> ListedSession:
    """Lock an ended session, and clean up after a killed launcher. Raises SessionBusy."""
    session = lock_when_free(one.session, one.state)
    try:
        return _clean_up(session, one)
    except UnreadableSession:
        store.unlock_session(session)
        raise


def _clean_up(session: store.Session, one: ListedSession) -> ListedSession:
    if os.path.lexists(f"{session.folder}/{store.UNLOCKED_FILE}"):
        from agent_dev.session import uppers  # rare: only after a killed command

        uppers.restore_modes(session, len(one.record["roots"]))
    namespace = one.record.get("life")
    if one.state == store.KILLED and namespace:
        pid_namespace.kill_all(pid_namespace.NamespaceIdentity(*namespace))
        removal.remove_work_directories(session)
    finish_interrupted_work(session)
    return replace(one, session=session, record=store.read_record(session))


def lock_when_free(session: store.Session, state: str) -> store.Session:
    """Lock a session and return it; wait a moment for a command that only reads, or a cleaning. Raises SessionBusy."""
    until = time.monotonic() + _patience(state)
    while time.monotonic() < until and store.is_locked(session):
        time.sleep(_POLL_INTERVAL)
    return store.lock_session(session)


def _patience(state: str) -> float:
    """Return how many seconds to wait for a lock: longest after a killed launcher, whose lower snapshot may be in progress."""
    if state == store.RUNNING:
        return 0
    return (_PATIENCE if state == store.KILLED else _READ_PATIENCE) / 1000


def has_interrupted_work(session: store.Session) -> bool:
    """Return whether a rollback or packing was killed, a transaction of the agent left open, or an archive has directories."""
    return any(os.path.lexists(f"{session.folder}/{name}") for name in _UNFINISHED)


def finish_interrupted_work(session: store.Session) -> str:
    """Finish an interrupted packing, rollback or transaction; restore archived directories. Return a message for the user, or "".

    Raises UnreadableSession, CannotRollBack.
    """
    if not has_interrupted_work(session):
        return ""
    from agent_dev.checkpoint import rollback, session_archive  # rare; they import this module
    from agent_dev.control import session_service
    from agent_dev.merge import pack

    session_archive.restore_directories(session)
    pack.finish_packing(session)
    if os.path.lexists(f"{session.folder}/rollback.pending"):
        rollback.resume_rollback(session)
    if os.path.lexists(f"{session.folder}/rollback.shown"):
        rollback.remove_leftovers(session)
    return session_service.roll_back_open(session) if open_transaction.recorded_checkpoint(session) else ""


def stop(where: CommandContext, one: ListedSession) -> ListedSession:
    """Stop a running session as its own launcher would; return it in its new state."""
    if one.state != store.RUNNING:
        return one
    launcher = one.record.get("launcher")
    try:
        fd = os.pidfd_open(launcher)
    except OSError:
        fd = -1
    if fd >= 0 and store.is_locked(one.session):
        signals.pidfd_send_signal(fd, signals.TERM)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(_PATIENCE):
            raise SessionBusy(session=one.name, what="still running", hint=f"its launcher (process {launcher}) does not exit")
        os.close(fd)
    again = [other for other in list_sessions(where.store) if other.session.id == one.session.id]
    return again[0] if again else ListedSession(one.session, one.record, "")


def discard(where: CommandContext, one: ListedSession) -> str:
    """Move an ended or damaged session to the trash; return its new path. Raises SessionBusy."""
    if one.problem:
        session = store.lock_session(one.session)
        path = removal.move_to_trash(where.store, session)
        store.unlock_session(session)
        return path
    try:
        held = lock_ended(one)
    except UnreadableSession:  # its archive
        held = ListedSession(store.lock_session(one.session), one.record, one.state)
    path = removal.move_to_trash(where.store, held.session)
    try:
        record: store.Record = {**held.record, "state": store.DISCARDED}
        record["discarded_as"] = store.MERGED if held.record["state"] == store.MERGED else store.WAITING
        store.write_record(held.session.replace(folder=path), record)
    except OSError:
        pass  # full disk: its place in the trash implies the same state
    store.unlock_session(held.session)
    return path
