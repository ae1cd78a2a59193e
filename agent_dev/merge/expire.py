"""Expire merges by age and total size; the newest merge of each root stays."""

import os
import time

from agent_dev.fs import background_removal
from agent_dev.merge.recover import Notify
from agent_dev.merge.retention import pack
from agent_dev.merge_engine import journal_file, pending_marks
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext

_DAY = 86_400 * 10**9  # ns


def expire_merges(where: CommandContext, notice: Notify) -> None:
    """Remove merges and trash entries beyond the configured age or total size, at most once a day.

    Each call also packs a few merged sessions.
    """
    pack.pack_few(where)
    if not _is_due(where.store):
        return
    from agent_dev.merge import history  # needed once a day only
    from agent_dev.merge.retention import clean

    clean.expire_trash(where)

    profile = where.profile
    found = [one for one in history.list_merges(where, every=True) if not one.problem]
    newest = {root: one.id for one in found for root in one.roots}
    sizes = {one.id: _size(f"{where.store.merges}/{one.id}") for one in found}
    total = sum(sizes.values())
    too_old = time.time_ns() - profile.keep_merges_days * _DAY
    expired = []
    for one in found:
        if one.id not in newest.values() and (one.time < too_old or total > profile.keep_merges_mib << 20):
            expired.append(one.id)
            total -= sizes[one.id]
    if expired:
        with journal_file.merge_lock(where.store, notice):
            for merge_id in expired:
                _remove_merge(where.store, merge_id)


def _is_due(state_dir: store.Store) -> bool:
    """Return whether a day has passed since the last time; record this time."""
    mark = f"{state_dir.path}/thinned"
    try:
        is_due = time.time_ns() - os.stat(mark).st_mtime_ns > _DAY
    except FileNotFoundError:
        is_due = True
    if is_due:
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(mark)
    return is_due


def _remove_merge(state_dir: store.Store, merge_id: str) -> None:
    if merge_id in pending_marks.unfinished_merges(state_dir):
        return
    gone = background_removal.move_for_removal(state_dir.removals_folder, f"{state_dir.merges}/{merge_id}")
    background_removal.remove_in_background(gone)


def _size(folder: str) -> int:
    """Return the disk usage of a folder in bytes."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue  # removed by another process
    return total
