"""Link the deletion and the addition of each renamed file, which are merged together; find the origins of copied files."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from agent_dev.errors import AgentDevError
from agent_dev.fs.dir_tree import hides_lower
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from agent_dev.quick_dataclass import replace

if TYPE_CHECKING:
    from agent_dev.merge.review_protocol import ReviewProtocol

_MAX_FILES = 4_000  # deleted or added files; of more files, only the smallest with equal sizes are compared
_MAX_BYTES = 64 << 20  # in all
_MAX_FILE_SIZE = 4 << 20
_MAX_COPIES = 500  # copies and origins that are read, the smallest first
_MAX_COPIED_BYTES = 16 << 20  # in all
_MIN_LINE = 16  # bytes; a file with only shorter lines is boilerplate


def link_renames(review: "ReviewProtocol", percent: int) -> ChangeSet:
    """Return the changes with their renames; the halves of each require each other.

    `percent`: the minimum similarity; 100 finds only identical files, 0 none. Files that git ignores are never paired. If one
    half is in conflict, the halves stay separate, since the conflict is resolved at its own path; the other half requires it.
    """
    changes = review.changes
    sides = [
        [change for change in changes.changes if change.kind is kind and _can_be_renamed(change)]
        for kind in (ChangeKind.DELETED, ChangeKind.ADDED)
    ]
    if not percent or not all(sides):
        return changes
    from agent_dev.overlay.renames import MAX_COMPARED_FILES, detect_renames  # rare

    deleted, added = sides if max(map(len, sides)) <= MAX_COMPARED_FILES else _same_sizes(*sides)
    budget = _Budget()
    contents = [_contents(review, some, side, budget) for side, some in enumerate((deleted, added))]
    pairs: dict[Key, Key] = {}
    for number in {change.key.root for change in deleted}:
        own = [{key: data for key, data in some.items() if key.root == number} for some in contents]
        pairs |= {one.new: one.old for one in detect_renames(own[0], own[1], percent / 100)}
    table = changes.by_key()
    renames = {new: old for new, old in pairs.items() if table[new].is_clean and table[old].is_clean}
    directories = _renamed_directories(review, renames) if renames else {}
    renames |= _counterparts(changes, renames, directories) if directories else {}
    partners = {**renames, **{old: new for new, old in renames.items()}}
    halves = [half for pair in pairs.items() if pair[0] not in renames for half in (pair, pair[::-1])]
    partners |= {one: other for one, other in halves if table[one].is_clean}
    linked = tuple(
        replace(one, requires=(*one.requires, partners[one.key])) if one.key in partners else one for one in changes.changes
    )
    return replace(changes, changes=linked, renames=renames, directory_renames=directories)


def _renamed_directories(review: "ReviewProtocol", renames: dict[Key, Key]) -> dict[Key, Key]:
    from agent_dev.overlay.directory_renames import find_directory_renames  # rare

    known: dict[Key, bool] = {}

    def is_gone(directory: Key) -> bool:
        if directory not in known:
            known[directory] = hides_lower(review.upper_trees[directory.root], directory.path)
        return known[directory]

    return find_directory_renames(renames, is_gone)


def _counterparts(changes: ChangeSet, renames: dict[Key, Key], directories: dict[Key, Key]) -> dict[Key, Key]:
    """Return the renames of empty files and symlinks of renamed directories."""
    from agent_dev.overlay.directory_renames import counterparts  # rare

    known = {*renames, *renames.values()}
    plain = [one for one in changes.changes if one.key not in known and _has_no_lines(one)]
    deleted, added = ([one for one in plain if one.kind is kind] for kind in (ChangeKind.DELETED, ChangeKind.ADDED))
    return counterparts(deleted, added, directories)


def _has_no_lines(change: Change) -> bool:
    entry = change.before if change.after is None else change.after
    is_pair = entry is not None and (entry.type is FileType.SYMLINK or (entry.type is FileType.FILE and not entry.size))
    return is_pair and change.is_clean and not (change.is_merged or change.is_ignored)


def _can_be_renamed(change: Change) -> bool:
    entry = change.before if change.after is None else change.after
    return _is_small_file(entry) and not (change.obstacle or change.is_merged or change.is_ignored)


def _is_small_file(entry: Entry | None) -> bool:
    return entry is not None and entry.type is FileType.FILE and 0 < entry.size <= _MAX_FILE_SIZE


def _same_sizes(deleted: list[Change], added: list[Change]) -> tuple[list[Change], list[Change]]:
    """Return the files that can be identical to one of the other side, the smallest first, up to a limit."""
    sizes = {_size(one) for one in deleted} & {_size(one) for one in added}
    first, second = (sorted((one for one in some if _size(one) in sizes), key=_size)[:_MAX_FILES] for some in (deleted, added))
    return first, second


def _size(change: Change) -> int:
    entry = change.before if change.after is None else change.after
    return entry.size if entry is not None else 0


class _Budget:
    """The bytes that may still be read."""

    def __init__(self) -> None:
        self.left = _MAX_BYTES


def _contents(review: "ReviewProtocol", changes: list[Change], side: int, budget: _Budget) -> dict[Key, bytes]:
    found = {}
    for change in changes:
        budget.left -= _size(change)
        if budget.left < 0:
            break
        try:
            data = review.content(change.key)[side]
        except (AgentDevError, OSError):
            continue  # an unreadable file is not paired
        if data is not None:
            found[change.key] = data
    return found


# Moves to paths that git ignores


def link_moves_to_ignored(review: "ReviewProtocol", percent: int) -> ChangeSet:
    """Return the changes, where the deletion of a file that was moved to an ignored path requires the file there.

    Otherwise, a merge of everything that git does not ignore would delete the only copy. `percent`: as for `link_renames`.
    """
    changes = review.changes
    known = frozenset(changes.renames.values())
    gone = [one for one in changes.changes if _is_gone(one) and one.key not in known]
    ignored = [one for one in changes.changes if one.is_ignored and _is_content(one.after)] if gone and percent else []
    if not ignored:
        return changes
    places: dict[Key, Key] = {}
    for number in {one.key.root for one in gone}:
        old, new = ([one for one in some if one.key.root == number] for some in (gone, ignored))
        places |= _moved_places(review, old, new, percent / 100)
    linked = (replace(one, requires=(*one.requires, places[one.key])) if one.key in places else one for one in changes.changes)
    return replace(changes, changes=tuple(linked)) if places else changes


def _moved_places(review: "ReviewProtocol", gone: list[Change], ignored: list[Change], threshold: float) -> dict[Key, Key]:
    places = _moved_entries(gone, ignored)
    taken = frozenset(places.values())
    gone, ignored = [one for one in gone if one.key not in places], [one for one in ignored if one.key not in taken]
    return places | _moved_contents(review, gone, ignored, threshold) if gone and ignored else places


def _is_gone(change: Change) -> bool:
    is_gone = change.kind in (ChangeKind.DELETED, ChangeKind.RETYPED)
    return is_gone and _is_content(change.before) and not (change.is_ignored or change.obstacle)


def _is_content(entry: Entry | None) -> bool:
    return entry is not None and entry.type in (FileType.FILE, FileType.SYMLINK)


def _moved_entries(gone: list[Change], ignored: list[Change]) -> dict[Key, Key]:
    """Return the new paths of moved files that were not edited: a move keeps the time. No content is read."""
    by_identity: dict[tuple[object, ...], list[Key]] = {}
    for change in ignored:
        by_identity.setdefault(_moved_identity(change.after), []).append(change.key)
    found = {}
    for change in gone:
        if places := by_identity.get(_moved_identity(change.before)):
            found[change.key] = next((key for key in places if key.name == change.key.name), places[0])
            places.remove(found[change.key])
    return found


def _moved_identity(entry: Entry | None) -> tuple[object, ...]:
    return () if entry is None else (entry.type, entry.size, entry.target, entry.mtime)


def _moved_contents(review: "ReviewProtocol", gone: list[Change], ignored: list[Change], threshold: float) -> dict[Key, Key]:
    """Return the new paths of moved files with the same or similar content."""
    from agent_dev.overlay.renames import MAX_COMPARED_FILES, detect_renames  # rare

    gone = [one for one in gone if _is_small_file(one.before)]
    sizes = sorted(one.before.size for one in gone if one.before is not None)
    new = [one for one in ignored if _is_small_file(one.after) and _is_near(_size(one), sizes, threshold)]
    if max(len(gone), len(new)) > MAX_COMPARED_FILES:
        gone, new = _same_sizes(gone, new)
    budget = _Budget()
    old_contents, new_contents = (_contents(review, some, side, budget) for side, some in enumerate((gone, new)))
    return {one.old: one.new for one in detect_renames(old_contents, new_contents, threshold)}


def _is_near(size: int, sizes: list[int], threshold: float) -> bool:
    """Return whether files of this size can be similar to one of some sizes, which are sorted."""
    at = bisect_left(sizes, size * threshold)
    return at < len(sizes) and sizes[at] * threshold <= size


# Copies


def link_copies(review: "ReviewProtocol") -> ChangeSet:
    """Return the changes with the origin of each copied file: a file of the same content that nobody changed.

    Files that git ignores are not compared, nor are renamed ones. With a repository, origins are in git's index, so that
    `git apply` finds them.
    """
    changes = review.changes
    added = [one for one in changes.changes if one.key not in changes.renames and _can_be_copy(one)]
    if not added:
        return changes
    origins: dict[Key, Key] = {}
    for number in {one.key.root for one in added}:
        origins |= _origins(review, number, [one for one in added if one.key.root == number])
    if not origins:
        return changes
    return replace(
        changes,
        changes=tuple(replace(one, copied_from=origins[one.key]) if one.key in origins else one for one in changes.changes),
    )


def _can_be_copy(change: Change) -> bool:
    after = change.after
    is_new_file = change.kind is ChangeKind.ADDED and after is not None and after.type is FileType.FILE
    return is_new_file and _size(change) >= _MIN_LINE and change.is_clean and not (change.is_merged or change.is_ignored)


def _origins(review: "ReviewProtocol", number: int, added: list[Change]) -> dict[Key, Key]:
    table, base = review.changes.by_key(), review.lower_snapshot
    needs_index = number == 0 and any(git["root"] == number for git in review.record["git"])
    found = ((size, path) for path, size in base.files_of_sizes(number, frozenset(map(_size, added))))
    smallest = nsmallest(4 * _MAX_COPIES, found)  # more than are read, because some are changed
    unchanged = (
        one for one in smallest if Key(number, one[1]) not in table and (not needs_index or base.is_in_git(number, one[1]))
    )
    candidates = list(islice(unchanged, _MAX_COPIES))
    sizes = {size for size, _ in candidates}
    copies = nsmallest(_MAX_COPIES, (one for one in added if _size(one) in sizes), key=_size)
    limit = _largest_size([*(size for size, _ in candidates), *map(_size, copies)])
    copies = [one for one in copies if _size(one) <= limit]
    by_digest = _read_digests(review, number, (path for size, path in candidates if size <= limit)) if copies else {}
    return {one.key: origin for one in copies if (origin := _origin(review, one, by_digest)) is not None}


def _largest_size(sizes: list[int]) -> int:
    """Return the largest size for which all files up to it fit the limit in bytes."""
    total = largest = 0
    for size, count in sorted(Counter(sizes).items()):
        total += size * count
        if total > _MAX_COPIED_BYTES:
            break
        largest = size
    return largest


def _read_digests(review: "ReviewProtocol", number: int, paths: Iterable[bytes]) -> dict[bytes, list[Key]]:
    """Return the paths of files that the user did not change, by their contents' digests."""
    found: dict[bytes, list[Key]] = {}
    entries, real = review.lower_snapshot.entries(number), review.real_trees[number]
    for path in paths:
        try:
            now = real.entry_at(path)
            data = real.read(path, _MAX_COPIED_BYTES) if now is not None and now.identity == entries[path].identity else None
        except OSError:
            continue  # an unreadable file is no origin
        if data is not None:
            found.setdefault(sha256(data).digest(), []).append(Key(number, path))
    return found


def _origin(review: "ReviewProtocol", change: Change, by_digest: dict[bytes, list[Key]]) -> Key | None:
    try:
        data = review.content(change.key)[1]
    except (AgentDevError, OSError):
        return None
    if data is None or all(len(line.strip()) < _MIN_LINE for line in data.split(b"\n")):
        return None
    keys = by_digest.get(sha256(data).digest(), [])
    return next((key for key in keys if key.name == change.key.name), keys[0] if keys else None)
