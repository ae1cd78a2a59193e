"""Three-way merge, line by line, of the base's, your and the agent's bytes; conflicts are left to the user."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from agent_dev.diff.hunks import BareHunk, detect_line_end, find_hunks, join_lines, split_lines
from agent_dev.errors import AgentDevError
from agent_dev.quick_dataclass import dataclass

_MARKER_SIZE = 7  # git's default length of a conflict marker
_MARKER_CHARS = b"<|=>"


class UnresolvedConflict(AgentDevError):
    """conflict {number} of {count} is not resolved"""  # noqa: D400  (an error's docstring is its message)


class RegionSource(StrEnum):
    """The origin of a merged region."""

    UNCHANGED = "stable"
    YOURS = "yours"
    AGENT = "agent"
    SAME = "same"  # both sides made this edit


class ConflictSide(StrEnum):
    """A conflict's resolution by sides. BOTH: yours, then the agent's. YOURS leaves out an edit that only the agent made."""

    YOURS = "yours"
    AGENT = "agent"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class MergedRegion:
    """A run of whole lines without conflict: `data` is the merged content, `base` the base version."""

    source: RegionSource
    data: bytes
    base: bytes

    @property
    def yours(self) -> bytes:
        """Your version of the region."""
        return self.base if self.source is RegionSource.AGENT else self.data

    @property
    def agent(self) -> bytes:
        """The agent's version of the region."""
        return self.base if self.source is RegionSource.YOURS else self.data

    @property
    def is_choice(self) -> bool:
        """Return whether only the agent made this edit, so that it can be left out."""
        return self.source is RegionSource.AGENT


@dataclass(frozen=True, slots=True)
class LineConflict:
    """A run of whole lines that both sides changed in different ways."""

    base: bytes
    yours: bytes
    agent: bytes

    @property
    def is_choice(self) -> bool:
        """Return True: every conflict is a choice."""
        return True


Resolutions = Sequence[ConflictSide | bytes | None]


@dataclass(frozen=True, slots=True)
class LineMerge:
    """The regions in order; `detect_line_end` completes a last line when another line follows it.

    Its choices are the conflicts and the edits that only the agent made. Resolutions cover the choices in order: a conflict is
    resolved to a side or to bytes, None if it is not resolved; an edit is applied, or left out with YOURS.
    """

    regions: tuple[MergedRegion | LineConflict, ...]
    line_end: bytes = b"\n"

    @property
    def conflicts(self) -> tuple[LineConflict, ...]:
        """The conflicts in order."""
        return tuple(region for region in self.regions if isinstance(region, LineConflict))

    @property
    def is_clean(self) -> bool:
        """Return whether there is no conflict."""
        return not self.conflicts

    @property
    def choices(self) -> tuple[MergedRegion | LineConflict, ...]:
        """The regions with a choice, in order: conflicts, and edits that only the agent made."""
        return tuple(region for region in self.regions if region.is_choice)

    def default_resolutions(self, side: ConflictSide | None = None) -> tuple[ConflictSide | None, ...]:
        """Return the resolutions with `side` for every conflict (None: unresolved), and every edit of the agent's applied."""
        return tuple(side if isinstance(region, LineConflict) else ConflictSide.AGENT for region in self.choices)

    def left_out(self, resolutions: Resolutions) -> int:
        """Return how many of the agent's edits are left out."""
        return sum(_is_left_out(region, resolution) for region, resolution in self._resolved(resolutions))

    def resolve(self, resolutions: Resolutions = ()) -> bytes:
        """Return the merged bytes; the k-th resolution is for the k-th choice, and missing ones are the default.

        A last line without an end gets one only if another line follows; `git merge-file --union` gives yours one in any case.

        Raises UnresolvedConflict at the first conflict without resolution, ValueError for more resolutions than choices.
        """
        parts: list[bytes] = []
        number = 0
        for region, resolution in self._resolved(resolutions):
            if isinstance(region, MergedRegion):
                parts.append(region.base if _is_left_out(region, resolution) else region.data)
                continue
            number += 1
            if resolution is None:
                raise UnresolvedConflict(number=number, count=len(self.conflicts))
            parts += _resolve(region, resolution)
        return join_lines(parts, self.line_end)

    def without_left_out(self, resolutions: Resolutions) -> bytes:
        """Return the agent's version without the edits that are left out: it lacks only what remains to be merged."""
        pairs = self._resolved(resolutions)
        return join_lines([one.base if _is_left_out(one, resolution) else one.agent for one, resolution in pairs], self.line_end)

    def _resolved(self, resolutions: Resolutions) -> Iterator[tuple[MergedRegion | LineConflict, ConflictSide | bytes | None]]:
        """Yield every region with its resolution, None if it has none."""
        count = len(self.choices)
        if len(resolutions) > count:
            raise ValueError(f"{len(resolutions)} resolutions for {count} choices")
        given = iter(resolutions)
        yield from ((region, next(given, None) if region.is_choice else None) for region in self.regions)


def _is_left_out(region: MergedRegion | LineConflict, resolution: ConflictSide | bytes | None) -> bool:
    return isinstance(region, MergedRegion) and region.is_choice and resolution is ConflictSide.YOURS


def _resolve(conflict: LineConflict, resolution: ConflictSide | bytes) -> tuple[bytes, ...]:
    if isinstance(resolution, bytes):
        return (resolution,)
    match resolution:
        case ConflictSide.YOURS:
            return (conflict.yours,)
        case ConflictSide.AGENT:
            return (conflict.agent,)
        case ConflictSide.BOTH:
            return conflict.yours, conflict.agent


def merge_lines(base: bytes, yours: bytes, agent: bytes) -> LineMerge:
    r"""Merge `yours` and `agent`, two versions of `base`.

    The rule is git's (xdiff/xmerge.c): edits of both sides that overlap or touch, with no unchanged line between them, are one
    region. It is no conflict if both sides have the same bytes there. Lines end at `\n` only; a line without an end differs from
    one with it. NUL and any encoding are fine; whether to merge binary files is `decision.decide`'s.
    A changed side that is not diffable is one region, the whole file.

    There are two differences from `git merge-file`, which change neither whether there are conflicts nor a clean merge's bytes.
    A conflict is the whole region, as with git's `--diff3`: by default git cuts lines common to both sides out of a conflict, and
    then it is unknown which lines of the base belong to the rest. And git refuses files with a NUL near the start.
    (Two more concern the text of conflicts: see `LineMerge.resolve` for BOTH and `format_with_markers` for mixed line ends.)
    """
    texts = (base, yours, agent)
    if yours == agent:
        whole = MergedRegion(RegionSource.UNCHANGED if yours == base else RegionSource.SAME, yours, base)
        return LineMerge((whole,) if yours or base else (), detect_line_end(*texts))
    old, new = split_lines(base), (split_lines(yours), split_lines(agent))
    found = (find_hunks(base, yours, slide=False), find_hunks(base, agent, slide=False))
    regions: list[MergedRegion | LineConflict] = []
    position = 0
    for start, end, sides in _group_hunks(*found):
        if start > position:
            regions.append(_stable(old[position:start]))
        your_lines, agent_lines = (b"".join(_side_lines(old, new[k], sides[k], start, end)) for k in (0, 1))
        regions.append(_region(b"".join(old[start:end]), your_lines, agent_lines))
        position = end
    if position < len(old):
        regions.append(_stable(old[position:]))
    return LineMerge(tuple(regions), detect_line_end(*texts))


HunkGroup = tuple[int, int, tuple[list[BareHunk], list[BareHunk]]]  # old start, old end, each side's hunks between them


def _group_hunks(yours: tuple[BareHunk, ...], agent: tuple[BareHunk, ...]) -> Iterator[HunkGroup]:
    """Yield hunks that overlap or touch as one group; hunks of one side never touch each other."""
    tagged = [(hunk.old_start, hunk.old_end, 0, hunk) for hunk in yours]
    tagged += [(hunk.old_start, hunk.old_end, 1, hunk) for hunk in agent]
    events = sorted(tagged, key=_event_key)
    start = end = -1
    sides: tuple[list[BareHunk], list[BareHunk]] = ([], [])
    for first, last, side, hunk in events:
        if first > end:
            if end >= 0:
                yield start, end, sides
            start, end, sides = first, last, ([], [])
        sides[side].append(hunk)
        end = max(end, last)
    if end >= 0:
        yield start, end, sides


def _event_key(event: tuple[int, int, int, BareHunk]) -> tuple[int, int, int]:
    return event[:3]


def _side_lines(old: list[bytes], new: list[bytes], hunks: list[BareHunk], start: int, end: int) -> Iterator[bytes]:
    """Yield one side's lines between two old lines."""
    position = start
    for hunk in hunks:
        yield from old[position : hunk.old_start]
        yield from new[hunk.new_start : hunk.new_end]
        position = hunk.old_end
    yield from old[position:end]


def _stable(lines_: list[bytes]) -> MergedRegion:
    data = b"".join(lines_)
    return MergedRegion(RegionSource.UNCHANGED, data, data)


def _region(base: bytes, yours: bytes, agent: bytes) -> MergedRegion | LineConflict:
    if yours == agent:
        return MergedRegion(RegionSource.SAME, yours, base)
    if yours == base:
        return MergedRegion(RegionSource.AGENT, agent, base)
    if agent == base:
        return MergedRegion(RegionSource.YOURS, yours, base)
    return LineConflict(base, yours, agent)


def format_with_markers(merged: LineMerge, yours: bytes, agent: bytes, base: bytes | None = None) -> bytes:
    """Return the text for an editor, with git's conflict markers; the other arguments are the labels.

    With a label for `base` its lines are shown, too, in git's diff3 style. Markers are longer than git's seven characters if a
    line of the text looks like one. They end in CRLF if the first lines of all three texts do; git looks at the lines before each
    conflict, which makes a difference for mixed line ends.
    """
    if any(b"\n" in label or b"\r" in label for label in (yours, agent, base or b"")):
        raise ValueError("a label must be one line")
    size, end = choose_marker_size(merged), merged.line_end
    parts: list[bytes] = []
    for region in merged.regions:
        if isinstance(region, MergedRegion):
            parts.append(region.data)
            continue
        parts += [b"<" * size + b" " + yours + end, _with_line_end(region.yours, end)]
        if base is not None:
            parts += [b"|" * size + b" " + base + end, _with_line_end(region.base, end)]
        parts += [b"=" * size + end, _with_line_end(region.agent, end), b">" * size + b" " + agent + end]
    return b"".join(parts)


def parse_edited(merged: LineMerge, edited: bytes) -> bytes | None:
    """Return the edited text of `format_with_markers(merged, …)`; None if it still contains a marker."""
    return None if choose_marker_size(merged) in _marker_sizes(edited) else edited


def choose_marker_size(merged: LineMerge) -> int:
    """Return the length of a marker: seven, or more if a line of the text looks like a marker."""
    used: set[int] = set()
    for region in merged.regions:
        parts = (region.data,) if isinstance(region, MergedRegion) else (region.base, region.yours, region.agent)
        used.update(size for part in parts for size in _marker_sizes(part))
    size = _MARKER_SIZE
    while size in used:
        size += 1
    return size


def _marker_sizes(text: bytes) -> set[int]:
    """Return the lengths of runs that look like markers: at the start of a line, before a space or the line end."""
    sizes: set[int] = set()
    for mark in (_MARKER_CHARS[k : k + 1] for k in range(len(_MARKER_CHARS))):
        if mark * _MARKER_SIZE not in text:
            continue
        for line in split_lines(text):
            size = len(line) - len(line.lstrip(mark))
            if size >= _MARKER_SIZE and line[size : size + 1] in (b" ", b"\r", b"\n", b""):
                sizes.add(size)
    return sizes


def _with_line_end(text: bytes, end: bytes) -> bytes:
    return text if not text or text.endswith(b"\n") else text + end
