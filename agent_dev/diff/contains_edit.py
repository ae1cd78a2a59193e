"""Edits as lines: whether a text holds what somebody had edited."""

from collections import Counter

from agent_dev.diff.hunks import blocks, is_binary, lines


def holds(before: bytes, edited: bytes, text: bytes) -> bool:
    """Whether `text` holds the edit that made `edited` of `before`: every line that came, and none that went.

    Of what is no text all must be the same. An edit that changes nothing is held by everything.
    """
    if edited in (before, text):
        return True
    if any(map(is_binary, (before, edited, text))):
        return False
    came, went = _moved(before, edited)
    has_come, has_gone = _moved(before, text)
    return not (came - has_come) and not (went - has_gone)


def _moved(before: bytes, after: bytes) -> tuple[Counter[bytes], Counter[bytes]]:
    """Return the lines that came and those that went; an end of the file without a newline is no other line."""
    came: Counter[bytes] = Counter()
    went: Counter[bytes] = Counter()
    old, new = lines(before), lines(after)
    for block in blocks(before, after):
        went.update(line.rstrip(b"\r\n") for line in old[block.old_start : block.old_end])
        came.update(line.rstrip(b"\r\n") for line in new[block.new_start : block.new_end])
    return came - went, went - came
