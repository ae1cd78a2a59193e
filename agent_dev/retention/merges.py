"""Remove merges by age and total size, with what their sessions keep for an undo; the newest merge of each root stays."""

import time

from agent_dev.fs import background_removal
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.merge import history
from agent_dev.merge.recover import Notify
from agent_dev.merge_engine import journal_file, pending_marks
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from agent_dev.session.trash_retention import DAY


@dataclass(frozen=True, slots=True)
class MergeSize:
    """A merge: its id, when it was last merged, undone or redone (ns since 1970), the bytes of its own directory."""

    id: str
    last_changed: int
    size: int


@dataclass(frozen=True, slots=True)
class MergesByAge:
    """The merges to remove, and those that stay; the oldest first."""

    expired: tuple[MergeSize, ...]
    kept: tuple[MergeSize, ...]


def find_expired(where: CommandContext) -> MergesByAge:
    """Return which merges are too old, or exceed the size with newer ones; unfinished and damaged ones are in neither list."""
    unfinished = pending_marks.unfinished_merges(where.store)
    found = [one for one in history.list_merges(where, every=True) if not one.problem and one.id not in unfinished]
    newest = {root: one.id for one in found for root in one.roots}.values()
    sizes = {one.id: _size(f"{where.store.merges}/{one.id}") for one in found}
    session_sizes = _session_sizes(where.store, tuple(one.id for one in found))
    total = sum(sizes.values()) + sum(session_sizes.values())
    too_old, limit = time.time_ns() - where.profile.keep_merges_days * DAY, where.profile.keep_merges_mib << 20
    expired: list[MergeSize] = []
    kept: list[MergeSize] = []
    for one in found:
        is_expired = one.id not in newest and (one.time < too_old or total > limit)
        (expired if is_expired else kept).append(MergeSize(one.id, one.last_changed, sizes[one.id]))
        if is_expired:
            total -= sizes[one.id] + session_sizes.get(one.id, 0)
    return MergesByAge(tuple(expired), tuple(kept))


def remove_merges(where: CommandContext, expired: tuple[MergeSize, ...], notice: Notify) -> tuple[MergeSize, ...]:
    """Remove merges, except those that another command has used since; return the removed ones."""
    if not expired:
        return ()
    gone: list[str] = []
    removed: list[MergeSize] = []
    with journal_file.merge_lock(where.store, notice):
        unfinished = pending_marks.unfinished_merges(where.store)
        for one in expired:
            if one.id in unfinished or pending_marks.last_phase_time(where.store, one.id) > one.last_changed:
                continue
            try:
                gone.append(background_removal.move_for_removal(where.store.removals_folder, f"{where.store.merges}/{one.id}"))
            except FileNotFoundError:
                continue  # another cleaning was faster
            removed.append(one)
    for path in gone:
        background_removal.remove_in_background(path)
    return tuple(removed)


def _session_sizes(state: store.Store, merge_ids: tuple[str, ...]) -> dict[str, int]:
    """Return what merged sessions use, by the id of each one's last merge: the session is removed after that."""
    last = {merge_id.rpartition(".")[0]: merge_id for merge_id in merge_ids}
    sizes = {}
    for session_id, merge_id in last.items():
        session = store.Session(session_id, f"{state.sessions}/{session_id}")
        if store.is_merged(session):
            sizes[merge_id] = _size(session.folder)
    return sizes


def _size(folder: str) -> int:
    try:
        return disk_usage(folder, with_links=False)
    except OSError:
        return 0  # removed by another process
