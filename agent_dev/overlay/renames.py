"""Which new files are old ones under another name: by equal bytes, else by how many lines they share."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_dev.diff.hunks import lines
from agent_dev.overlay.changes import Key

ALIKE = 0.5  # git's own measure (-M): the share of the larger file that both have
MOST = 200  # files on either side that are compared line by line


@dataclass(frozen=True, slots=True)
class Rename:
    """One file that went and came; `alike`: how much of it is the same, 1.0 for all."""

    old: Key
    new: Key
    alike: float


def renames(gone: Mapping[Key, bytes], came: Mapping[Key, bytes]) -> tuple[Rename, ...]:
    """Pair deleted with new files, the most alike first; each is in one pair at most. Empty files are never paired."""
    found = _exact(gone, came)
    old = {key: data for key, data in gone.items() if key not in {one.old for one in found}}
    new = {key: data for key, data in came.items() if key not in {one.new for one in found}}
    if len(old) > MOST or len(new) > MOST:
        return tuple(found)
    return (*found, *_similar(old, new))


def _exact(gone: Mapping[Key, bytes], came: Mapping[Key, bytes]) -> list[Rename]:
    by_content: dict[bytes, list[Key]] = {}
    for key, data in sorted(gone.items()):
        if data:
            by_content.setdefault(data, []).append(key)
    found = []
    for key, data in sorted(came.items()):
        candidates = by_content.get(data)
        if candidates:
            same_name = [one for one in candidates if _name(one) == _name(key)]
            old = (same_name or candidates)[0]
            candidates.remove(old)
            found.append(Rename(old, key, 1.0))
    return found


def _similar(gone: Mapping[Key, bytes], came: Mapping[Key, bytes]) -> list[Rename]:
    counted = {key: Counter(lines(data)) for key, data in (*gone.items(), *came.items())}
    pairs = [
        Rename(old, new, alike)
        for old in gone
        for new in came
        if (alike := _alike(counted[old], counted[new], (len(gone[old]), len(came[new])))) >= ALIKE
    ]
    taken: set[Key] = set()
    found = []
    for one in sorted(pairs, key=lambda one: (-one.alike, _name(one.old) != _name(one.new), one.old, one.new)):
        if one.old not in taken and one.new not in taken:
            taken |= {one.old, one.new}
            found.append(one)
    return found


def _alike(old: Counter[bytes], new: Counter[bytes], sizes: Sequence[int]) -> float:
    if not min(sizes) or min(sizes) < ALIKE * max(sizes):
        return 0.0
    shared = sum(len(line) * min(count, new[line]) for line, count in old.items() if line in new)
    return shared / max(sizes)


def _name(key: Key) -> bytes:
    return key.path.rpartition(b"/")[2]
