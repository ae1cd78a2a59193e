"""Clean the state and the caches by the settings `keep_*`: the trash, merges and merged sessions, checkpoints, caches."""

import os
import time
from contextlib import suppress

from agent_dev.errors import AgentDevError, SessionBusy
from agent_dev.fs import background_removal
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.fs.rmtree import remove_session, remove_tree
from agent_dev.fs.state_files import list_names
from agent_dev.git import repository
from agent_dev.merge import pack
from agent_dev.merge.pack import PackedSession
from agent_dev.merge.recover import Notify
from agent_dev.quick_dataclass import replace
from agent_dev.retention import caches, checkpoints, merges
from agent_dev.retention.clean_result import CleanedKind, CleanResult
from agent_dev.session import made_work_trees, store
from agent_dev.session.sessions import CommandContext
from agent_dev.session.trash_retention import DAY, TrashEntry, select_for_removal


def clean_all(where: CommandContext, days: int, mib: int, notice: Notify, *, is_all: bool, is_dry: bool) -> CleanResult:
    """Clean every kind of state by the settings `keep_*`, but the trash by `days` and `mib`.

    `is_all`: reduce every merged session; `is_dry`: only return what would be removed.
    """
    by_age = merges.find_expired(where)
    expired = by_age.expired if is_dry else merges.remove_merges(where, by_age.expired, notice)
    gone = frozenset(one.id for one in expired)
    sizes = checkpoints.list_sizes(where)
    packed = pack.pack_all(where, is_all=is_all, is_dry=is_dry, expired=gone)
    kept_merges = [one.size for one in (*by_age.expired, *by_age.kept) if one.id not in gone]
    git = repository.find_location(where.cwd).git
    made = made_work_trees.remove_unused(where.store, git, where.environ, is_dry=is_dry) if git else ()
    trash = clean_trash(where, days, mib, is_dry=is_dry)
    kinds = (
        CleanedKind.of("trash", [one.size for one in trash.removed], [one.size for one in trash.kept]),
        CleanedKind.of("merges", [one.size for one in expired], kept_merges),
        _merged_sessions(where.store, packed, is_dry=is_dry),
        checkpoints.prune_merged(where, is_dry=is_dry, reduced={one.id: sizes.get(one.id, ()) for one in packed}),
        caches.clean_caches(where, is_dry=is_dry),
    )
    return replace(trash, sessions=packed, work_trees=tuple(one.path for one in made), kinds=kinds)


def clean_automatically(where: CommandContext) -> None:
    """Clean every kind of state by the settings `keep_*`. Failures are retried on the next day."""
    steps = (
        lambda: clean_trash(where, where.profile.keep_trash_days, where.profile.keep_trash_mib, is_dry=False),
        lambda: merges.remove_merges(where, merges.find_expired(where).expired, lambda _: None),
        lambda: pack.pack_all(where, is_all=False, is_dry=False),
        lambda: checkpoints.prune_merged(where, is_dry=False),
        lambda: caches.clean_caches(where, is_dry=False),
    )
    for step in steps:
        with suppress(OSError, AgentDevError):  # a full disk, or a damaged file: the other kinds are cleaned all the same
            step()


def _merged_sessions(state: store.Store, reduced: tuple[PackedSession, ...], *, is_dry: bool) -> CleanedKind:
    """Return how many merged sessions were packed, thinned or removed, and what the sessions that remain use."""
    removed = {one.id for one in reduced if one.action == pack.REMOVED}
    merged = (one for one in store.all_sessions(state) if one.id not in removed and store.is_merged(one))
    kept = CleanedKind.of("merged sessions", [one.size for one in reduced], (disk_usage(one.folder) for one in merged))
    freed_later = sum(one.size for one in reduced if one.action != pack.REMOVED) if is_dry else 0
    return replace(kept, size=max(0, kept.size - freed_later))


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
