"""Effects: the work that the review screen requests after an event."""

from agent_dev.diff import merge3
from agent_dev.diff.review_note import ReviewNote
from agent_dev.fs.entry import Key
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import dataclass
from tui.model.document import DiffOptions
from tui.model.tabs import ImportMode, Tab

Resolutions = tuple[merge3.ConflictSide | bytes | None, ...]


@dataclass(frozen=True, slots=True)
class LoadDiff:
    """Read a change and build its diff on a worker; results in DiffLoaded.

    `resolutions`: those of its conflicts and edits so far. `notes`: the notes about it.
    """

    key: Key
    options: DiffOptions
    resolutions: Resolutions = ()
    notes: tuple[ReviewNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolve:
    """Resolve the conflicts of a change; results in ChangeUpdated."""

    key: Key
    resolutions: Resolutions


@dataclass(frozen=True, slots=True)
class EditConflict:
    """Let the user resolve the conflicts of a change in an editor; results in ChangeUpdated or MessageReported."""

    key: Key


@dataclass(frozen=True, slots=True)
class ViewFile:
    """Show a copy of the agent's file in an editor, at a line (from 1); results in MessageReported."""

    key: Key
    line: int


@dataclass(frozen=True, slots=True)
class Search:
    """Find the first of some changes whose rows, with these options, contain a text; results in SearchFinished."""

    text: str
    keys: tuple[Key, ...]
    options: DiffOptions


@dataclass(frozen=True, slots=True)
class RunAction:
    """Run the action of a key binding, given its id."""

    binding_id: str


@dataclass(frozen=True, slots=True)
class AssessRisks:
    """Assess the risks of selected changes that were not assessed yet; results in RisksAssessed."""

    keys: frozenset[Key]


@dataclass(frozen=True, slots=True)
class CountDeletions:
    """Count the files that a selection deletes, if they are a large share of the tree; results in DeletionsCounted."""

    selection: Selection


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply a selection; results in ProgressReported events, then OperationFinished."""

    selection: Selection


@dataclass(frozen=True, slots=True)
class LoadEntries:
    """Read the entries of a tab with all details; results in EntriesLoaded."""

    tab: Tab


@dataclass(frozen=True, slots=True)
class ImportCommits:
    """Import commits, given newest first; results in OperationFinished."""

    ids: tuple[str, ...]
    mode: ImportMode
    name: str = ""


@dataclass(frozen=True, slots=True)
class DeclineCommits:
    """Decline commits; results in OperationFinished."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quit:
    """Close the screen. `saves_selection`: save the selection for the next review."""

    saves_selection: bool = True


SlowEffect = Resolve | Search | AssessRisks | CountDeletions | Apply | LoadEntries | ImportCommits | DeclineCommits
Effect = LoadDiff | EditConflict | ViewFile | RunAction | SlowEffect | Quit
