"""Link the deletion and the addition of each renamed file, so that they are reviewed and merged together."""

from dataclasses import replace
from typing import TYPE_CHECKING

from agent_dev.errors import AgentDevError
from agent_dev.fs.entry import FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet

if TYPE_CHECKING:
    from agent_dev.merge.review_protocol import ReviewProtocol

_MAX_FILES = 4_000  # deleted or added files; of more, only as many of the smallest with equal sizes are compared
_MAX_BYTES = 64 << 20  # in all
_MAX_FILE_SIZE = 4 << 20
_MAX_SIMILAR_SIZE = 1 << 20  # a larger file is only paired with an identical one


def link_renames(review: "ReviewProtocol", percent: int) -> ChangeSet:
    """Return the changes with their renames; the halves of each require each other.

    `percent`: the least similarity; 100 finds only identical files, 0 none. Halves in conflict, which are resolved one by one,
    and files that git ignores are never paired.
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
    renames: dict[Key, Key] = {}
    for number in {change.key.root for change in deleted}:
        own = [{key: data for key, data in some.items() if key.root == number} for some in contents]
        renames |= {one.new: one.old for one in detect_renames(own[0], own[1], percent / 100)}
    partners = {**renames, **{old: new for new, old in renames.items()}}
    linked = tuple(
        replace(one, requires=(*one.requires, partners[one.key])) if one.key in partners else one for one in changes.changes
    )
    return replace(changes, changes=linked, renames=renames)


def _can_be_renamed(change: Change) -> bool:
    entry = change.before if change.after is None else change.after
    return (
        entry is not None
        and entry.type is FileType.FILE
        and 0 < entry.size <= _MAX_FILE_SIZE
        and change.is_clean
        and not (change.is_merged or change.is_ignored)
    )


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
