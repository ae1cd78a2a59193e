"""Select the hunks of a patch among the agent's changes."""

from bisect import bisect_right
from collections.abc import Iterator

from agent_dev.diff.hunks import BareHunk, find_hunks, is_diffable, split_lines
from agent_dev.diff.partial_selection import NOTHING_SELECTED, LineSelection, select_lines
from agent_dev.diff.patch_parser import FilePatch, PatchHunk
from agent_dev.errors import AgentDevError
from agent_dev.quick_dataclass import dataclass


class PatchDoesNotApply(AgentDevError):
    """{path}: hunk {hunk} of the patch does not apply: {reason}"""  # noqa: D400  (an error's docstring is its message)


def select_hunks(patch: FilePatch, before: bytes, after: bytes) -> LineSelection:
    """Return the selection from `find_hunks(before, after)` that contains exactly the lines of this patch.

    Every `-` line must be a line that the agent deleted and every `+` line one that it added, in the same hunk. A patch hunk
    that does not match at its line number is moved to the nearest match after the previous one, as `git apply` does. A `+` line
    of a partially selected hunk may be where `apply_selection` puts it or, as in a patch edited by hand, after the kept lines. In
    both cases the line is selected, and `apply_selection` determines its position. Raises PatchDoesNotApply.
    """
    if patch.is_binary or not is_diffable(before, after):
        raise PatchDoesNotApply(path=patch.path, hunk=1, reason="the file is binary or too large; select the whole file")
    hunks = find_hunks(before, after)
    text = _Texts(split_lines(before), split_lines(after), hunks, tuple(hunk.old_start for hunk in hunks))
    old: set[int] = set()
    new: set[int] = set()
    previous = _Match()
    for number, patch_hunk in enumerate(patch.hunks, 1):
        match = _match(text, patch_hunk, previous)
        if match is None:
            raise PatchDoesNotApply(path=patch.path, hunk=number, reason=_reason(text, patch_hunk, previous))
        old.update(match.old)
        new.update(match.new)
        previous = match
    return select_lines(NOTHING_SELECTED, hunks, frozenset(old), frozenset(new))


@dataclass(frozen=True, slots=True)
class _Texts:
    old: list[bytes]
    new: list[bytes]
    found: tuple[BareHunk, ...]
    starts: tuple[int, ...]  # the hunks' old starts, sorted


@dataclass(frozen=True, slots=True)
class _Match:
    """A matched patch hunk: the selected lines, the next old line, its offset, the last hunk and the next new line."""

    old: frozenset[int] = frozenset()
    new: frozenset[int] = frozenset()
    end: int = 0
    offset: int = 0
    hunk: int = -1
    next_new: int = 0


def _positions(text: _Texts, patch_hunk: PatchHunk, previous: _Match) -> Iterator[int]:
    """Yield the positions where the old lines of a patch hunk match, the nearest to the expected one first."""
    before = patch_hunk.old_content
    last = len(text.old) - len(before)
    expected = min(max(patch_hunk.old_start + previous.offset, previous.end), last)
    for distance in range(last + 1):
        for at in (expected + distance, expected - distance)[: distance + 1]:
            if previous.end <= at <= last and _matches_at(text.old, before, at):
                yield at


def _matches_at(old: list[bytes], before: tuple[bytes, ...], at: int) -> bool:
    return all(_is_line(line, old[at + step]) for step, line in enumerate(before))


def _is_line(patch_line: bytes, line: bytes) -> bool:
    """Return whether a patch's line equals this line; a partial patch may have added a newline to the last line of a file."""
    return patch_line == line or (not line.endswith(b"\n") and patch_line in (line + b"\n", line + b"\r\n"))


def _match(text: _Texts, patch_hunk: PatchHunk, previous: _Match) -> _Match | None:
    for at in _positions(text, patch_hunk, previous):
        match = _match_at(text, patch_hunk, previous, at)
        if match:
            return match
    return None


def _match_at(text: _Texts, patch_hunk: PatchHunk, previous: _Match, at: int) -> _Match | None:
    """Select the lines of a patch hunk at `at`; None if one of them is not the agent's edit."""
    old: set[int] = set()
    added: dict[int, list[tuple[int, bytes]]] = {}
    line_number = at
    for sign, line in patch_hunk.lines:
        if sign != b" ":
            index = _hunk_at(text, line_number, is_insertion=sign == b"+")
            if index is None:
                return None
            if sign == b"+":
                added.setdefault(index, []).append((line_number - text.found[index].old_start, line))
            else:
                old.add(line_number)
        line_number += sign != b"+"
    new: list[int] = []
    last_hunk, next_new = previous.hunk, previous.next_new
    for index, inserted in added.items():
        matched = _new_lines(text, text.found[index], inserted, next_new if index == last_hunk else 0)
        if matched is None:
            return None
        new += matched
        last_hunk, next_new = index, matched[-1] + 1
    return _Match(frozenset(old), frozenset(new), line_number, at - patch_hunk.old_start, last_hunk, next_new)


def _hunk_at(text: _Texts, line: int, *, is_insertion: bool) -> int | None:
    """Return the index of the hunk that contains an old line; an insertion also matches the hunk that ends there."""
    index = bisect_right(text.starts, line) - 1
    return index if index >= 0 and line < text.found[index].old_end + is_insertion else None


def _new_lines(text: _Texts, hunk: BareHunk, inserted: list[tuple[int, bytes]], first: int) -> tuple[int, ...] | None:
    """Return the new lines of a hunk that these are, in order; the k-th after k old lines, if possible."""
    for is_strict in (True, False):
        numbers: list[int] = []
        number = max(first, hunk.new_start)
        for old_lines_before, line in inserted:
            while number < hunk.new_end and not (
                _is_line(line, text.new[number])
                and (not is_strict or old_lines_before == min(number - hunk.new_start + 1, hunk.old_lines))
            ):
                number += 1
            numbers.append(number)
            number += 1
        if numbers[-1] < hunk.new_end:
            return tuple(numbers)
    return None


def _reason(text: _Texts, patch_hunk: PatchHunk, previous: _Match) -> str:
    if next(_positions(text, patch_hunk, previous), None) is None:
        return "its context and deleted lines do not match the file"
    return "it changes lines that the agent did not change"
