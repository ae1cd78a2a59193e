"""The interface through which the screen reads a session and applies changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol

from agent_dev.diff.merge3 import ConflictSide, LineMerge
from agent_dev.diff.review_note import ReviewNote
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeSet, Risk
from agent_dev.overlay.selection import EMPTY_SELECTION, Selection
from agent_dev.quick_dataclass import dataclass
from tui.model.tabs import ImportMode, Tab, TabEntry
from tui.model.totals import LineCount

ContentPair = tuple[bytes | None, bytes | None]
ConflictResolution = Sequence[ConflictSide | bytes | None] | bytes  # one per choice, or the whole file from an editor
ProgressCallback = Callable[[int, int], object]


class Ending(Enum):
    """The action on the rest of the session after the review."""

    KEEP = "keep"
    DISCARD = "discard"
    SEND_BACK = "send back"  # resume it with the notes


@dataclass(frozen=True, slots=True)
class Draft:
    """State saved for the next review: the selection, sizes of partial selections, reviewed marks and the cursor.

    `resolutions`: those of conflicts, by change. `notes`: those to the agent that were not sent yet.
    """

    selection: Selection = EMPTY_SELECTION
    parts: Mapping[Key, LineCount] | None = None
    reviewed: frozenset[Key] = frozenset()
    cursor: Key | None = None
    resolutions: Mapping[Key, tuple[ConflictSide | bytes | None, ...]] | None = None
    notes: tuple[ReviewNote, ...] = ()


@dataclass(frozen=True, slots=True)
class OperationResult:
    """Result of a merge or import: the lines to show, and the exit code. `may_have_changed`: something may have been changed.

    `conflicts`: number of files with conflicts between commits; resolve them with `ReviewedSession.next_conflicts`, then import
    again. `has_rest`: the session still holds changes or commits.
    """

    lines: tuple[str, ...]
    code: int
    may_have_changed: bool = True
    conflicts: int = 0
    has_rest: bool = False


class ReviewedSession(Protocol):
    """A session under review. Slow methods run on a worker thread; they may raise AgentDevError or OSError."""

    @property
    def session(self) -> str:
        """Name or id of the session."""
        ...

    @property
    def root(self) -> str:
        """Path shown in the title."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """Paths of all roots, in the order of `Key.root`."""
        ...

    @property
    def command(self) -> tuple[str, ...]:
        """Command that ran in the session."""
        ...

    @property
    def is_running(self) -> bool:
        """Return whether the agent is still running; nothing can be selected then."""
        ...

    @property
    def is_resolving(self) -> bool:
        """Return whether the changes are conflicts between commits; the commits are imported when all are resolved."""
        ...

    @property
    def result(self) -> OperationResult | None:
        """Result of the last merge or import, if any."""
        ...

    @property
    def changes(self) -> ChangeSet:
        """Changes of the session."""
        ...

    @property
    def tabs(self) -> Mapping[Tab, tuple[TabEntry, ...]]:
        """Entries of the other tabs: commits, commands, connections."""
        ...

    @property
    def draft(self) -> Draft:
        """Saved selection of the previous review, as far as it is still valid."""
        ...

    def read_content(self, key: Key) -> ContentPair:
        """Return the base and agent contents of a change, or a link's target; None where there is nothing to show. Slow."""
        ...

    def yours_content(self, key: Key) -> bytes | None:
        """Return your version of a change in conflict. Slow."""
        ...

    def line_merge(self, key: Key) -> LineMerge | None:
        """Return the three-way merge of a change that is or was in conflict; None if it is not a merge of lines."""
        ...

    def edited_text(self, key: Key) -> bytes | None:
        """Return the text that resolved a conflict in an editor; None for a conflict that no editor resolved."""
        ...

    def resolve(self, key: Key, answers: ConflictResolution) -> Change | None:
        """Resolve the conflicts of a change and return it; None if the resolution does not apply. Slow."""
        ...

    def edit_conflict(self, key: Key) -> bytes | None:
        """Let the user edit a conflict in an editor; None if it is not a conflict of lines. The screen must be suspended."""
        ...

    def view_file(self, key: Key, line: int) -> None:
        """Show a copy of the agent's file in an editor, at a line. The screen must be suspended."""
        ...

    def count_lines(self, keys: Iterable[Key]) -> dict[Key, LineCount]:
        """Count the hunks and lines of changes that have any. Slow."""
        ...

    @property
    def unassessed(self) -> frozenset[Key]:
        """Changes whose risks were not assessed: ignored files, until they are selected."""
        ...

    def count_deletions(self, selection: Selection) -> int:
        """Return how many files a selection deletes, if they are a large share of the tree, else 0. Slow."""
        ...

    def assess_risks(self, keys: Iterable[Key]) -> Mapping[Key, tuple[Risk, ...]]:
        """Assess the risks of changes; a change that cannot be read gets a risk that says so. Slow."""
        ...

    def read_changes(self) -> ChangeSet:
        """Read the changes again and return them. Slow."""
        ...

    def save_draft(self, draft: Draft) -> None:
        """Save a selection for the next review."""
        ...

    def merge(self, selection: Selection, progress: ProgressCallback) -> OperationResult:
        """Apply a selection; call `progress` with the steps done and their total. Slow; must not be interrupted."""
        ...

    def read_commits(self) -> tuple[TabEntry, ...]:
        """Return the entries of the commits tab with all details, newest first. Slow."""
        ...

    def find_commits(self) -> Mapping[Key, str]:
        """Return the commit of each change, "" for uncommitted ones; nothing if there are no commits. Slow."""
        ...

    def import_commits(self, ids: Sequence[str], mode: ImportMode, name: str) -> OperationResult:
        """Import commits, given newest first; `name` is that of the new branch, if any. Slow; must not be interrupted."""
        ...

    def decline_commits(self, ids: Sequence[str]) -> OperationResult:
        """Decline commits. Slow; must not be interrupted."""
        ...

    def next_conflicts(self) -> "ReviewedSession | None":
        """Return a source with the conflicts of the last import, to be resolved on their own screen; None if there are none."""
        ...
