"""Select entries of the trash for removal, by age and by total size."""

from agent_dev.quick_dataclass import dataclass

DAY = 86_400 * 10**9  # ns


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """An entry of the trash: its name, when it was moved there (ns since 1970), its size in bytes."""

    name: str
    time: int
    size: int


def select_for_removal(entries: tuple[TrashEntry, ...], oldest: int, limit: int) -> tuple[TrashEntry, ...]:
    """Return the entries from before `oldest`, and those that exceed `limit` bytes with the newer kept ones; oldest first."""
    found = []
    kept_size = 0
    for one in sorted(entries, key=lambda one: (one.time, one.name), reverse=True):
        kept_size += one.size
        if one.time < oldest or kept_size > limit:
            found.append(one)
            kept_size -= one.size
    return tuple(reversed(found))
