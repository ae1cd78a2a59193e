"""Files that an agent moved unchanged: the deletion of the old path is only applied together with the new path."""

from dataclasses import replace
from typing import TYPE_CHECKING

from agent_dev.errors import AgentDevError
from agent_dev.fs.entry import FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.risk import load as risk_load
from agent_dev.risk import risk_rules

if TYPE_CHECKING:
    from agent_dev.merge.review_protocol import ReviewProtocol

_MAX_FILES = 2_000  # files to compare
_MAX_BYTES = 64 << 20
_MAX_FILE_SIZE = 4 << 20


def link_moves(review: "ReviewProtocol") -> tuple[Change, ...]:
    """Return the changes: a deletion requires the addition with the same bytes and mode, if no risk rule matches the new name."""
    changes = review.changes.changes
    deleted, added = (_files(changes, kind) for kind in (ChangeKind.DELETED, ChangeKind.ADDED))
    sizes = deleted.keys() & added.keys()
    if not sizes:
        return changes
    rules = risk_load.load_risk_rules(review.environ)
    pairs: dict[Key, Key] = {}
    bytes_left, files_left = _MAX_BYTES, _MAX_FILES
    for size in sorted(sizes):
        new = [one for one in added[size] if not risk_rules.find_risks(one, rules)]
        bytes_left -= size * (len(deleted[size]) + len(new))
        files_left -= len(deleted[size]) + len(new)
        if bytes_left < 0 or files_left < 0:
            break
        pairs |= _paired(review, deleted[size], new)
    return tuple(replace(one, requires=(*one.requires, pairs[one.key])) if one.key in pairs else one for one in changes)


def _files(changes: tuple[Change, ...], kind: ChangeKind) -> dict[int, list[Change]]:
    found: dict[int, list[Change]] = {}
    for one in changes:
        entry = one.before if kind is ChangeKind.DELETED else one.after
        is_file = one.kind is kind and entry is not None and entry.type is FileType.FILE and 0 < entry.size <= _MAX_FILE_SIZE
        if is_file and entry is not None and one.is_clean and not one.is_ignored:
            found.setdefault(entry.size, []).append(one)
    return found


def _paired(review: "ReviewProtocol", deleted: list[Change], added: list[Change]) -> dict[Key, Key]:
    by_content: dict[tuple[bytes, bool], list[Key]] = {}
    for one in added:
        data = _content(review, one, 1)
        if data is not None and one.after is not None:
            by_content.setdefault((data, bool(one.after.mode & 0o100)), []).append(one.key)
    pairs = {}
    for one in deleted if by_content else ():
        data = _content(review, one, 0)
        keys = by_content.get((data, bool(one.before.mode & 0o100)), []) if data is not None and one.before is not None else []
        if keys:
            pairs[one.key] = next((key for key in keys if key.root == one.key.root and key.name == one.key.name), keys[0])
            keys.remove(pairs[one.key])
    return pairs


def _content(review: "ReviewProtocol", change: Change, side: int) -> bytes | None:
    try:
        return review.content(change.key)[side]
    except (AgentDevError, OSError):
        return None  # unreadable files are not moves
