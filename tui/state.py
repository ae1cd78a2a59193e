"""The merge screen as a value. Nothing here draws, reads or waits; `tui.update.dispatch` makes the next one of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agent_dev.diff.partial import Choice
from agent_dev.overlay.changes import Change, ChangeSet, Key
from agent_dev.overlay.selection import NOTHING, Selection
from tui.effects import Answers, Effect
from tui.events import NO, Asking, Pane
from tui.model import totals
from tui.model.change_list import ChangeRow, Listing, Row
from tui.model.document import EVERYTHING, Colours, Document, Look
from tui.model.tabs import Entry, Tab
from tui.model.totals import NONE, Count, Tally, Totals

WIDE = 100  # columns from which both panes fit beside each other
CONTEXT = 3


NO_DOCUMENT = Document(None)


class Face(StrEnum):
    """What the screen shows."""

    REVIEW = "review"
    PROMPT = "prompt"
    RISK = "risk"
    BRING = "bring"
    SUMMARY = "summary"
    LEAVE = "leave"
    HELP = "help"
    PROGRESS = "progress"
    RESULT = "result"
    CLASH = "clash"


@dataclass(frozen=True, slots=True)
class Diff:
    """The diff beside the list. `key` is None while a heading is under the cursor; `anchor` is where a range began, or -1."""

    key: Key | None = None
    document: Document = NO_DOCUMENT
    cursor: int = 0
    shift: int = 0
    anchor: int = -1
    colours: Colours | None = None

    @property
    def length(self) -> int:
        """How many rows it has."""
        return len(self.document.rows)

    @property
    def marked(self) -> range:
        """The rows that a choice is about: the cursor's, or a range."""
        if self.anchor < 0:
            return range(self.cursor, self.cursor + 1)
        return range(min(self.anchor, self.cursor), max(self.anchor, self.cursor) + 1)


@dataclass(frozen=True, slots=True)
class Looks:
    """How things are shown, until they are switched."""

    is_split: bool = False
    context: int = CONTEXT
    is_spaceless: bool = False
    is_wrapped: bool = False
    has_numbers: bool = True
    has_base: bool = False
    is_lines: bool = False  # single lines are chosen, not blocks
    is_tree: bool = False
    is_unreviewed: bool = False  # only what was not looked at is listed

    @property
    def is_whole(self) -> bool:
        """Whether the whole file is shown."""
        return self.context >= EVERYTHING


@dataclass(frozen=True, slots=True)
class Before:
    """What a choice has changed: to take it back."""

    came: frozenset[Key]
    went: frozenset[Key]
    choices: Mapping[Key, Choice]
    parts: Mapping[Key, Count]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A line that is typed. `before` is what stood there; `at` the palette's row under the cursor."""

    what: Asking
    text: str = ""
    before: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """All that the screen shows. `chosen_in` counts the chosen changes of each group; `word` is about the last key.

    `counts` are of whole changes, `parts` of what is chosen of those that are chosen in part. `asked` are the risky changes
    that still have to be confirmed, `answer` the one in focus, `picked` the ids of commits that are chosen. `actions` are the
    palette's: a binding's id and what it does. `is_settling`: the changes are conflicts of commits, which come home when each is
    settled; `is_onward`: such conflicts are to be settled next, on a screen of their own.
    """

    changes: ChangeSet
    listing: Listing
    whole: Totals
    counts: Tally = field(default_factory=Tally)
    parts: Mapping[Key, Count] = field(default_factory=dict)
    selection: Selection = NOTHING
    chosen: Totals = NONE
    chosen_in: tuple[int, ...] = ()
    reviewed: frozenset[Key] = frozenset()
    past: tuple[Before, ...] = ()
    future: tuple[Before, ...] = ()
    cursor: int = 0
    diff: Diff = Diff()
    pane: Pane = Pane.LIST
    tab: Tab = Tab.CHANGES
    tabs: Mapping[Tab, tuple[Entry, ...]] = field(default_factory=dict)
    face: Face = Face.REVIEW
    looks: Looks = Looks()
    columns: int = 80
    answer: int = NO
    word: str = ""
    is_running: bool = False
    is_settling: bool = False
    is_onward: bool = False
    prompt: Prompt | None = None
    search: str = ""
    answers: Mapping[Key, Answers] = field(default_factory=dict)
    asked: tuple[Key, ...] = ()
    progress: tuple[int, int] = (0, 0)
    result: tuple[str, ...] = ()
    code: int = 0
    is_done: bool = True
    picked: frozenset[str] = frozenset()
    is_told: bool = False  # all that is known of the commits is there
    actions: tuple[tuple[str, str], ...] = ()

    @property
    def is_wide(self) -> bool:
        """Whether both panes are shown."""
        return self.columns >= WIDE

    @property
    def list_columns(self) -> int:
        """How many of them the list gets."""
        return min(max(40, self.columns * 2 // 5), 72) if self.is_wide else self.columns

    @property
    def diff_columns(self) -> int:
        """How many of them the diff gets: one goes to the line between the panes."""
        return self.columns - self.list_columns - 1 if self.is_wide else self.columns

    @property
    def row(self) -> Row | None:
        """The row under the list's cursor; None on another tab."""
        return self.listing.rows[self.cursor] if self.listing.rows and self.tab is Tab.CHANGES else None

    @property
    def entry(self) -> Entry | None:
        """What is under the list's cursor on another tab."""
        entries = self.tabs.get(self.tab, ())
        return entries[self.cursor] if self.cursor < len(entries) else None

    @property
    def picked_entries(self) -> tuple[Entry, ...]:
        """The commits that are chosen."""
        return tuple(one for one in self.tabs.get(Tab.COMMITS, ()) if one.id and one.id in self.picked)

    @property
    def length(self) -> int:
        """How many rows the list has."""
        return len(self.listing.rows) if self.tab is Tab.CHANGES else len(self.tabs.get(self.tab, ()))

    @property
    def change(self) -> Change | None:
        """The change under the list's cursor."""
        return self.changes.by_key()[self.row.key] if isinstance(self.row, ChangeRow) else None

    @property
    def look(self) -> Look:
        """How a change is to be shown now."""
        looks = self.looks
        return Look(self.diff_columns - 1, looks.is_split, looks.context, looks.is_spaceless, looks.is_wrapped, looks.has_base)

    @property
    def found_actions(self) -> tuple[tuple[str, str], ...]:
        """What the palette offers for what was typed so far."""
        wanted = self.prompt.text.casefold().split() if self.prompt else []
        return tuple(one for one in self.actions if all(word in one[1].casefold() or word in one[0] for word in wanted))


Step = tuple[State, tuple[Effect, ...]]


def with_selection(state: State, selection: Selection, word: str, parts: Mapping[Key, Count] | None = None) -> State:
    """Set a selection and keep the numbers true by what came and went: a recount of 100,000 would be felt.

    `parts` counts the chosen parts of files; without it those of files that are still chosen in part stay.
    """
    if parts is None:
        parts = {key: count for key, count in state.parts.items() if key in selection.choices}
    old = state.selection
    moved = frozenset(
        key
        for key in state.parts.keys() | parts.keys()
        if key in old and key in selection and state.parts.get(key) != parts.get(key)
    )
    came, went = selection.keys - old.keys, old.keys - selection.keys
    table, per_group = state.changes.by_key(), list(state.chosen_in)
    for by, keys in ((1, came), (-1, went)):
        for key in keys:
            for group in state.listing.groups_of(key):
                per_group[group] += by
    gone = totals.count((table[key] for key in went | moved), state.counts, state.parts)
    new = totals.count((table[key] for key in came | moved), state.counts, parts)
    return replace(
        state,
        selection=selection,
        parts=parts,
        chosen=state.chosen - gone + new,
        chosen_in=tuple(per_group),
        word=word,
    )


def relisted(state: State, listing: Listing) -> State:
    """Show the changes in another list: the cursor stays on its change, the chosen ones are counted anew in its groups."""
    per_group = [0] * len(listing.groups)
    for key in state.selection.keys:
        for group in listing.groups_of(key):
            per_group[group] += 1
    at = state.change.key if state.change else None
    cursor = listing.row_of(at) if at else min(state.cursor, len(listing.rows) - 1)
    if state.tab is not Tab.CHANGES:
        cursor = state.cursor
    return replace(state, listing=listing, chosen_in=tuple(per_group), cursor=max(0, cursor))
