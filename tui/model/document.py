"""Documents: the rows of the diff pane as values."""

from collections.abc import Mapping
from enum import StrEnum

from agent_dev.diff.hunks import BareHunk
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs.entry import Key
from agent_dev.quick_dataclass import dataclass, field

TAB_WIDTH = 4  # cells between tab stops
WHOLE_FILE = 1 << 30  # context lines that cover any file


class Tone(StrEnum):
    """The role of a piece of text, styled by the style sheet."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    HEADING = "hunk"
    RISK = "risk"
    ERROR = "wrong"


class ChangePart(StrEnum):
    """A part of a change that is selected other than by lines."""

    WHOLE = "whole"  # the change itself: a creation, a deletion, a new link target
    MODE = "mode"


class RowKind(StrEnum):
    """The kind of a row of the diff."""

    TEXT = "words"
    PART = "part"
    HEADING = "hunk"
    CONTEXT = "same"
    REMOVED = "old"
    ADDED = "new"
    PAIR = "pair"  # side by side: a removed line and its replacement
    WHITESPACE = "quiet"  # a hunk that differs only in whitespace, as one row
    CONFLICT = "conflict"  # yours, result, agent
    STACKED = "stacked"  # a line of one of them, where three columns would cut it


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A row. `old_line` and `new_line` are line numbers from 0 in the two texts, `hunk` is the index of their hunk; -1 for none.

    `wrap_index`: index of the row in a wrapped line. `cells`: contents of the three columns of a conflict; a stacked row has one
    of them, and its label as text. `is_applied`: for the heading of an edit that a merge can leave out, whether it is applied.
    `is_path`: a part of the path above the diff.
    """

    kind: RowKind
    tone: Tone = Tone.PLAIN
    text: str = ""
    old_line: int = -1
    new_line: int = -1
    hunk: int = -1
    wrap_index: int = 0
    part: ChangePart | None = None
    cells: tuple[bytes | None, bytes | None, bytes | None] = (None, None, None)
    is_applied: bool | None = None
    is_path: bool = False


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """Diff options: width in columns, side by side or unified, number of context lines, and more.

    `shows_keys`: name the keys of the screen that resolve a conflict.
    """

    columns: int = 80
    is_split: bool = False
    context: int = 3
    hides_whitespace: bool = False
    is_wrapped: bool = False
    shows_base: bool = False
    shows_keys: bool = True


@dataclass(frozen=True, slots=True)
class Document:
    """The rows of a change.

    `hunk_rows` are the rows where hunks (or conflicts) start, `max_width` is an upper bound of line widths. `old_lines` and
    `new_lines` are the lines to which rows refer. `has_selectable_lines`: hunks and lines can be selected; `has_selectable_mode`:
    so can the mode, separately. `conflict_count`: the number of conflicts of lines; 0: one of whole files, -1: none.
    `default_resolutions`: one for each choice of a merge, in the order of `hunk_rows`; None for a conflict. `is_edited`:
    resolved in an editor, as a whole.
    """

    key: Key | None
    rows: tuple[DiffRow, ...] = ()
    hunk_rows: tuple[int, ...] = ()
    max_width: int = 0
    old_lines: tuple[bytes, ...] = ()
    new_lines: tuple[bytes, ...] = ()
    hunks: tuple[BareHunk, ...] = ()
    has_selectable_lines: bool = False
    has_selectable_mode: bool = False
    conflict_count: int = -1
    default_resolutions: tuple[ConflictSide | None, ...] = ()
    is_edited: bool = False
    options: DiffOptions = field(default_factory=DiffOptions)

    def is_edit(self, choice: int) -> bool:
        """Return whether a choice of a merge is an edit of the agent's that can be left out."""
        return 0 <= choice < len(self.default_resolutions) and self.default_resolutions[choice] is not None


Span = tuple[int, int, str]  # start and end in a line's text, kind of token


@dataclass(frozen=True, slots=True)
class Highlighting:
    """Syntax highlighting of both texts: spans by line number."""

    old: Mapping[int, tuple[Span, ...]]
    new: Mapping[int, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class PageLine:
    """A line of a page: text in a tone."""

    tone: Tone
    text: str
