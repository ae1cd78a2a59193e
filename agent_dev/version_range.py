"""The versions of a format that a program reads and writes, and the highest one that it shares with another program."""

from typing import Any

from agent_dev.quick_dataclass import dataclass

_MAX_VERSION = 1 << 16


@dataclass(frozen=True, slots=True)
class VersionRange:
    """All versions from `oldest` to `newest`."""

    oldest: int
    newest: int

    def __contains__(self, version: object) -> bool:
        return type(version) is int and self.oldest <= version <= self.newest

    def __str__(self) -> str:
        return str(self.newest) if self.oldest == self.newest else f"{self.oldest} to {self.newest}"

    def highest_common(self, other: "VersionRange") -> int | None:
        """Return the highest version that is in both ranges; None if there is none."""
        newest = min(self.newest, other.newest)
        return newest if newest >= max(self.oldest, other.oldest) else None

    def encode(self) -> list[int]:
        """Return the range as a value of JSON."""
        return [self.oldest, self.newest]


def parse_range(value: Any) -> VersionRange | None:
    """Return the range that `encode` returned; None for any other value."""
    is_pair = isinstance(value, list) and len(value) == 2 and all(type(one) is int for one in value)
    return VersionRange(*value) if is_pair and 0 <= value[0] <= value[1] <= _MAX_VERSION else None
