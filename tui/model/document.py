"""A change as the rows of the diff pane, as values: words of ours, parts to choose, lines of either side."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent_dev.diff.hunks import Block
from agent_dev.overlay.changes import Key

TAB = 4  # cells between tab stops
EVERYTHING = 1 << 30  # lines of context: the whole file


class Tone(StrEnum):
    """How a piece of text is meant; the style sheet says how it looks."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    HUNK = "hunk"
    RISK = "risk"
    WRONG = "wrong"


class Part(StrEnum):
    """What of a change can be chosen beside its lines."""

    WHOLE = "whole"  # that it is there at all, or not any more, or another link: the change itself
    MODE = "mode"


class RowKind(StrEnum):
    """What a row of the diff is."""

    WORDS = "words"
    PART = "part"
    HUNK = "hunk"
    SAME = "same"
    OLD = "old"
    NEW = "new"
    PAIR = "pair"  # side by side: a line that goes and the one that takes its place
    QUIET = "quiet"  # a block that differs in white space only, in one row
    CONFLICT = "conflict"  # mine, result, the agent's


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `old` and `new` are lines of the two texts from 0, `block` the block they belong to; -1 for none.

    `turn`: the how-manieth row of a long line that is wrapped. `cells`: what the three columns of a conflict hold.
    """

    kind: RowKind
    tone: Tone = Tone.PLAIN
    text: str = ""
    old: int = -1
    new: int = -1
    block: int = -1
    turn: int = 0
    part: Part | None = None
    cells: tuple[bytes | None, bytes | None, bytes | None] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Look:
    """How a change is to be shown: in how many columns, beside or below each other, with how many lines around a block."""

    columns: int = 80
    is_split: bool = False
    context: int = 3
    is_spaceless: bool = False
    is_wrapped: bool = False
    has_base: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """All rows of one change. `starts` are the rows where blocks (or conflicts) start, `longest` bounds the width of its lines.

    `old` and `new` are the lines that rows name by number. `has_lines`: blocks and lines can be chosen; `has_mode`: the mode
    by itself too. `conflicts`: how many there are to settle, -1 where the change is no conflict.
    """

    key: Key | None
    rows: tuple[Row, ...] = ()
    starts: tuple[int, ...] = ()
    longest: int = 0
    old: tuple[bytes, ...] = ()
    new: tuple[bytes, ...] = ()
    blocks: tuple[Block, ...] = ()
    has_lines: bool = False
    has_mode: bool = False
    conflicts: int = -1
    look: Look = field(default_factory=Look)


Span = tuple[int, int, str]  # of a line as text: from, to, the kind of word


@dataclass(frozen=True, slots=True)
class Colours:
    """The syntax of both texts: for each line number its spans."""

    old: Mapping[int, tuple[Span, ...]]
    new: Mapping[int, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page: words in a tone."""

    tone: Tone
    text: str
