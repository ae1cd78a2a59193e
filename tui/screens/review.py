"""The screen itself: changes at the left, the diff at the right, the truth in numbers and the way out below."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.screen import Screen

from agent_dev.overlay.changes import Change
from tui.events import Entered, Event, Moved, MovedTo, Pane, Resized, Toggled
from tui.keys.bindings import REVIEW, bindings
from tui.keys.key_names import Keys, hints, keys
from tui.model.change_list import ChangeRow
from tui.model.document import Tone
from tui.model.tabs import Tab
from tui.model.totals import sentence
from tui.source import Source
from tui.state import Face, State
from tui.text import commits
from tui.text import labels as words
from tui.text.cells import clean, crop, crop_start, crop_words, width
from tui.widgets import change_list, diff_view
from tui.widgets.bars import Bar
from tui.widgets.change_list import ChangeList
from tui.widgets.diff_view import DiffView
from tui.widgets.paint import Piece
from tui.widgets.row_view import RowView

Send = Callable[[Event], None]

_LOW, _NARROW = 8, 30  # a smaller terminal shows less
_TABS = ((" {0} {1} {2} ", " {0} {1} {2} "), (" {0} {1} {2}", " {0} {1}"), (" {0} {1} {2}", " {0}"))  # that is shown, the others
_ALWAYS = [("apply", "apply"), ("leave", "leave"), ("help", "help")]
_LIST = [("toggle", "choose"), ("enter", "open"), ("all", "all safe"), ("filter", "filter"), ("search", "search")]
_DIFF = [("escape", "list"), ("block.next", "next"), ("split", "side by side")]
_COMMITS = [
    ("apply", "bring home"),
    ("leave", "leave"),
    ("help", "help"),
    ("toggle", "choose"),
    ("enter", "look"),
    ("all", "all"),
    ("escape", "changes"),
]
_ENTRIES = [("leave", "leave"), ("help", "help"), ("enter", "look"), ("escape", "changes")]
_ENTRY = [("leave", "leave"), ("help", "help"), ("escape", "list")]


class ReviewScreen(Screen[None], inherit_bindings=False):
    """Shows the state; keys and clicks become events."""

    BINDINGS: ClassVar[list[BindingType]] = bindings()

    def __init__(self, source: Source, state: State, send: Send) -> None:
        super().__init__()
        self._source, self._state, self._send = source, state, send
        self._keys: Keys = {}

    def compose(self) -> ComposeResult:
        """Lay out bars and panes."""
        yield Bar(id="title")
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield Bar(id="left-title", classes="pane-title")
                yield ChangeList(self._state, self._source.roots)
            with Vertical(id="right"):
                yield Bar(id="right-title", classes="pane-title")
                yield DiffView(self._state)
        yield Bar(id="word")
        yield Bar(id="totals")
        yield Bar(id="keys")

    def on_mount(self) -> None:
        """Draw for the first time."""
        self._keys = keys(self)
        self.show(self._state)

    def on_resize(self, event: Resize) -> None:
        """Say how many columns there are now, and keep the cursors in sight."""
        self._send(Resized(event.size.width))
        self.call_after_refresh(self._reveal)

    def _reveal(self) -> None:
        self.query_one(ChangeList).reveal(self._state.cursor)
        self.query_one(DiffView).reveal(self._state.diff.cursor)

    def show(self, state: State) -> None:
        """Draw a state."""
        self._state = state
        if not self.is_mounted:
            return
        self._arrange(state)
        is_over = state.face is Face.RESULT and state.is_done  # what was chosen is merged: nothing here is true any more
        self.query_one(ChangeList).show(state)
        self.query_one(DiffView).show(state)
        self._show_titles(state)
        cells = self.size.width
        self.query_one("#word", Bar).show([] if is_over else self._word(state))
        self.query_one("#totals", Bar).show([] if is_over else _totals(state, cells))
        self.query_one("#keys", Bar).show([] if is_over else hints(_hints(state), self._keys, cells))

    def _word(self, state: State) -> list[Piece]:
        if state.word:
            return [Piece(f" {crop_words(clean(state.word), self.size.width - 1)}", "accent")]
        if self._is_small:
            return [Piece(" terminal too small", Tone.RISK)]
        if state.is_running:
            return [Piece(" the agent is still working: this shows what it has changed so far", Tone.RISK)]
        if state.is_settling:
            return [Piece(" what the commits and yours both change: settle each, and they come home", Tone.RISK)]
        return [Piece(f" {commits.word(state)}", Tone.DIM)] if state.tabs.get(Tab.COMMITS) else []

    @property
    def _is_small(self) -> bool:
        return self.size.height < _LOW or self.size.width < _NARROW

    def _arrange(self, state: State) -> None:
        for name in ("#title", "#totals"):  # the rows of the list come first
            self.query_one(name).display = self.size.height >= _LOW
        left, right = self.query_one("#left"), self.query_one("#right")
        left.display = state.is_wide or state.pane is Pane.LIST
        right.display = state.is_wide or state.pane is Pane.DIFF
        left.styles.width = state.list_columns
        right.set_class(state.is_wide, "-wide")
        left.set_class(state.pane is Pane.LIST, "-active")
        right.set_class(state.pane is Pane.DIFF, "-active")

    def _show_titles(self, state: State) -> None:
        source, cells = self._source, self.size.width
        session = crop(clean(source.session), cells // 4)
        command = crop_words(clean(" ".join(source.command)), max(cells // 4, cells * 3 // 5 - width(session) - 6))
        root = crop_start(clean(source.root), cells - width(command) - width(session) - 18)
        right = [Piece(f"{command} · {session} ", Tone.DIM)]
        self.query_one("#title", Bar).show([Piece(" agent-dev ", Tone.STRONG), Piece(f" {root}")], right)
        self.query_one("#left-title", Bar).show(_tabs(state, state.list_columns))
        self.query_one("#right-title", Bar).show(*self._right_title(state))

    def _right_title(self, state: State) -> tuple[Sequence[Piece], Sequence[Piece]]:
        change = state.change
        if change is None and state.tab is not Tab.CHANGES and not state.is_wide:
            count, at = _count(state, state.tab), state.cursor + 1
            return [Piece(f" {state.tab} {at:,} of {count:,}" if at <= count else f" beside the {state.tab}", "accent")], ()
        if change is None:
            return (), ()
        is_chosen, is_part = change.key in state.selection, change.key in state.selection.choices
        said = "part chosen " if is_part else "chosen " if is_chosen else "not chosen " if change.is_clean else ""
        box = Piece(said, "chosen" if is_chosen else Tone.DIM)
        starts = state.diff.document.starts
        at = sum(start <= state.diff.cursor for start in starts)
        what = "conflict" if state.diff.document.conflicts > 0 else "block"
        where = Piece(f"{what} {at} of {len(starts)}  " if at else "", Tone.DIM)
        name = crop_start(
            clean(words.name(change.key, self._source.roots)), state.diff_columns - len(box.text) - len(where.text) - 3
        )
        return [Piece(f" {name}", Tone.STRONG)], [where, box]

    # Keys

    def action_do(self, name: str) -> None:
        """Send what a binding means."""
        event = REVIEW[name][2]
        if event is None:
            view: RowView = self.query_one(ChangeList) if self._state.pane is Pane.LIST else self.query_one(DiffView)
            event = Moved((1 if name == "page.down" else -1) * max(1, view.size.height - 1))
        self._send(event)

    # The mouse

    @on(RowView.Clicked, "#changes")
    def _click_change(self, event: RowView.Clicked) -> None:
        self._send(MovedTo(event.row, Pane.LIST))
        if event.column - self._indent(event.row) in change_list.BOX:
            self._send(Toggled(event.row, Pane.LIST))
        elif event.is_double or not isinstance(self._state.row, ChangeRow):
            self._send(Entered())

    def _indent(self, index: int) -> int:
        rows = self._state.listing.rows if self._state.tab is Tab.CHANGES else ()
        group = getattr(rows[index], "group", None) if index < len(rows) else None
        return 2 * self._state.listing.groups[group].depth if group is not None else 0

    @on(RowView.Clicked, "#diff")
    def _click_diff(self, event: RowView.Clicked) -> None:
        self._send(MovedTo(event.row, Pane.DIFF))
        if event.column in diff_view.BOX or event.is_double:
            self._send(Toggled(event.row, Pane.DIFF))


def _hints(state: State) -> list[tuple[str, str]]:
    if state.tab is not Tab.CHANGES and state.pane is Pane.DIFF:
        return _ENTRY
    if state.tab is not Tab.CHANGES:
        return _COMMITS if state.tab is Tab.COMMITS else _ENTRIES
    if state.diff.document.conflicts >= 0 and state.change is not None:
        return [*_ALWAYS, *_of_conflict(state, state.change), ("escape", "list")]
    return [*_ALWAYS, *(_LIST if state.pane is Pane.LIST else _of_blocks(state))]


def _of_blocks(state: State) -> list[tuple[str, str]]:
    taken, other = ("line", "blocks") if state.looks.is_lines else ("block", "lines")
    return [("toggle", taken), ("lines", other), *_DIFF]


def _of_conflict(state: State, change: Change) -> list[tuple[str, str]]:
    """Return the ways out that there are: of what has no lines both are kept only where commits bring two kinds of things."""
    sides, lines = [("mine", "yours"), ("agents", "agent's")], state.diff.document.conflicts > 0
    kinds = {one.type for one in (change.mine, change.after) if one is not None}
    both = [("both", "both")] if lines or (state.is_settling and len(kinds) > 1) else []
    return [*sides, *both, *([("edit", "edit")] if lines else [])]


def _tabs(state: State, cells: int) -> list[Piece]:
    """Return the tabs that hold something, the one that is shown in words; of the others less where there is little room."""
    variants = [_tabs_as(state, *shapes) for shapes in _TABS]
    return next((one for one in variants if sum(width(clean(piece.text)) for piece in one) <= cells), variants[-1])


def _tabs_as(state: State, this: str, other: str) -> list[Piece]:
    found: list[Piece] = []
    for number, tab in enumerate(Tab, 1):
        count = _count(state, tab)
        if tab is state.tab:
            shown = len(state.listing.group_of) if tab is Tab.CHANGES else count
            of = f"{shown:,} of " if shown != count else ""
            found.append(Piece(this.format(number, tab, f"{of}{count:,}"), "accent"))
        elif count:
            found.append(Piece(other.format(number, tab, f"{count:,}"), Tone.DIM))
    if state.listing.sieve.text:
        found.append(Piece(f" ⌕ {state.listing.sieve.text}", Tone.CHANGED))
    return found


def _count(state: State, tab: Tab) -> int:
    """Return how many a tab holds; where there are commits, what is told beside them does not count."""
    if tab is Tab.CHANGES:
        return len(state.changes.changes)
    return (tab is Tab.COMMITS and commits.count(state)) or len(state.tabs.get(tab, ()))


def _totals(state: State, cells: int) -> list[Piece]:
    if state.tab is Tab.COMMITS:
        picked = len(state.picked_entries)
        return [
            Piece(f" {picked:,} of {words.number(commits.count(state), 'commit')} chosen", "chosen" if picked else Tone.STRONG)
        ]
    if state.is_settling:  # what they bring is known when each is settled: there are no lines to count
        done = state.chosen.changes
        return [
            Piece(
                f" {done:,} of {words.number(len(state.changes.changes), 'conflict')} settled", "chosen" if done else Tone.STRONG
            )
        ]
    chosen, rest = sentence(state.chosen, state.whole, cells)
    return [Piece(chosen, "chosen" if state.chosen.changes else Tone.STRONG), Piece(rest)]
