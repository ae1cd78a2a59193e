"""The merge screen as a value, and what each event makes of it. Nothing here draws, reads or waits."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from agent_dev.core.changes import Change, ChangeSet, Key
from agent_dev.core.selection import NOTHING, Selection
from tui import choose, rows, totals
from tui.events import (
    AllToggled,
    Answered,
    AnswerMoved,
    ApplyAsked,
    Backed,
    BlockMoved,
    ChangeMoved,
    Choice,
    DiffShown,
    Effect,
    Entered,
    Escaped,
    Event,
    Fact,
    Finish,
    HelpAsked,
    LeaveAsked,
    Load,
    Moved,
    MovedTo,
    Movement,
    Opened,
    Pane,
    PaneSwapped,
    Question,
    Resized,
    Shifted,
    Toggled,
    Walk,
)
from tui.rows import ChangeRow, HeadRow, Listing, NoteRow, ProblemRow, Row
from tui.totals import NONE, Totals

WIDE = 100  # columns from which both panes fit beside each other


class Face(StrEnum):
    """What the screen shows."""

    REVIEW = "review"
    SUMMARY = "summary"
    LEAVE = "leave"
    HELP = "help"


@dataclass(frozen=True, slots=True)
class Diff:
    """What is known of the diff beside the list. `key` is None while a heading is under the cursor."""

    key: Key | None = None
    length: int = 0
    starts: tuple[int, ...] = ()
    longest: int = 0
    cursor: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """All that the screen shows. `chosen_in` counts the chosen changes of each group; `word` is about the last key."""

    changes: ChangeSet
    listing: Listing
    whole: Totals
    selection: Selection = NOTHING
    chosen: Totals = NONE
    chosen_in: tuple[int, ...] = ()
    cursor: int = 0
    diff: Diff = Diff()
    pane: Pane = Pane.LIST
    face: Face = Face.REVIEW
    columns: int = 80
    is_yes: bool = False
    word: str = ""

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
        """The row under the list's cursor."""
        return self.listing.rows[self.cursor] if self.listing.rows else None

    @property
    def change(self) -> Change | None:
        """The change under the list's cursor."""
        return self.row.change if isinstance(self.row, ChangeRow) else None


Step = tuple[State, tuple[Effect, ...]]


def begin(changes: ChangeSet, columns: int = 80) -> Step:
    """Return the screen as it opens: nothing chosen, the cursor on the first change."""
    made = rows.listing(changes)
    state = State(
        changes=changes,
        listing=made,
        whole=totals.count(changes.changes),
        chosen_in=(0,) * len(made.groups),
        columns=columns,
    )
    first = next((at for at, row in enumerate(made.rows) if isinstance(row, ChangeRow)), 0)
    return _at(state, first)


def update(state: State, event: Event) -> Step:
    """Return what an event makes of the screen, and what is then to be done."""
    if isinstance(event, Fact):
        return _learn(state, event)
    if isinstance(event, Question):
        return _ask(state, event)
    if state.face is not Face.REVIEW:
        return state, ()
    return _review(replace(state, word=""), event)


def _review(state: State, event: Movement | Walk | Choice) -> Step:
    if isinstance(event, Movement):
        return _move(state, event)
    if isinstance(event, Walk):
        return _walk(state, event)
    return _choose(state, event), ()


def _learn(state: State, fact: Fact) -> Step:
    match fact:
        case Resized(columns):
            wanted = (Load(state.change.key),) if state.change and columns != state.columns else ()
            return replace(state, columns=columns), wanted
        case DiffShown(key, length, starts, longest):
            if state.diff.key != key:
                return state, ()  # it comes too late: the cursor has moved on
            cursor = max(0, min(state.diff.cursor, length - 1))
            known = replace(state.diff, length=length, starts=starts, longest=longest, cursor=cursor)
            return replace(state, diff=known), ()
        case _:
            assert_never(fact)


# Moving


def _move(state: State, event: Movement) -> Step:
    match event:
        case Moved(by):
            return _to(state, _cursor(state) + by)
        case MovedTo(row, pane):
            there = _pane(state, pane or state.pane)
            return _to(there, row if row >= 0 else _length(there) - 1)
        case ChangeMoved(by):
            return _to_change(state, by)
        case BlockMoved(by):
            return _to_block(state, by), ()
        case Shifted(by):
            shift = max(0, min(state.diff.shift + by, state.diff.longest - 1))
            return replace(state, diff=replace(state.diff, shift=shift)), ()
        case _:
            assert_never(event)


def _cursor(state: State) -> int:
    return state.cursor if state.pane is Pane.LIST else state.diff.cursor


def _length(state: State) -> int:
    return len(state.listing.rows) if state.pane is Pane.LIST else state.diff.length


def _to(state: State, row: int) -> Step:
    target = max(0, min(row, _length(state) - 1))
    if state.pane is Pane.LIST:
        return _at(state, target)
    return replace(state, diff=replace(state.diff, cursor=target)), ()


def _at(state: State, row: int) -> Step:
    """Put the list's cursor on a row, and ask for the diff that then belongs beside it."""
    moved = replace(state, cursor=row)
    if moved.change is None:
        return replace(moved, diff=Diff()), ()
    if moved.change.key == state.diff.key:
        return moved, ()
    return replace(moved, diff=Diff(moved.change.key)), (Load(moved.change.key),)


def _to_change(state: State, by: int) -> Step:
    ahead = range(state.cursor + 1, len(state.listing.rows)) if by > 0 else range(state.cursor - 1, -1, -1)
    found = next((at for at in ahead if isinstance(state.listing.rows[at], ChangeRow)), None)
    if found is None:
        return replace(state, word="this is the last change" if by > 0 else "this is the first change"), ()
    return _at(state, found)


def _to_block(state: State, by: int) -> State:
    at, starts = state.diff.cursor, state.diff.starts
    wanted = [start for start in starts if start > at][:1] if by > 0 else [start for start in starts if start < at][-1:]
    if not wanted:
        last = "this is the last block: n goes to the next change" if by > 0 else "this is the first block"
        return replace(state, word=last if starts else "there are no blocks here")
    return replace(state, diff=replace(state.diff, cursor=wanted[0]))


# Walking through the tree


def _walk(state: State, event: Walk) -> Step:
    match event:
        case PaneSwapped():
            return _pane(state, Pane.DIFF if state.pane is Pane.LIST else Pane.LIST), ()
        case Backed():
            return _back(state)
        case Escaped():
            return _back(state) if state.pane is Pane.DIFF else _ask(state, LeaveAsked())
        case Entered() | Opened() if state.pane is Pane.DIFF:
            return state, ()
        case Entered():
            is_open = isinstance(state.row, HeadRow) and state.row.group not in state.listing.closed
            return (_fold(state, closed=True), ()) if is_open else _open(state)
        case Opened():
            return _open(state)
        case _:
            assert_never(event)


def _pane(state: State, pane: Pane) -> State:
    """Give a pane the keys; the diff only when there is one."""
    return replace(state, pane=pane if state.change else Pane.LIST)


def _open(state: State) -> Step:
    match state.row:
        case ChangeRow():
            return _pane(state, Pane.DIFF), ()
        case HeadRow(group) if group in state.listing.closed:
            return _fold(state, closed=False), ()
        case HeadRow():
            return _at(state, state.cursor + 1)
        case ProblemRow() | NoteRow() | None:
            return state, ()
        case _:
            assert_never(state.row)


def _back(state: State) -> Step:
    match state.row:
        case _ if state.pane is Pane.DIFF:
            return _pane(state, Pane.LIST), ()
        case ChangeRow(group):
            return _at(state, state.listing.head(group))
        case HeadRow():
            return _fold(state, closed=True), ()
        case ProblemRow() | NoteRow() | None:
            return state, ()
        case _:
            assert_never(state.row)


def _fold(state: State, *, closed: bool) -> State:
    if not isinstance(state.row, HeadRow):
        return state
    return replace(state, listing=rows.with_closed(state.listing, state.row.group, closed=closed))


# Choosing


def _choose(state: State, event: Choice) -> State:
    match event:
        case Toggled(at):
            row = state.row if at is None else state.listing.rows[at]
            made = choose.toggled(state.selection, row, state.listing, state.changes) if row else None
        case AllToggled():
            made = choose.all_toggled(state.selection, state.changes)
        case _:
            assert_never(event)
    return _with_selection(state, *made) if made else state


def _with_selection(state: State, selection: Selection, word: str) -> State:
    """Set a selection and keep the numbers true by what came and went: a recount of 100,000 would be felt."""
    group_of = state.listing.group_of
    came = [group_of[key] for key in selection.keys - state.selection.keys]
    went = [group_of[key] for key in state.selection.keys - selection.keys]
    per_group = list(state.chosen_in)
    for group, _ in came:
        per_group[group] += 1
    for group, _ in went:
        per_group[group] -= 1
    counted = state.chosen + totals.count(c for _, c in came) - totals.count(c for _, c in went)
    return replace(state, selection=selection, chosen=counted, chosen_in=tuple(per_group), word=word)


# Asking


def _ask(state: State, event: Question) -> Step:
    match event:
        case Answered(is_yes):
            return _answer(state, is_yes=state.is_yes if is_yes is None else is_yes)
        case AnswerMoved():
            return replace(state, is_yes=not state.is_yes and state.face in (Face.SUMMARY, Face.LEAVE)), ()
        case _ if state.face is not Face.REVIEW:
            return state, ()
        case ApplyAsked() if not state.selection.keys:
            return replace(state, word="nothing is chosen: space chooses, A takes all that is safe, q leaves"), ()
        case LeaveAsked() if not state.selection.keys:
            return state, (Finish(None),)
        case _:
            return replace(state, face=_face(event), is_yes=False, word=""), ()


def _face(event: ApplyAsked | LeaveAsked | HelpAsked) -> Face:
    match event:
        case ApplyAsked():
            return Face.SUMMARY
        case LeaveAsked():
            return Face.LEAVE
        case HelpAsked():
            return Face.HELP
        case _:
            assert_never(event)


def _answer(state: State, *, is_yes: bool) -> Step:
    back = replace(state, face=Face.REVIEW, is_yes=False)
    if not is_yes or state.face in (Face.REVIEW, Face.HELP):
        return back, ()
    return back, (Finish(state.selection if state.face is Face.SUMMARY else None),)
