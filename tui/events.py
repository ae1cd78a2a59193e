"""What can happen on the merge screen, and what the screen then wants done."""

from dataclasses import dataclass
from enum import StrEnum

from agent_dev.core.changes import Key
from agent_dev.core.selection import Selection


class Pane(StrEnum):
    """The half of the screen that keys go to."""

    LIST = "list"
    DIFF = "diff"


@dataclass(frozen=True, slots=True)
class Moved:
    """The cursor of the pane goes down by some rows, or up."""

    by: int


@dataclass(frozen=True, slots=True)
class MovedTo:
    """A cursor goes to a row; -1 is the last. A pane that is named (by a click) gets the keys."""

    row: int
    pane: Pane | None = None


@dataclass(frozen=True, slots=True)
class ChangeMoved:
    """The next change, or the previous one, whatever pane has the keys."""

    by: int


@dataclass(frozen=True, slots=True)
class BlockMoved:
    """The next block of the diff, or the previous one."""

    by: int


@dataclass(frozen=True, slots=True)
class Shifted:
    """Long lines of the diff are shown from some cells further right, or left."""

    by: int


Movement = Moved | MovedTo | ChangeMoved | BlockMoved | Shifted


@dataclass(frozen=True, slots=True)
class Entered:
    """Into what is under the cursor: a change's diff; a heading opens or closes."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One step in: a closed heading opens, an open one leads to its first change, a change to its diff."""


@dataclass(frozen=True, slots=True)
class Backed:
    """One step out: from the diff to the list, from a change to its heading, an open heading closes."""


@dataclass(frozen=True, slots=True)
class Escaped:
    """Out of the diff; out of the list it is the wish to leave."""


@dataclass(frozen=True, slots=True)
class PaneSwapped:
    """The other half of the screen."""


Walk = Entered | Opened | Backed | Escaped | PaneSwapped


@dataclass(frozen=True, slots=True)
class Toggled:
    """Take or leave what is under the list's cursor, or at a row."""

    row: int | None = None


@dataclass(frozen=True, slots=True)
class AllToggled:
    """Take all that is safe; when it is all taken, nothing."""


Choice = Toggled | AllToggled


@dataclass(frozen=True, slots=True)
class ApplyAsked:
    """The user wants to merge what is chosen: show what that means first."""


@dataclass(frozen=True, slots=True)
class LeaveAsked:
    """The user wants to leave without merging."""


@dataclass(frozen=True, slots=True)
class HelpAsked:
    """The user wants to know the keys."""


@dataclass(frozen=True, slots=True)
class AnswerMoved:
    """The other answer gets the focus."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Yes or no; None is the answer in focus."""

    is_yes: bool | None = None


Question = ApplyAsked | LeaveAsked | HelpAsked | AnswerMoved | Answered


@dataclass(frozen=True, slots=True)
class Resized:
    """The terminal has this many columns now."""

    columns: int


@dataclass(frozen=True, slots=True)
class DiffShown:
    """The diff of a change is ready: how many rows, the rows where its blocks start, its longest line in cells."""

    key: Key
    length: int
    starts: tuple[int, ...] = ()
    longest: int = 0


Fact = Resized | DiffShown

Event = Movement | Walk | Choice | Question | Fact


@dataclass(frozen=True, slots=True)
class Load:
    """Read both sides of a change, off the main path, and say DiffShown."""

    key: Key


@dataclass(frozen=True, slots=True)
class Finish:
    """Leave the screen. None: without merging."""

    selection: Selection | None


Effect = Load | Finish
