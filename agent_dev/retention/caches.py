"""Remove caches by age and total size: those that were not used for long, and never one that a running sandbox may use.

The layers that mask credentials are caches, too, although they are in the state directory.
"""

import fcntl
import os
import time

from agent_dev.fs import background_removal, cache
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.fs.rmtree import remove_tree
from agent_dev.fs.state_files import list_names
from agent_dev.retention.clean_result import CleanedKind
from agent_dev.sandbox import etc
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, list_sessions
from agent_dev.session.trash_retention import DAY, TrashEntry, select_for_removal

_LAYERS, _EMPTY_LAYER = "covers", "blank"  # in the state directory (run/shown_paths)
_REFS = "refs"  # a subdirectory with a file for each repository


def clean_caches(where: CommandContext, *, is_dry: bool) -> CleanedKind:
    """Remove caches by the settings `keep_caches_*`; with `is_dry`, only count them."""
    folder, now = cache.folder(where.environ), time.time_ns()
    protected = min(now, _oldest_start(where.store)) - DAY  # what a sandbox mounts was last used shortly before its start
    layers = f"{where.store.path}/{_LAYERS}"
    entries = (*_entries(folder), *_mask_layers(layers))
    young_size = sum(one.size for one in entries if one.time >= protected)
    limit = max(0, (where.profile.keep_caches_mib << 20) - young_size)
    old = tuple(one for one in entries if one.time < protected)
    removed = select_for_removal(old, now - where.profile.keep_caches_days * DAY, limit)
    if not is_dry:
        removed = tuple(one for one in removed if _remove(where.store, one))
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
            found.append(
                TrashEntry(f"{folder}/{name}", max(os.lstat(path).st_mtime_ns for path in paths), sum(map(disk_usage, paths)))
            )
        except OSError:
            continue  # just removed or renamed
    return tuple(found)


def _mask_layers(folder: str) -> tuple[TrashEntry, ...]:
    """Return the layers that mask credentials, with the time of their last use."""
    paths = (f"{folder}/{name}" for name in list_names(folder) if name != _EMPTY_LAYER)
    return tuple(TrashEntry(path, os.lstat(path).st_mtime_ns, disk_usage(path)) for path in paths if os.path.isdir(path))


def _remove(state: store.Store, one: TrashEntry) -> bool:
    """Remove a cache unless it was used since it was found."""
    try:
        if os.path.basename(one.name).startswith(etc.IMAGE):
            return etc.remove_unused(one.name, one.time)
        if os.lstat(one.name).st_mtime_ns != one.time:
            return False
        if not os.path.isdir(one.name):
            os.unlink(one.name)
            return True
        gone = background_removal.move_for_removal(state.removals_folder, one.name)
        if os.lstat(gone).st_mtime_ns != one.time:  # a sandbox has just started with it
            os.rename(gone, one.name)
            return False
        remove_tree(gone)
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
