"""Find the lines that two texts share at their beginning and at their end, by comparing bytes instead of lines."""

from collections.abc import Callable


def equal_ends(old: bytes, new: bytes) -> tuple[int, int]:
    """Return how many bytes of whole lines two texts share at the beginning, and after these at the end.

    The part between is smaller than the texts in nearly every edit. Only newlines end a line.
    """
    shorter = min(len(old), len(new))
    same = _longest(shorter, lambda first, last: old[first:last] == new[first:last])
    start = new.rfind(b"\n", 0, same) + 1
    olds, news = len(old), len(new)
    end = _longest(shorter - start, lambda first, last: old[olds - last : olds - first] == new[news - last : news - first])
    if not (_is_line_start(old, olds - end) and _is_line_start(new, news - end)):
        end = news - (new.find(b"\n", news - end) + 1 or news)
    return start, end


def _longest(limit: int, is_same: Callable[[int, int], bool]) -> int:
    """Return the largest count up to a limit for which all parts are the same, by bisection; each byte is compared about once."""
    known, most = 0, limit
    while known < most:
        middle = (known + most + 1) // 2
        if is_same(known, middle):
            known = middle
        else:
            most = middle - 1
    return known


def _is_line_start(text: bytes, at: int) -> bool:
    return at == 0 or text[at - 1 : at] == b"\n"
