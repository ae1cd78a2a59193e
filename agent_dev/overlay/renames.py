"""Detect renames: new files with the bytes of a deleted one, or with enough of its lines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_dev.diff.hunks import split_lines
from agent_dev.fs.entry import Key

MIN_SIMILARITY = 0.5  # git's default (-M50%): the shared part of the larger file
MAX_COMPARED_FILES = 200  # files on either side; above that only exact renames are found


@dataclass(frozen=True, slots=True)
class Rename:
    """A deleted and an added file with similar content; `similarity` is 1.0 for identical files."""

    old: Key
    new: Key
    similarity: float


def detect_renames(deleted: Mapping[Key, bytes], added: Mapping[Key, bytes]) -> tuple[Rename, ...]:
    """Pair deleted with added files, the most similar first. Each file is in at most one pair; empty files are never paired."""
    found = _exact_renames(deleted, added)
    old = {key: data for key, data in deleted.items() if key not in {rename.old for rename in found}}
    new = {key: data for key, data in added.items() if key not in {rename.new for rename in found}}
    if len(old) > MAX_COMPARED_FILES or len(new) > MAX_COMPARED_FILES:
        return tuple(found)
    return (*found, *_similar_renames(old, new))


def _exact_renames(deleted: Mapping[Key, bytes], added: Mapping[Key, bytes]) -> list[Rename]:
    by_content: dict[bytes, list[Key]] = {}
    for key, data in sorted(deleted.items()):
        if data:
            by_content.setdefault(data, []).append(key)
    found = []
    for key, data in sorted(added.items()):
        candidates = by_content.get(data)
        if candidates:
            same_name = [candidate for candidate in candidates if candidate.name == key.name]
            old = (same_name or candidates)[0]
            candidates.remove(old)
            found.append(Rename(old, key, 1.0))
    return found


def _similar_renames(deleted: Mapping[Key, bytes], added: Mapping[Key, bytes]) -> list[Rename]:
    counted = {key: Counter(split_lines(data)) for key, data in (*deleted.items(), *added.items())}
    pairs = [
        Rename(old, new, alike)
        for old in deleted
        for new in added
        if (alike := _similarity(counted[old], counted[new], (len(deleted[old]), len(added[new])))) >= MIN_SIMILARITY
    ]
    paired: set[Key] = set()
    found = []
    for pair in sorted(pairs, key=lambda pair: (-pair.similarity, pair.old.name != pair.new.name, pair.old, pair.new)):
        if pair.old not in paired and pair.new not in paired:
            paired |= {pair.old, pair.new}
            found.append(pair)
    return found


def _similarity(old: Counter[bytes], new: Counter[bytes], sizes: Sequence[int]) -> float:
    if not min(sizes) or min(sizes) < MIN_SIMILARITY * max(sizes):
        return 0.0
    shared = sum(len(line) * min(count, new[line]) for line, count in old.items() if line in new)
    return shared / max(sizes)
