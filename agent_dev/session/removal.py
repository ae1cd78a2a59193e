"""Remove sessions: rename them first, delete their files in the background, and sweep leftovers."""

import fcntl
import os
import time

from agent_dev.fs import background_removal
from agent_dev.fs.rmtree import remove_session, remove_tree
from agent_dev.fs.state_files import list_names
from agent_dev.session.store import (
    NEWEST,
    Session,
    Store,
    all_sessions,
    has_no_record,
    have_records,
    is_locked,
    lock_creation,
    unlock_session,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

IMPORT = "import"  # a directory in the folder of a session that is being imported
_MIN_AGE = 10  # seconds: a removal in progress keeps changing its directory


def sweep_leftovers(session_store: Store) -> None:
    """Move sessions that were killed before they had a record to the trash; remove incomplete imports; finish removals."""
    for name in list_names(session_store.removals_folder):
        remove_session(f"{session_store.removals_folder}/{name}")
    if have_records(session_store):
        return
    creation_lock = lock_creation(session_store, fcntl.LOCK_EX)
    try:
        for session in all_sessions(session_store):
            # Check again after the lock: its creator may have written a record and released it in between.
            if has_no_record(session) and not is_locked(session) and has_no_record(session):
                (remove_incomplete if _holds_nothing(session) else move_to_trash)(session_store, session)
    finally:
        os.close(creation_lock)


def _holds_nothing(session: Session) -> bool:
    """Return whether nothing is lost with a session: its bundle still exists, or it has no files."""
    return os.path.isdir(f"{session.folder}/{IMPORT}") or (
        {*list_names(session.folder)} <= {"roots"} and not list_names(f"{session.folder}/roots")
    )


def remove_incomplete(session_store: Store, session: Session) -> None:
    """Remove an incomplete session. If this process is killed, the next sweep removes the rest."""
    remove_session(_rename_for_removal(session_store, session))


def _rename_for_removal(session_store: Store, session: Session) -> str:
    return background_removal.move_for_removal(session_store.removals_folder, session.folder)


def has_leftovers(session_store: Store) -> bool:
    """Return whether a killed process may have left something to sweep, by a quick check of the newest sessions."""
    return any(map(has_no_record, all_sessions(session_store)[-NEWEST:])) or any(
        _is_old(f"{session_store.removals_folder}/{name}") for name in list_names(session_store.removals_folder)
    )


def sweep_in_background(session_store: Store) -> None:
    """Sweep in a background process."""

    def work(_: int) -> None:
        os.closerange(3, 4096)  # the setup process waits until these are closed
        sweep_leftovers(session_store)

    background_removal.run_in_background(work)


def _is_old(folder: str) -> bool:
    try:
        return time.time() - os.lstat(folder).st_ctime > _MIN_AGE
    except OSError:
        return False  # just removed


def remove_session_now(session: Session) -> None:
    """Remove a session without changes, with all its files."""
    remove_session(session.folder)
    unlock_session(session)


def remove_session_in_background(session_store: Store, session: Session, leave_home: "Callable[[], None]") -> None:
    """Remove a session without changes: rename it now, delete its files in the background."""
    gone = _rename_for_removal(session_store, session)
    background_removal.remove_in_background(gone, leave_home)
    unlock_session(session)


def remove_work_directories(session: Session) -> None:
    """Remove the directories that an ended session does not need: work directories and the temporary uppers of caches."""
    remove_tree(f"{session.folder}/caches")
    try:
        numbers = os.listdir(f"{session.folder}/roots")
    except FileNotFoundError:
        return
    for number in numbers:
        remove_tree(f"{session.folder}/roots/{number}/work")


def move_to_trash(session_store: Store, session: Session) -> str:
    """Move a session to the trash and return its new path."""
    os.makedirs(session_store.trash, 0o700, exist_ok=True)
    trash = f"{session_store.trash}/{session.id}"
    _move(session_store, session.folder, trash)
    return trash


def move_from_trash(session_store: Store, session: Session) -> Session:
    """Move a session out of the trash and return it."""
    folder = f"{session_store.sessions}/{session.id}"
    _move(session_store, session.folder, folder)
    return session.replace(folder=folder)


def _move(session_store: Store, old: str, new: str) -> None:
    os.rename(old, new)
    for folder in (session_store.trash, session_store.sessions):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)
