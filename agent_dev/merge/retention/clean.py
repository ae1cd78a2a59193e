"""Empty the trash of discarded sessions and old agent homes, and pack merged sessions."""

import os
import time
from dataclasses import dataclass, replace

from agent_dev.errors import SessionBusy
from agent_dev.fs import background_removal
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.fs.rmtree import remove_session, remove_tree
from agent_dev.fs.state_files import list_names
from agent_dev.git import repository
from agent_dev.merge.retention import pack
from agent_dev.merge.retention.pack import PackedSession
from agent_dev.session import made_work_trees, store
from agent_dev.session.sessions import CommandContext
from agent_dev.session.trash_retention import DAY, TrashEntry, select_for_removal


@dataclass(frozen=True, slots=True)
class CleanResult:
    """The removed trash entries (with a dry run: those to remove), and the remaining ones."""

    removed: tuple[TrashEntry, ...]
    kept: tuple[TrashEntry, ...]
    sessions: tuple[PackedSession, ...] = ()  # merged sessions that were packed or removed
    work_trees: tuple[str, ...] = ()  # paths of work trees made for sessions that were removed


def clean_all(where: CommandContext, days: int, mib: int, *, is_all: bool, is_dry: bool) -> CleanResult:
    """Clean the trash, and pack or remove merged sessions."""
    packed = pack.pack_all(where, is_all=is_all, is_dry=is_dry)
    git = repository.find_location(where.cwd).git
    made = made_work_trees.remove_unused(where.store, git, where.environ, is_dry=is_dry) if git else ()
    return replace(clean_trash(where, days, mib, is_dry=is_dry), sessions=packed, work_trees=tuple(one.path for one in made))


def clean_trash(where: CommandContext, days: int, mib: int, *, is_dry: bool) -> CleanResult:
    """Remove trash entries older than `days`, and those that exceed `mib` with the newer ones that are kept."""
    trash = where.store.trash
    entries = tuple(_trash_entry(trash, name) for name in sorted(list_names(trash)))
    removed = select_for_removal(entries, time.time_ns() - days * DAY, mib << 20)
    if not is_dry:
        removed = tuple(one for one in removed if _remove_entry(where.store, one.name))
    names = {one.name for one in removed}
    return CleanResult(removed, tuple(one for one in entries if one.name not in names))


def expire_trash(where: CommandContext) -> None:
    """Remove expired trash entries in a child process: measuring them can take seconds."""
    if not list_names(where.store.trash):
        return
    days, mib = where.profile.keep_trash_days, where.profile.keep_trash_mib

    def work(_end: int) -> None:
        os.closerange(3, 4096)  # includes our locks, and `end`
        clean_trash(where, days, mib, is_dry=False)

    background_removal.run_in_background(work)


def _remove_entry(state: store.Store, name: str) -> bool:
    """Remove an entry of the trash; return False if another process restores or removes it.

    It leaves the trash as a whole first, so that `undiscard` never finds a part of a session.
    """
    path = f"{state.trash}/{name}"
    if os.path.islink(path) or not os.path.isdir(path):
        remove_tree(path)
        return True
    try:
        held = store.lock_session(store.Session(name, path))
    except (SessionBusy, FileNotFoundError):
        return False
    except PermissionError:  # an old home whose agent denied access to it: it cannot be renamed, nor is it restored
        remove_tree(path)
        return True
    try:
        gone = background_removal.move_for_removal(state.removals_folder, path)
    except FileNotFoundError:
        return False
    finally:
        store.unlock_session(held)
    remove_session(gone)
    return True


def _trash_entry(trash: str, name: str) -> TrashEntry:
    """Return one trash entry; the move to the trash was the last change of its inode."""
    path = f"{trash}/{name}"
    return TrashEntry(name, os.lstat(path).st_ctime_ns, disk_usage(path))
