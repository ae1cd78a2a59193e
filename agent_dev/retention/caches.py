"""Remove caches by age and total size: those that were not used for long, and never one that a running sandbox may use."""

import fcntl
import os
import time

from agent_dev.fs import cache
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.fs.state_files import list_names
from agent_dev.retention.clean_result import CleanedKind
from agent_dev.sandbox import etc
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, list_sessions
from agent_dev.session.trash_retention import DAY, TrashEntry, select_for_removal

_REFS = "refs"  # a subdirectory with a file for each repository


def clean_caches(where: CommandContext, *, is_dry: bool) -> CleanedKind:
    """Remove caches by the settings `keep_caches_*`; with `is_dry`, only count them."""
    folder, now = cache.folder(where.environ), time.time_ns()
    protected = min(now, _oldest_start(where.store)) - DAY  # what a sandbox mounts was last used shortly before its start
    entries = _entries(folder)
    young_size = sum(one.size for one in entries if one.time >= protected)
    limit = max(0, (where.profile.keep_caches_mib << 20) - young_size)
    old = tuple(one for one in entries if one.time < protected)
    removed = select_for_removal(old, now - where.profile.keep_caches_days * DAY, limit)
    if not is_dry:
        removed = tuple(one for one in removed if _remove(folder, one))
    return CleanedKind.of("caches", [one.size for one in removed], [one.size for one in entries if one not in removed])


def _entries(folder: str) -> tuple[TrashEntry, ...]:
    """Return the caches with the time of their last use; an image of /etc is one of them, with its key."""
    groups: dict[str, list[str]] = {}
    names = [*list_names(folder), *(f"{_REFS}/{name}" for name in list_names(f"{folder}/{_REFS}"))]
    for name in names:
        if name not in (_REFS, etc.LOCK):
            groups.setdefault(name.partition(".")[0] if name.startswith(etc.IMAGE) else name, []).append(f"{folder}/{name}")
    found = []
    for name, paths in groups.items():
        try:
            found.append(TrashEntry(name, max(os.lstat(path).st_mtime_ns for path in paths), sum(map(disk_usage, paths))))
        except OSError:
            continue  # just removed or renamed
    return tuple(found)


def _remove(folder: str, one: TrashEntry) -> bool:
    """Remove a cache unless it was used since it was found."""
    path = f"{folder}/{one.name}"
    try:
        if one.name.startswith(etc.IMAGE):
            return etc.remove_unused(path, one.time)
        if os.lstat(path).st_mtime_ns != one.time:
            return False
        os.unlink(path)
    except OSError:
        return False
    return True


def _oldest_start(state: store.Store) -> int:
    """Return when the oldest of the running sandboxes started, in ns since 1970; now if none runs."""
    starts = [one.record["started"] for one in list_sessions(state) if one.state == store.RUNNING]
    starts += [_start_time(f"{state.path}/snapshots/{name}/lock") for name in list_names(f"{state.path}/snapshots")]
    return min(starts, default=time.time_ns())


def _start_time(lock_file: str) -> int:
    """Return when a run in direct mode started, which holds a lock on its snapshot; now if it has ended."""
    try:
        fd = os.open(lock_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return time.time_ns()
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.fstat(fd).st_mtime_ns
    else:
        return time.time_ns()
    finally:
        os.close(fd)
