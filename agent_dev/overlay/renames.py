"""Detect renames: new files that have the bytes of a deleted file, or enough of its lines."""

from collections import Counter
from collections.abc import Iterator, Mapping

from agent_dev.diff.hunks import split_lines
from agent_dev.fs.entry import Key
from agent_dev.quick_dataclass import dataclass

MAX_COMPARED_FILES = 400  # files on either side; above that only exact renames are found


@dataclass(frozen=True, slots=True)
class Rename:
    """A deleted and an added file with similar content; `similarity` is 1.0 for identical files."""

    old: Key
    new: Key
    similarity: float


def detect_renames(deleted: Mapping[Key, bytes], added: Mapping[Key, bytes], threshold: float) -> tuple[Rename, ...]:
    """Pair deleted with added files, the most similar first. Each file is in at most one pair; empty files are never paired.

    `threshold`: the minimum similarity, the shared part of the larger file (git's default is 0.5).
    """
    found = _exact_renames(deleted, added)
    old = {key: data for key, data in deleted.items() if key not in {rename.old for rename in found}}
    new = {key: data for key, data in added.items() if key not in {rename.new for rename in found}}
    if len(old) > MAX_COMPARED_FILES or len(new) > MAX_COMPARED_FILES:
        return tuple(found)
    return (*found, *_similar_renames(old, new, threshold))


def _exact_renames(deleted: Mapping[Key, bytes], added: Mapping[Key, bytes]) -> list[Rename]:
    by_content: dict[bytes, list[Key]] = {}
    for key, data in sorted(deleted.items()):
        if data:
            by_content.setdefault(data, []).append(key)
    found: dict[Key, Rename] = {}
    for is_same_name in (True, False):
        for key, data in sorted(added.items()):
            candidates = by_content.get(data, []) if key not in found else []
            old = next((one for one in candidates if not is_same_name or one.name == key.name), None)
            if old is not None:
                candidates.remove(old)
                found[key] = Rename(old, key, 1.0)
    return list(found.values())


def _similar_renames(deleted: Mapping[Key, bytes], added: Mapping[Key, bytes], threshold: float) -> list[Rename]:
    """Pair files by the bytes of the lines that they share, counted by an index of the deleted files' lines."""
    pairs = sorted(_similar_pairs(deleted, added, threshold), key=_preference)
    paired: set[Key] = set()
    found = []
    for pair in pairs:
        if pair.old not in paired and pair.new not in paired:
            paired |= {pair.old, pair.new}
            found.append(pair)
    return found


def _preference(pair: Rename) -> tuple[float, bool, Key, Key]:
    return -pair.similarity, pair.old.name != pair.new.name, pair.old, pair.new


def _similar_pairs(deleted: Mapping[Key, bytes], added: Mapping[Key, bytes], threshold: float) -> Iterator[Rename]:
    files_by_line: dict[bytes, list[tuple[Key, int]]] = {}
    for key, data in deleted.items():
        for line, count in Counter(split_lines(data)).items():
            files_by_line.setdefault(line, []).append((key, count))
    for new, data in added.items():
        shared: Counter[Key] = Counter()
        for line, count in Counter(split_lines(data)).items():
            for old, old_count in files_by_line.get(line, ()):
                shared[old] += len(line) * min(count, old_count)
        for old, size in shared.items():
            similarity = size / max(len(deleted[old]), len(data))
            if similarity >= threshold:
                yield Rename(old, new, similarity)
