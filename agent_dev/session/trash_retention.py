"""What of the trash goes: by age, then by what it takes in all; what is to be kept is the newest."""

from dataclasses import dataclass

DAY = 86_400 * 10**9  # ns


@dataclass(frozen=True, slots=True)
class Thrown:
    """One thing in the trash: its name, when it was thrown there (ns since 1970), and what it takes in bytes."""

    name: str
    time: int
    size: int


def gone(thrown: tuple[Thrown, ...], oldest: int, most: int) -> tuple[Thrown, ...]:
    """Return what was thrown away before `oldest`, and of the rest the oldest beyond `most` bytes in all, oldest first."""
    found = []
    kept = 0
    for one in sorted(thrown, key=lambda one: (one.time, one.name), reverse=True):
        kept += one.size
        if one.time < oldest or kept > most:
            found.append(one)
            kept -= one.size
    return tuple(reversed(found))
