"""Check whether a text contains an edit, line by line."""

from collections import Counter

from agent_dev.diff.binary import is_binary
from agent_dev.diff.hunks import find_hunks, split_lines


def contains(before: bytes, edited: bytes, text: bytes) -> bool:
    """Return whether `text` contains the edit from `before` to `edited`: all inserted lines, and none of the deleted ones.

    Binary data must be equal. Every text contains an edit that changes nothing.
    """
    if edited in (before, text):
        return True
    if any(map(is_binary, (before, edited, text))):
        return False
    inserted, deleted = _count_lines(before, edited)
    text_inserted, text_deleted = _count_lines(before, text)
    return not (inserted - text_inserted) and not (deleted - text_deleted)


def _count_lines(before: bytes, after: bytes) -> tuple[Counter[bytes], Counter[bytes]]:
    """Return the inserted and the deleted lines; a missing newline at the end of the file makes no difference."""
    inserted: Counter[bytes] = Counter()
    deleted: Counter[bytes] = Counter()
    old, new = split_lines(before), split_lines(after)
    for hunk in find_hunks(before, after):
        deleted.update(line.rstrip(b"\r\n") for line in old[hunk.old_start : hunk.old_end])
        inserted.update(line.rstrip(b"\r\n") for line in new[hunk.new_start : hunk.new_end])
    return inserted - deleted, deleted - inserted
