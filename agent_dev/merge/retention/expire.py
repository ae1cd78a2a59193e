"""How long merges can be taken back: by age and by size, the newest of each root always."""

import os
import time

from agent_dev.merge.engine import pending
from agent_dev.merge.recover import Notice
from agent_dev.merge_engine import journal_file as journals
from agent_dev.session import removal as ended
from agent_dev.session import store
from agent_dev.session.sessions import Here

_DAY = 86_400 * 10**9  # ns


def thin(where: Here, notice: Notice) -> None:
    """Let go of merges that are older, or hold more in all, than the configuration keeps; looked at once a day."""
    if not _is_due(where.store):
        return
    from agent_dev.merge import history as merges  # once a day: most merges need none of it

    profile = where.profile
    found = [one for one in merges.recorded(where, every=True) if not one.problem]
    newest = {root: one.id for one in found for root in one.roots}
    sizes = {one.id: _size(f"{where.store.merges}/{one.id}") for one in found}
    kept = sum(sizes.values())
    too_old = time.time_ns() - profile.keep_merges_days * _DAY
    gone = []
    for one in found:
        if one.id not in newest.values() and (one.time < too_old or kept > profile.keep_merges_mib << 20):
            gone.append(one.id)
            kept -= sizes[one.id]
    if gone:
        with journals.alone(where.store, notice):
            for merge_id in gone:
                _let_go(where.store, merge_id)


def _is_due(place: store.Store) -> bool:
    """Whether a day has gone by, and note that it was asked."""
    mark = f"{place.path}/thinned"
    try:
        is_due = time.time_ns() - os.stat(mark).st_mtime_ns > _DAY
    except FileNotFoundError:
        is_due = True
    if is_due:
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(mark)
    return is_due


def _let_go(place: store.Store, merge_id: str) -> None:
    if merge_id in pending.listed(place):
        return
    aside = ended.set_aside(place, merge_id)
    os.rmdir(aside)
    os.rename(f"{place.merges}/{merge_id}", aside)
    ended.remove_aside(aside)


def _size(folder: str) -> int:
    """Return what a folder takes on the disk, in bytes."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue  # another is removing it
    return total
