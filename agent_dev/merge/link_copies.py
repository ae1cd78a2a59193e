"""Find new files that are copies of unchanged files, by size and digest: the list and patches say so."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from agent_dev.errors import AgentDevError
from agent_dev.fs.entry import FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet

if TYPE_CHECKING:
    from agent_dev.merge.review_protocol import ReviewProtocol

_MAX_FILES = 500  # that are read on either side, the smallest first
_MAX_BYTES = 16 << 20  # in all
_MIN_LINE = 16  # bytes; a file with only shorter lines is boilerplate


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


def _size(change: Change) -> int:
    return change.after.size if change.after is not None else 0


def _origins(review: "ReviewProtocol", number: int, added: list[Change]) -> dict[Key, Key]:
    table, base = review.changes.by_key(), review.lower_snapshot
    needs_index = bool(review.record["git"]) and number == 0
    found = ((size, path) for path, size in base.files_of_sizes(number, frozenset(map(_size, added))))
    unchanged = (
        one for one in sorted(found) if Key(number, one[1]) not in table and (not needs_index or base.is_in_git(number, one[1]))
    )
    candidates = list(islice(unchanged, _MAX_FILES))
    sizes = {size for size, _ in candidates}
    copies = sorted((one for one in added if _size(one) in sizes), key=lambda one: (_size(one), one.key))[:_MAX_FILES]
    limit = _largest_size([*(size for size, _ in candidates), *map(_size, copies)])
    copies = [one for one in copies if _size(one) <= limit]
    by_digest = _read_digests(review, number, (path for size, path in candidates if size <= limit)) if copies else {}
    return {one.key: origin for one in copies if (origin := _origin(review, one, by_digest)) is not None}


def _largest_size(sizes: list[int]) -> int:
    """Return the largest size for which all files up to it fit the limit in bytes."""
    total = largest = 0
    for size, count in sorted(Counter(sizes).items()):
        total += size * count
        if total > _MAX_BYTES:
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
            data = real.read(path, _MAX_BYTES) if now is not None and now.identity == entries[path].identity else None
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
