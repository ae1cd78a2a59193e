"""Sessions that are over: gone at once and their files a moment later, in the trash, or swept up when nobody did."""

import fcntl
import os
import time

from agent_dev.fs.rmtree import remove_session, remove_tree
from agent_dev.session.store import Session, Store, all_sessions, is_held, is_unborn, let_go, lock_births

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_YOUNG = 10  # seconds: a removal that somebody is at changes its directory all the time


def sweep(place: Store) -> None:
    """Move sessions that were never born, killed before they had a record, into the trash; finish removals."""
    for name in _gone(place):
        remove_session(f"{place.gone}/{name}")
    if not any(map(is_unborn, all_sessions(place))):
        return
    births = lock_births(place, fcntl.LOCK_EX)
    try:
        for session in all_sessions(place):
            # Again when nobody holds it: its maker may have given it a record and let go between the two looks.
            if is_unborn(session) and not is_held(session) and is_unborn(session):
                to_trash(place, session)
    finally:
        os.close(births)


def has_leavings(place: Store) -> bool:
    """Whether there may be something to sweep that a killed process left: a quick look."""
    return any(map(is_unborn, all_sessions(place))) or any(_is_old(f"{place.gone}/{name}") for name in _gone(place))


def sweep_aside(place: Store) -> None:
    """Sweep in a child of ours, which nobody waits for."""

    def work(_: int) -> None:
        os.closerange(3, 4096)  # what the keeper waits for the end of
        sweep(place)

    _aside(work)


def _gone(place: Store) -> list[str]:
    try:
        return os.listdir(place.gone)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_old(folder: str) -> bool:
    try:
        return time.time() - os.lstat(folder).st_ctime > _YOUNG
    except OSError:
        return False  # it went just now


def drop(session: Session) -> None:
    """Remove a session that changed nothing, with all that was made for it."""
    remove_session(session.folder)
    let_go(session)


def drop_aside(place: Store, session: Session, leave_home: "Callable[[], None]") -> None:
    """Remove a session that changed nothing, without making the user wait: it is gone at once, its files a moment later."""
    gone = set_aside(place, session.id)
    os.rmdir(gone)
    os.rename(session.folder, gone)
    remove_aside(gone, leave_home)
    let_go(session)


def set_aside(place: Store, name: str) -> str:
    """Make and return an empty directory for what is to be removed."""
    gone, count = f"{place.gone}/{name}", 0
    while True:
        try:
            os.makedirs(gone, 0o700)
        except FileExistsError:
            count += 1  # one of that name is still being removed
            gone = f"{place.gone}/{name}.{count}"
        else:
            return gone


def remove_aside(gone: str, also: "Callable[[], None] | None" = None) -> None:
    """Remove what was set aside in a child of ours, which nobody waits for.

    Taking thirty directories and some mount points apart costs more than bubblewrap's whole start, freeing thousands of
    files more than merging them. `sweep` and the next to leave the home finish what a killed child left.
    """

    def work(tells: int) -> None:
        if also is not None:
            os.close(tells)
            also()
        else:
            os.closerange(3, 4096)  # locks of ours among them
        remove_session(gone)

    _aside(work)


def _aside(work: "Callable[[int], None]") -> None:
    """Do it in a child with a process group of its own, and go on as soon as it has closed the descriptor that it gets."""
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            for standard in range(3):
                os.close(standard)  # whoever reads our output need not wait
            work(tells)
        finally:
            os._exit(0)
    os.close(tells)
    os.read(told, 1)  # the end of it: the child holds no lock any more
    os.close(told)
    try:
        os.setpgid(pid, pid)  # here too: our own end, as a terminal's first process, hangs up on our group
    except OSError:
        pass  # it has ended


def drop_scaffold(session: Session) -> None:
    """Remove what an ended session no longer needs: work directories and the throw-away uppers of caches."""
    remove_tree(f"{session.folder}/caches")
    try:
        numbers = os.listdir(f"{session.folder}/roots")
    except FileNotFoundError:
        return
    for number in numbers:
        remove_tree(f"{session.folder}/roots/{number}/work")


def to_trash(place: Store, session: Session) -> str:
    """Move a session into the trash and return its new place."""
    os.makedirs(place.trash, 0o700, exist_ok=True)
    trash = f"{place.trash}/{session.id}"
    os.rename(session.folder, trash)
    for folder in (place.trash, place.sessions):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)
    return trash
