"""Base, mine and the agent's: three byte strings merged line by line, or the conflicts that a person has to resolve."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent_dev.diff.hunks import Block, blocks, joined, line_end, lines
from agent_dev.errors import AgentDevError

_MARKER = 7  # git's default length of a conflict marker
_MARKS = b"<|=>"


class Unresolved(AgentDevError):
    """conflict {number} of {count} is not resolved"""  # noqa: D400  (an error's docstring is its message)


class Source(StrEnum):
    """Where the bytes of a merged region come from."""

    STABLE = "stable"
    MINE = "mine"
    AGENT = "agent"
    SAME = "same"  # both made this edit


class Side(StrEnum):
    """How a conflict is resolved, where not by bytes from an editor. BOTH is mine and then the agent's."""

    MINE = "mine"
    AGENT = "agent"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Region:
    """A run of whole lines of which nobody has to decide."""

    source: Source
    data: bytes


@dataclass(frozen=True, slots=True)
class Conflict:
    """A run of whole lines that both sides changed, each in its own way."""

    base: bytes
    mine: bytes
    agent: bytes


@dataclass(frozen=True, slots=True)
class Merged:
    """The regions in order; `line_end` is what a line without one gets when another comes to stand behind it."""

    regions: tuple[Region | Conflict, ...]
    line_end: bytes = b"\n"

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts in order."""
        return tuple(region for region in self.regions if isinstance(region, Conflict))

    @property
    def is_clean(self) -> bool:
        """Whether nobody has to decide anything."""
        return not self.conflicts

    def resolve(self, choices: Sequence[Side | bytes | None] = ()) -> bytes:
        """Return the merged bytes; the k-th choice is for the k-th conflict: a side, or literal bytes.

        A last line without an end gets one only where something comes to stand behind it; `git merge-file --union` gives
        mine one even before nothing.

        Raises Unresolved at the first conflict whose choice is missing or None, ValueError for more choices than conflicts.
        """
        count = len(self.conflicts)
        if len(choices) > count:
            raise ValueError(f"{len(choices)} choices for {count} conflicts")
        pieces: list[bytes] = []
        number = 0
        for region in self.regions:
            if isinstance(region, Region):
                pieces.append(region.data)
                continue
            choice = choices[number] if number < len(choices) else None
            number += 1
            if choice is None:
                raise Unresolved(number=number, count=count)
            pieces += _resolved(region, choice)
        return joined(pieces, self.line_end)


def _resolved(conflict: Conflict, choice: Side | bytes) -> tuple[bytes, ...]:
    if isinstance(choice, bytes):
        return (choice,)
    match choice:
        case Side.MINE:
            return (conflict.mine,)
        case Side.AGENT:
            return (conflict.agent,)
        case Side.BOTH:
            return conflict.mine, conflict.agent


def merge(base: bytes, mine: bytes, theirs: bytes) -> Merged:
    r"""Merge what two sides made of `base`; `theirs` is the agent's.

    The rule is git's (xdiff/xmerge.c): edits of two sides that overlap or touch, with no unchanged line between them,
    are one region. It is no conflict when both sides hold the same bytes there. Lines end at `\n` only; a line without
    an end differs from one with it. NUL and any encoding are fine; whether to merge binary files is `decision.decide`'s.
    Past `blocks.LARGEST` a side that changed is one region, the whole file.

    Two things differ from `git merge-file`, and neither the verdict nor the bytes of a clean merge is among them. A
    conflict is the whole region, as with git's `--diff3`: git's default cuts lines that both sides share out of a conflict,
    and then nobody knows which lines of the base belong to what is left. And git refuses what has a NUL near its start.
    (Two more are in the text of conflicts: see `Merged.resolve` for BOTH and `marked` for mixed line ends.)
    """
    texts = (base, mine, theirs)
    if mine == theirs:
        whole = Region(Source.STABLE if mine == base else Source.SAME, mine)
        return Merged((whole,) if mine else (), line_end(*texts))
    old, new = lines(base), (lines(mine), lines(theirs))
    found = (blocks(base, mine, slide=False), blocks(base, theirs, slide=False))
    regions: list[Region | Conflict] = []
    at = 0
    for start, end, sides in _groups(*found):
        if start > at:
            regions.append(Region(Source.STABLE, b"".join(old[at:start])))
        ours, agents = (b"".join(_side(old, new[k], sides[k], start, end)) for k in (0, 1))
        regions.append(_region(b"".join(old[start:end]), ours, agents))
        at = end
    if at < len(old):
        regions.append(Region(Source.STABLE, b"".join(old[at:])))
    return Merged(tuple(regions), line_end(*texts))


Group = tuple[int, int, tuple[list[Block], list[Block]]]  # old start, old end, the blocks of either side between


def _groups(mine: tuple[Block, ...], theirs: tuple[Block, ...]) -> Iterator[Group]:
    """Yield what overlaps or touches together; blocks of one side never touch each other."""
    events = sorted([(b.old_start, b.old_end, 0, b) for b in mine] + [(b.old_start, b.old_end, 1, b) for b in theirs], key=_place)
    start = end = -1
    sides: tuple[list[Block], list[Block]] = ([], [])
    for first, last, side, block in events:
        if first > end:
            if end >= 0:
                yield start, end, sides
            start, end, sides = first, last, ([], [])
        sides[side].append(block)
        end = max(end, last)
    if end >= 0:
        yield start, end, sides


def _place(event: tuple[int, int, int, Block]) -> tuple[int, int, int]:
    return event[:3]


def _side(old: list[bytes], new: list[bytes], some: list[Block], start: int, end: int) -> Iterator[bytes]:
    """Yield what one side holds between two old lines."""
    at = start
    for block in some:
        yield from old[at : block.old_start]
        yield from new[block.new_start : block.new_end]
        at = block.old_end
    yield from old[at:end]


def _region(base: bytes, mine: bytes, agent: bytes) -> Region | Conflict:
    if mine == agent:
        return Region(Source.SAME, mine)
    if mine == base:
        return Region(Source.AGENT, agent)
    if agent == base:
        return Region(Source.MINE, mine)
    return Conflict(base, mine, agent)


def marked(merged: Merged, mine: bytes, agent: bytes, base: bytes | None = None) -> bytes:
    """Return the text for an editor, git's conflict markers around each conflict; arguments are the labels.

    With a label for `base` its lines are shown between the two, as git's diff3 style does. The markers are longer than
    git's seven where the text holds a line that could be taken for one. They end in CRLF when the first lines of all
    three texts do; git asks the lines before each conflict, which differs in a text that mixes both.
    """
    if any(b"\n" in label or b"\r" in label for label in (mine, agent, base or b"")):
        raise ValueError("a label is one line")
    size, end = marker_size(merged), merged.line_end
    pieces: list[bytes] = []
    for region in merged.regions:
        if isinstance(region, Region):
            pieces.append(region.data)
            continue
        pieces += [b"<" * size + b" " + mine + end, _ended(region.mine, end)]
        if base is not None:
            pieces += [b"|" * size + b" " + base + end, _ended(region.base, end)]
        pieces += [b"=" * size + end, _ended(region.agent, end), b">" * size + b" " + agent + end]
    return b"".join(pieces)


def parse_marked(merged: Merged, edited: bytes) -> bytes | None:
    """Return what came back from the editor for `marked(merged, …)`, as it is; None while a marker is left in it."""
    return None if marker_size(merged) in _marker_sizes(edited) else edited


def marker_size(merged: Merged) -> int:
    """Return the length of a marker: seven, or the next that no line of the text could be taken for."""
    taken: set[int] = set()
    for region in merged.regions:
        parts = (region.data,) if isinstance(region, Region) else (region.base, region.mine, region.agent)
        taken.update(size for part in parts for size in _marker_sizes(part))
    size = _MARKER
    while size in taken:
        size += 1
    return size


def _marker_sizes(text: bytes) -> set[int]:
    """Return the lengths of the runs that look like markers: at the start of a line, a space or the line's end behind."""
    sizes: set[int] = set()
    for mark in (_MARKS[k : k + 1] for k in range(len(_MARKS))):
        if mark * _MARKER not in text:
            continue
        for line in lines(text):
            size = len(line) - len(line.lstrip(mark))
            if size >= _MARKER and line[size : size + 1] in (b" ", b"\r", b"\n", b""):
                sizes.add(size)
    return sizes


def _ended(text: bytes, end: bytes) -> bytes:
    return text if not text or text.endswith(b"\n") else text + end
