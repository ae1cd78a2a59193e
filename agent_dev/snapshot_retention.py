"""Select old checkpoints and backups to remove: the older they are, the fewer are kept."""

from agent_dev.quick_dataclass import dataclass

MINUTE = 60 * 10**9  # ns
PROTECTED = 3  # newest checkpoints, never removed
_LONG_GAP = 288  # intervals: a longer gap separates one day's work from another's


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """Retention limits: number, age and size of the history that is kept. 0: no limit."""

    number: int = 50
    age: int = 0  # ns
    size: int = 0  # bytes

    @staticmethod
    def from_settings(number: int, days: int, mib: int) -> "RetentionLimits":
        """Return the limits given as a number of checkpoints, days and MiB."""
        return RetentionLimits(number, days * 24 * 60 * MINUTE, mib << 20)


@dataclass(frozen=True, slots=True)
class RetainedItem:
    """A checkpoint as retention sees it: its number, time in ns, and the bytes that removing it and all older ones frees.

    `is_requested`: taken at the user's request.
    """

    number: int
    time: int
    size: int
    is_requested: bool = False


def select_expired(items: tuple[RetainedItem, ...], now: int, interval: int, limits: RetentionLimits) -> tuple[int, ...]:
    """Return the numbers to remove, in order of removal; `items` is oldest first. The newest three are always kept.

    Limits on age and size remove the oldest first; the limit on size removes those that the user requested last. The limit on
    the number removes the oldest first while there is a long gap, as between days; then it thins out: ages are grouped by powers
    of two (in intervals), and the item that leaves the smallest gap is removed from the most crowded group. Here, too, those
    that the user requested are removed last.
    """
    left, gone = list(items), []
    while len(left) > PROTECTED and limits.age and left[0].time < now - limits.age:
        gone.append(left.pop(0).number)
    while len(left) > PROTECTED and limits.size and sum(one.size for one in left) > limits.size:
        gone.append(left.pop(_removable(left)[0]).number)
    while limits.number and len(left) > max(limits.number, PROTECTED):
        gone.append(left.pop(_next_to_remove(left, now, max(1, interval))).number)
    return tuple(gone)


def _removable(left: list[RetainedItem]) -> list[int]:
    """Return the indices of the items that may be removed, oldest first."""
    indices = range(len(left) - PROTECTED)
    return [at for at in indices if not left[at].is_requested] or list(indices)


def _next_to_remove(left: list[RetainedItem], now: int, interval: int) -> int:
    removable = _removable(left)
    if any(left[at + 1].time - left[at].time > _LONG_GAP * interval for at in removable):
        return removable[0]
    groups: dict[int, list[int]] = {}
    for at in removable:
        groups.setdefault(max(1, (now - left[at].time) // interval).bit_length() - 1, []).append(at)
    _, group = max((len(members) - _target(group), group) for group, members in groups.items())
    return min(groups[group], key=lambda at: (_gap(left, at), at))


def _target(group: int) -> int:
    return max(1, 3 - group)


def _gap(left: list[RetainedItem], at: int) -> int:
    """Return the gap that removing an item leaves; for the oldest, its distance to the next."""
    return left[at + 1].time - left[max(0, at - 1)].time
