"""Events of the review screen."""

from collections.abc import Mapping
from enum import StrEnum

from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeSet, Risk
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import dataclass
from tui.model.document import Document, Highlighting
from tui.model.tabs import Tab, TabEntry
from tui.model.totals import LineCount
from tui.source import OperationResult


class Pane(StrEnum):
    """A half of the screen; one of them has the focus."""

    LIST = "list"
    DIFF = "diff"


class PromptKind(StrEnum):
    """The purpose of a text prompt."""

    FILTER = "filter"
    SEARCH = "search"
    PALETTE = "palette"
    BRANCH = "branch"
    NOTE = "note"


NO, YES = 0, 1  # answers to a question; some questions have more than one affirmative answer
ONE_BY_ONE = 2  # the third answer about several risky changes


@dataclass(frozen=True, slots=True)
class CursorMoved:
    """The cursor of the focused pane moves by some rows, down or up. `extends_range`: mark the rows between."""

    by: int
    extends_range: bool = False


@dataclass(frozen=True, slots=True)
class CursorMovedTo:
    """A cursor moves to a row, -1 for the last. `pane`: the pane to focus, after a click."""

    row: int
    pane: Pane | None = None


@dataclass(frozen=True, slots=True)
class ChangeMoved:
    """Move to the next or previous change, or search match; works in both panes."""

    by: int


@dataclass(frozen=True, slots=True)
class RiskMoved:
    """Move to the next or previous risky change or conflict."""

    by: int


@dataclass(frozen=True, slots=True)
class HunkMoved:
    """Move to the next or previous hunk of the diff."""

    by: int


@dataclass(frozen=True, slots=True)
class ScrolledHorizontally:
    """Scroll the diff horizontally by some cells."""

    by: int


Movement = CursorMoved | CursorMovedTo | ChangeMoved | RiskMoved | HunkMoved | ScrolledHorizontally


@dataclass(frozen=True, slots=True)
class EnterPressed:
    """Enter key: open a change's diff, expand or collapse a heading; in the diff, select and move on."""


@dataclass(frozen=True, slots=True)
class StepIn:
    """One level in: expand a heading, move from it to its first change, or from a change to its diff."""


@dataclass(frozen=True, slots=True)
class StepOut:
    """One level out: from the diff to the list, from a change to its heading; collapse a heading."""


@dataclass(frozen=True, slots=True)
class EscapePressed:
    """Escape key: cancel a range, a search or a filter, or leave the diff; in the list, quit."""


@dataclass(frozen=True, slots=True)
class PaneSwitched:
    """Focus the other pane."""


@dataclass(frozen=True, slots=True)
class TabSelected:
    """Show another tab."""

    tab: Tab


Navigation = EnterPressed | StepIn | StepOut | EscapePressed | PaneSwitched | TabSelected


@dataclass(frozen=True, slots=True)
class Toggled:
    """Select or deselect the item under the cursor, or at a given row of a pane."""

    row: int | None = None
    pane: Pane | None = None


@dataclass(frozen=True, slots=True)
class AllToggled:
    """Select all safe changes; if all are selected, deselect everything."""


@dataclass(frozen=True, slots=True)
class AllDeselected:
    """Deselect everything."""


@dataclass(frozen=True, slots=True)
class KindToggled:
    """Select or deselect all safe changes of the kind under the cursor."""


@dataclass(frozen=True, slots=True)
class SelectionUndone:
    """Undo the last change of the selection."""


@dataclass(frozen=True, slots=True)
class SelectionRedone:
    """Redo the last undone change of the selection."""


@dataclass(frozen=True, slots=True)
class ReviewedToggled:
    """Mark a change, or all changes of a group, as reviewed or as not reviewed."""


@dataclass(frozen=True, slots=True)
class ConflictResolved:
    """Resolve the conflict under the cursor with one side."""

    side: ConflictSide


@dataclass(frozen=True, slots=True)
class EditRequested:
    """Resolve the conflict in an editor."""


SelectionEvent = (
    Toggled
    | AllToggled
    | AllDeselected
    | KindToggled
    | SelectionUndone
    | SelectionRedone
    | ReviewedToggled
    | ConflictResolved
    | EditRequested
)


class DisplayOption(StrEnum):
    """A display option that can be toggled."""

    SPLIT = "split"
    WHITESPACE = "space"
    WRAP = "wrap"
    NUMBERS = "numbers"
    WHOLE_FILE = "whole"
    TREE = "tree"
    UNREVIEWED = "unreviewed"
    LINES = "lines"
    RANGE = "range"
    BASE = "base"
    ZOOM = "zoom"


@dataclass(frozen=True, slots=True)
class DisplayOptionToggled:
    """Toggle a display option."""

    option: DisplayOption


@dataclass(frozen=True, slots=True)
class ContextChanged:
    """Show more or fewer context lines around each hunk."""

    by: int


DisplayEvent = DisplayOptionToggled | ContextChanged


@dataclass(frozen=True, slots=True)
class PromptOpened:
    """Open a text prompt: a filter, a search, the palette, a branch name, a note."""

    kind: PromptKind


@dataclass(frozen=True, slots=True)
class PromptEdited:
    """The text of the prompt changed."""

    text: str


@dataclass(frozen=True, slots=True)
class PromptClosed:
    """The prompt was accepted (`is_accepted`) or cancelled."""

    is_accepted: bool


PromptEvent = PromptOpened | PromptEdited | PromptClosed


@dataclass(frozen=True, slots=True)
class ApplyRequested:
    """The user wants to apply the selection: show a summary first."""


@dataclass(frozen=True, slots=True)
class DeclineRequested:
    """The user wants to decline the selected commits."""


@dataclass(frozen=True, slots=True)
class SendBackRequested:
    """The user wants to send the notes back to the agent."""


@dataclass(frozen=True, slots=True)
class QuitRequested:
    """The user wants to quit without applying anything."""


@dataclass(frozen=True, slots=True)
class HelpRequested:
    """Show the key bindings."""


@dataclass(frozen=True, slots=True)
class AnswerFocusMoved:
    """Focus another answer."""

    by: int = 1


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer by its number, NO or YES or more; None for the focused answer."""

    answer: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Cancel the question and return to the review."""


QuestionRequested = ApplyRequested | DeclineRequested | SendBackRequested | QuitRequested | HelpRequested
QuestionEvent = QuestionRequested | AnswerFocusMoved | Answered | Cancelled


@dataclass(frozen=True, slots=True)
class Resized:
    """The terminal's width changed."""

    columns: int


@dataclass(frozen=True, slots=True)
class DiffLoaded:
    """The diff of a change is ready."""

    document: Document


@dataclass(frozen=True, slots=True)
class Highlighted:
    """The syntax highlighting of a change is ready."""

    key: Key
    highlighting: Highlighting


@dataclass(frozen=True, slots=True)
class LinesCounted:
    """The lines and hunks of some changes were counted."""

    counts: Mapping[Key, LineCount]


@dataclass(frozen=True, slots=True)
class CommitsFound:
    """The commit of each change was found, "" for uncommitted ones."""

    commits: Mapping[Key, str]


@dataclass(frozen=True, slots=True)
class RisksAssessed:
    """The risks of some changes were assessed; the risky ones must be confirmed before they are applied."""

    risks: Mapping[Key, tuple[Risk, ...]]


@dataclass(frozen=True, slots=True)
class DeletionsCounted:
    """A selection deletes this many files, a large share of the tree; 0 if it is not a large share."""

    selection: Selection
    files: int


@dataclass(frozen=True, slots=True)
class ChangeUpdated:
    """A conflict was resolved or reopened: the updated change. `message`: a status message.

    `is_selected`: select the change. `is_edited`: resolved as a whole in an editor, so resolutions of single conflicts are void.
    """

    change: Change
    message: str = ""
    is_selected: bool = False
    is_edited: bool = False


@dataclass(frozen=True, slots=True)
class ResolutionFailed:
    """A conflict was not resolved, for this reason."""

    message: str


@dataclass(frozen=True, slots=True)
class ChangesRefreshed:
    """The running agent changed more files."""

    changes: ChangeSet


@dataclass(frozen=True, slots=True)
class SearchFinished:
    """A search ended: the matching change and row, or None."""

    key: Key | None
    row: int = 0


@dataclass(frozen=True, slots=True)
class ProgressReported:
    """`done` of `total` steps of the merge are complete."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class OperationFinished(OperationResult):
    """A merge or import ended, with this result."""


@dataclass(frozen=True, slots=True)
class EntriesLoaded:
    """The entries of a tab were read with all details."""

    tab: Tab
    entries: tuple[TabEntry, ...]


@dataclass(frozen=True, slots=True)
class MessageReported:
    """A status message to show."""

    message: str


ChangesResult = LinesCounted | CommitsFound | RisksAssessed | DeletionsCounted | ChangeUpdated | ChangesRefreshed
Result = (
    Resized
    | DiffLoaded
    | Highlighted
    | ChangesResult
    | SearchFinished
    | ProgressReported
    | OperationFinished
    | EntriesLoaded
    | ResolutionFailed
    | MessageReported
)

Event = Movement | Navigation | SelectionEvent | DisplayEvent | PromptEvent | QuestionEvent | Result
