"""The immutable state of the review screen. `tui.update.dispatch` computes the next state."""

from collections.abc import Mapping
from enum import StrEnum

from agent_dev.diff.partial_selection import LineSelection
from agent_dev.diff.review_note import ReviewNote
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeSet
from agent_dev.overlay.selection import EMPTY_SELECTION, Selection
from agent_dev.quick_dataclass import dataclass, field, replace
from tui.effects import Effect, Resolutions
from tui.events import NO, Event, Pane, PromptKind
from tui.model import totals
from tui.model.change_list import ChangeRow, Listing, ListRow
from tui.model.document import WHOLE_FILE, DiffOptions, Document, Highlighting
from tui.model.tabs import Tab, TabEntry
from tui.model.totals import ZERO, LayeredCounts, LineCount, Totals
from tui.source import Draft, Ending

WIDE_COLUMNS = 100  # columns needed to show both panes
DEFAULT_CONTEXT = 3
EMPTY_DOCUMENT = Document(None)


class ScreenPage(StrEnum):
    """The page that the screen shows."""

    REVIEW = "review"
    PROMPT = "prompt"
    RISK = "risk"
    DELETIONS = "deletions"
    IMPORT = "bring"
    DECLINE = "decline"
    SUMMARY = "summary"
    QUIT = "leave"
    HELP = "help"
    PROGRESS = "progress"
    RESULT = "result"
    CONFLICTS = "conflicts"
    SEND_BACK = "send back"


@dataclass(frozen=True, slots=True)
class DiffPane:
    """The diff pane. `key` is None while the cursor is on a heading; `anchor` is the row where a range starts, or -1.

    `is_loaded`: `document` is complete; the diff of a change is read by a worker.
    """

    key: Key | None = None
    document: Document = EMPTY_DOCUMENT
    cursor: int = 0
    horizontal_offset: int = 0
    anchor: int = -1
    highlighting: Highlighting | None = None
    is_loaded: bool = True

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self.document.rows)

    @property
    def marked_rows(self) -> range:
        """Rows to which a key applies: the marked range, or the row under the cursor."""
        if self.anchor < 0:
            return range(self.cursor, self.cursor + 1)
        return range(min(self.anchor, self.cursor), max(self.anchor, self.cursor) + 1)


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """Display options of the screen."""

    is_split: bool = False
    context: int = DEFAULT_CONTEXT
    hides_whitespace: bool = False
    is_wrapped: bool = False
    shows_line_numbers: bool = True
    shows_base: bool = False
    selects_lines: bool = False  # select single lines, not hunks
    is_tree: bool = False
    is_zoomed: bool = False  # one pane at a time, in full width, even on wide terminals
    hides_reviewed: bool = False  # list only changes that are not marked as reviewed

    @property
    def is_whole_file(self) -> bool:
        """Return whether the whole file is shown."""
        return self.context >= WHOLE_FILE


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A change of the selection, recorded for undo: the keys added and removed, and the previous parts."""

    added: frozenset[Key]
    removed: frozenset[Key]
    old_choices: Mapping[Key, LineSelection]
    old_parts: Mapping[Key, LineCount]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text prompt. `initial_text`: restored by esc; `cursor` is the palette's row under the cursor."""

    kind: PromptKind
    text: str = ""
    initial_text: str = ""
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """The state of the screen.

    `selected_per_group` counts the selected changes of each group; `message` is the status message. `counts` are sizes of whole
    changes, `parts` sizes of partial selections. `unconfirmed` are the risky changes that the user must still confirm, in groups
    with the same risks, `confirmed` those already confirmed. `focused_answer` is the focused answer, `selected_commits` the ids
    of the selected commits. `actions` are the palette's: a binding's id and its description. `is_resolving`: the changes are
    conflicts between commits; the commits are imported when all are resolved. `resolves_next`: the next screen resolves such
    conflicts. `notes` are those to the agent. `ending` is what happens to the rest of the session after the review, `has_rest`:
    there is one. `awaits_resolution`: a worker resolves a conflict; `typed_ahead` is what was typed and waits for that, or for
    the diff.
    """

    changes: ChangeSet
    listing: Listing
    totals: Totals
    counts: LayeredCounts = field(default_factory=LayeredCounts)
    parts: Mapping[Key, LineCount] = field(default_factory=dict)
    selection: Selection = EMPTY_SELECTION
    selected_totals: Totals = ZERO
    selected_per_group: tuple[int, ...] = ()
    reviewed: frozenset[Key] = frozenset()
    undo_steps: tuple[UndoStep, ...] = ()
    redo_steps: tuple[UndoStep, ...] = ()
    cursor: int = 0
    diff: DiffPane = DiffPane()
    pane: Pane = Pane.LIST
    tab: Tab = Tab.CHANGES
    tabs: Mapping[Tab, tuple[TabEntry, ...]] = field(default_factory=dict)
    page: ScreenPage = ScreenPage.REVIEW
    display_options: DisplayOptions = DisplayOptions()
    columns: int = 80
    tab_cursors: Mapping[Tab, int] = field(default_factory=dict)  # where the cursor was on the other tabs
    list_anchor: int = -1  # the row where a range of the list starts; -1: none
    focused_answer: int = NO
    message: str = ""
    unassessed: frozenset[Key] = frozenset()  # ignored files: their risks are assessed before they are applied
    is_running: bool = False
    is_resolving: bool = False
    resolves_next: bool = False
    prompt: Prompt | None = None
    search: str = ""
    resolutions: Mapping[Key, Resolutions] = field(default_factory=dict)
    awaits_resolution: bool = False
    typed_ahead: tuple[Event, ...] = ()
    replaces_edit: bool = False  # the next resolution replaces the text from the editor
    returns_to: Tab | None = None  # where Escape leads, from a change that was opened on that tab
    unconfirmed: tuple[tuple[Key, ...], ...] = ()
    confirmed: frozenset[Key] = frozenset()
    many_deletions: int = 0  # files that the selection deletes, if they are a large share of the tree
    progress: tuple[int, int] = (0, 0)
    result: tuple[str, ...] = ()
    code: int = 0
    may_have_changed: bool = True
    has_rest: bool = False
    notes: tuple[ReviewNote, ...] = ()
    ending: Ending = Ending.KEEP
    selected_commits: frozenset[str] = frozenset()
    change_commits: Mapping[Key, str] = field(default_factory=dict)  # the commit of each change, "": uncommitted
    has_commit_details: bool = False  # the commits were read with all details
    actions: tuple[tuple[str, str], ...] = ()

    @property
    def is_wide(self) -> bool:
        """Return whether both panes are shown."""
        return self.columns >= WIDE_COLUMNS and not self.display_options.is_zoomed

    @property
    def list_columns(self) -> int:
        """Width of the list in columns."""
        return min(max(40, self.columns * 2 // 5), 72) if self.is_wide else self.columns

    @property
    def diff_columns(self) -> int:
        """Width of the diff in columns; one column goes to the line between the panes."""
        return self.columns - self.list_columns - 1 if self.is_wide else self.columns

    @property
    def marked_rows(self) -> range:
        """Rows of the list to which a key applies: the marked range, or the row under the cursor."""
        first = self.cursor if self.list_anchor < 0 else self.list_anchor
        return range(min(first, self.cursor), min(max(first, self.cursor) + 1, self.row_count))

    @property
    def row(self) -> ListRow | None:
        """The row under the list's cursor; None on another tab."""
        return self.listing.rows[self.cursor] if self.listing.rows and self.tab is Tab.CHANGES else None

    @property
    def entry(self) -> TabEntry | None:
        """The entry under the list's cursor on another tab."""
        entries = self.tabs.get(self.tab, ())
        return entries[self.cursor] if self.cursor < len(entries) else None

    @property
    def selected_commit_entries(self) -> tuple[TabEntry, ...]:
        """Entries of the selected commits."""
        return tuple(one for one in self.tabs.get(Tab.COMMITS, ()) if one.id and one.id in self.selected_commits)

    @property
    def row_count(self) -> int:
        """Number of rows of the list."""
        return len(self.listing.rows) if self.tab is Tab.CHANGES else len(self.tabs.get(self.tab, ()))

    @property
    def change(self) -> Change | None:
        """The change under the list's cursor."""
        return self.changes.by_key()[self.row.key] if isinstance(self.row, ChangeRow) else None

    @property
    def diff_options(self) -> DiffOptions:
        """Diff options for the current width and display options."""
        options = self.display_options
        return DiffOptions(
            self.diff_columns - 2,  # without those of the cursor and of the scroll bar
            options.is_split,
            options.context,
            options.hides_whitespace,
            options.is_wrapped,
            options.shows_base,
        )

    @property
    def matching_actions(self) -> tuple[tuple[str, str], ...]:
        """Palette actions that match the typed text."""
        words = self.prompt.text.casefold().split() if self.prompt else []
        return tuple(one for one in self.actions if all(word in one[1].casefold() or word in one[0] for word in words))


Transition = tuple[State, tuple[Effect, ...]]


def with_selection(state: State, selection: Selection, message: str, parts: Mapping[Key, LineCount] | None = None) -> State:
    """Set the selection and update the totals by the difference; a recount of 100,000 changes would be too slow.

    `parts` are the sizes of partial selections; by default those of files that are still partially selected are kept.
    """
    if parts is None:
        parts = {key: count for key, count in state.parts.items() if key in selection.partial}
    old = state.selection
    resized = frozenset(
        key
        for key in state.parts.keys() | parts.keys()
        if key in old and key in selection and state.parts.get(key) != parts.get(key)
    )
    added, removed = selection.keys - old.keys, old.keys - selection.keys
    table, per_group = state.changes.by_key(), list(state.selected_per_group)
    for by, keys in ((1, added), (-1, removed)):
        for key in keys:
            for group in state.listing.groups_of(key):
                per_group[group] += by
    old_totals = totals.sum_changes((table[key] for key in removed | resized), state.counts, state.parts)
    new_totals = totals.sum_changes((table[key] for key in added | resized), state.counts, parts)
    return replace(
        state,
        selection=selection,
        parts=parts,
        selected_totals=state.selected_totals - old_totals + new_totals,
        selected_per_group=tuple(per_group),
        message=message,
    )


def draft_of(state: State) -> Draft:
    """Return the draft with which the next review of the session starts."""
    return Draft(state.selection, state.parts, state.reviewed, state.diff.key, state.resolutions, state.notes)


def with_listing(state: State, listing: Listing) -> State:
    """Replace the list; the cursor stays on its change, and the selected changes of each group are recounted."""
    per_group = [0] * len(listing.groups)
    for key in state.selection.keys:
        for group in listing.groups_of(key):
            per_group[group] += 1
    current = state.change.key if state.change else None
    cursor = listing.row_of(current) if current else min(state.cursor, len(listing.rows) - 1)
    if state.tab is not Tab.CHANGES:
        cursor = state.cursor
    return replace(state, listing=listing, selected_per_group=tuple(per_group), cursor=max(0, cursor), list_anchor=-1)
