"""What can happen on the merge screen."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agent_dev.diff.merge3 import Side
from agent_dev.overlay.changes import Change, ChangeSet, Key
from tui.model.document import Colours, Document
from tui.model.tabs import Entry, Tab
from tui.model.totals import Count


class Pane(StrEnum):
    """The half of the screen that keys go to."""

    LIST = "list"
    DIFF = "diff"


class Asking(StrEnum):
    """What a line that is typed is for."""

    FILTER = "filter"
    SEARCH = "search"
    PALETTE = "palette"
    BRANCH = "branch"


NO, YES = 0, 1  # answers to a question; there may be more than one way to say yes


@dataclass(frozen=True, slots=True)
class Moved:
    """The cursor of the pane goes down by some rows, or up. `is_range`: what lies between is marked."""

    by: int
    is_range: bool = False


@dataclass(frozen=True, slots=True)
class MovedTo:
    """A cursor goes to a row; -1 is the last. A pane that is named (by a click) gets the keys."""

    row: int
    pane: Pane | None = None


@dataclass(frozen=True, slots=True)
class ChangeMoved:
    """The next change, or the previous one, whatever pane has the keys; with a search the next match."""

    by: int


@dataclass(frozen=True, slots=True)
class RiskMoved:
    """The next risky change or conflict, or the previous one."""

    by: int


@dataclass(frozen=True, slots=True)
class BlockMoved:
    """The next block of the diff, or the previous one."""

    by: int


@dataclass(frozen=True, slots=True)
class Shifted:
    """Long lines of the diff are shown from some cells further right, or left."""

    by: int


Movement = Moved | MovedTo | ChangeMoved | RiskMoved | BlockMoved | Shifted


@dataclass(frozen=True, slots=True)
class Entered:
    """Into what is under the cursor: a change's diff; a heading opens or closes; in the diff choose and go on."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One step in: a closed heading opens, an open one leads to its first change, a change to its diff."""


@dataclass(frozen=True, slots=True)
class Backed:
    """One step out: from the diff to the list, from a change to its heading, an open heading closes."""


@dataclass(frozen=True, slots=True)
class Escaped:
    """Out of a range, a search, a filter, the diff; out of the list it is the wish to leave."""


@dataclass(frozen=True, slots=True)
class PaneSwapped:
    """The other half of the screen."""


@dataclass(frozen=True, slots=True)
class TabTurned:
    """Another tab."""

    tab: Tab


Walk = Entered | Opened | Backed | Escaped | PaneSwapped | TabTurned


@dataclass(frozen=True, slots=True)
class Toggled:
    """Take or leave what is under the cursor of the pane, or at a row of one."""

    row: int | None = None
    pane: Pane | None = None


@dataclass(frozen=True, slots=True)
class AllToggled:
    """Take all that is safe; when it is all taken, nothing."""


@dataclass(frozen=True, slots=True)
class NothingChosen:
    """Take nothing at all."""


@dataclass(frozen=True, slots=True)
class KindToggled:
    """Take or leave all changes of the kind under the cursor."""


@dataclass(frozen=True, slots=True)
class Undone:
    """The last choice is taken back."""


@dataclass(frozen=True, slots=True)
class Redone:
    """The choice that was taken back last is made again."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The change, or all below the heading, was looked at; or not yet after all."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The conflict under the cursor is settled one way."""

    how: Side


@dataclass(frozen=True, slots=True)
class EditAsked:
    """The conflict is to be settled in an editor."""


Choice = Toggled | AllToggled | NothingChosen | KindToggled | Undone | Redone | Reviewed | Settled | EditAsked


class Switch(StrEnum):
    """What can be shown one way or another."""

    SPLIT = "split"
    SPACE = "space"
    WRAP = "wrap"
    NUMBERS = "numbers"
    WHOLE = "whole"
    TREE = "tree"
    UNREVIEWED = "unreviewed"
    LINES = "lines"
    RANGE = "range"
    BASE = "base"


@dataclass(frozen=True, slots=True)
class Switched:
    """One of the ways to show things is the other one now."""

    what: Switch


@dataclass(frozen=True, slots=True)
class ContextChanged:
    """More unchanged lines around each block, or fewer."""

    by: int


View = Switched | ContextChanged


@dataclass(frozen=True, slots=True)
class LineAsked:
    """A line is to be typed: what to filter, to search, to do."""

    what: Asking


@dataclass(frozen=True, slots=True)
class Typed:
    """The line that is typed reads so now."""

    text: str


@dataclass(frozen=True, slots=True)
class TypedOut:
    """The line is complete (`is_meant`), or given up. `at`: which of the palette's rows is meant."""

    is_meant: bool


Typing = LineAsked | Typed | TypedOut


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
    """Another answer gets the focus."""

    by: int = 1


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer by its number, NO or a YES; None is the one in focus."""

    answer: int | None = None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Back to the review, whatever was asked."""


Question = ApplyAsked | LeaveAsked | HelpAsked | AnswerMoved | Answered | GivenUp


@dataclass(frozen=True, slots=True)
class Resized:
    """The terminal has this many columns now."""

    columns: int


@dataclass(frozen=True, slots=True)
class DiffShown:
    """The diff of a change is ready."""

    document: Document


@dataclass(frozen=True, slots=True)
class Coloured:
    """The syntax of a change's lines is known."""

    key: Key
    colours: Colours


@dataclass(frozen=True, slots=True)
class Counted:
    """Lines and blocks of some changes were counted."""

    counts: Mapping[Key, Count]


@dataclass(frozen=True, slots=True)
class Changed:
    """A conflict was settled, or is open again: the change as it is now. `word` says what came of it.

    `is_edited`: all of it in an editor, so that no answer to a single place holds any more.
    """

    change: Change
    word: str = ""
    is_taken: bool = False
    is_edited: bool = False


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The agent, still working, has changed more."""

    changes: ChangeSet


@dataclass(frozen=True, slots=True)
class Sought:
    """A search came to its end: the change and the line of it that match, or no change."""

    key: Key | None
    line: int = 0


@dataclass(frozen=True, slots=True)
class Progressed:
    """So many of so many steps of the merge are done."""

    done: int
    whole: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The merge is over: what to say of it, and the exit code. `is_done`: something may have been changed.

    `conflicts`: in so many files commits are in the way of each other, and that can be settled.
    """

    lines: tuple[str, ...]
    code: int
    is_done: bool = True
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class EntriesRead:
    """The entries of a tab are known in full."""

    tab: Tab
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """Something to tell."""

    word: str


Fact = Resized | DiffShown | Coloured | Counted | Changed | Refreshed | Sought | Progressed | Finished | EntriesRead | Said

Event = Movement | Walk | Choice | View | Typing | Question | Fact
