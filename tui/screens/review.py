"""The screen itself: changes at the left, the diff at the right, the truth in numbers and the way out below."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.screen import Screen

from tui import words
from tui.cells import clean, crop, crop_start, width
from tui.document import Document, Tone
from tui.events import (
    AllToggled,
    ApplyAsked,
    Backed,
    BlockMoved,
    ChangeMoved,
    Entered,
    Escaped,
    Event,
    HelpAsked,
    LeaveAsked,
    Moved,
    MovedTo,
    Opened,
    Pane,
    PaneSwapped,
    Resized,
    Shifted,
    Toggled,
)
from tui.keys import Keys, hints, keys
from tui.rows import ChangeRow
from tui.source import Source
from tui.state import State
from tui.summary import stay
from tui.totals import sentence
from tui.widgets.bars import Bar
from tui.widgets.change_list import BOX, ChangeList
from tui.widgets.diff_view import DiffView
from tui.widgets.paint import Piece
from tui.widgets.row_view import RowView

Send = Callable[[Event], None]

_EVENTS: dict[str, Event] = {
    "toggle": Toggled(),
    "toggle_all": AllToggled(),
    "enter": Entered(),
    "open": Opened(),
    "back": Backed(),
    "escape": Escaped(),
    "swap": PaneSwapped(),
    "apply": ApplyAsked(),
    "leave": LeaveAsked(),
    "help": HelpAsked(),
}

_ALWAYS = [("apply", "apply"), ("leave", "leave"), ("help", "help")]
_HINTS = {
    Pane.LIST: [*_ALWAYS, ("toggle", "choose"), ("enter", "open"), ("all", "all safe"), ("block.previous block.next", "block")],
    Pane.DIFF: [
        *_ALWAYS,
        ("toggle", "choose"),
        ("escape", "list"),
        ("change.next", "next"),
        ("block.previous block.next", "block"),
    ],
}


class ReviewScreen(Screen[None], inherit_bindings=False):
    """Shows the state; keys and clicks become events."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "send('toggle')", "choose, or leave again", id="toggle"),
        Binding("A", "send('toggle_all')", "choose all that is safe, or nothing", id="all"),
        Binding("enter", "send('enter')", "see the diff; open or close a directory", id="enter"),
        Binding("j,down", "move(1)", "down", id="down"),
        Binding("k,up", "move(-1)", "up", id="up"),
        Binding("pagedown,ctrl+f", "page(1)", "a page down", id="page.down"),
        Binding("pageup,ctrl+b", "page(-1)", "a page up", id="page.up"),
        Binding("home,g", "edge(0)", "to the first row", id="first"),
        Binding("end,G", "edge(-1)", "to the last row", id="last"),
        Binding("n", "change(1)", "next change", id="change.next"),
        Binding("N", "change(-1)", "previous change", id="change.previous"),
        Binding("right_square_bracket", "block(1)", "next block of the diff", id="block.next"),
        Binding("left_square_bracket", "block(-1)", "previous block of the diff", id="block.previous"),
        Binding("tab,shift+tab", "send('swap')", "the other pane", id="swap"),
        Binding("l,right", "send('open')", "in: directory, change, diff", id="open"),
        Binding("h,left", "send('back')", "out again", id="back"),
        Binding("L,shift+right", "shift(8)", "long lines: to the right", id="shift.right"),
        Binding("H,shift+left", "shift(-8)", "long lines: to the left", id="shift.left"),
        Binding("c,ctrl+s", "send('apply')", "apply, after a summary and a question", id="apply"),
        Binding("escape", "send('escape')", "back to the list, then leave", id="escape"),
        Binding("q,ctrl+q,ctrl+c", "send('leave')", "leave without merging", id="leave"),
        Binding("question_mark,f1", "send('help')", "this help", id="help"),
    ]

    def __init__(self, source: Source, state: State, document: Document, send: Send) -> None:
        super().__init__()
        self._source, self._send = source, send
        self._state, self._document = state, document
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
                yield DiffView(self._state, self._document)
        yield Bar(id="word")
        yield Bar(id="totals")
        yield Bar(id="keys")

    def on_mount(self) -> None:
        """Draw for the first time."""
        self._keys = keys(self)
        self.show(self._state, self._document)

    def on_resize(self, event: Resize) -> None:
        """Say how many columns there are now, and keep the cursors in sight."""
        self._send(Resized(event.size.width))
        self.call_after_refresh(self._reveal)

    def _reveal(self) -> None:
        self.query_one(ChangeList).reveal(self._state.cursor)
        self.query_one(DiffView).reveal(self._state.diff.cursor)

    def show(self, state: State, document: Document) -> None:
        """Draw a state."""
        self._state, self._document = state, document
        if not self.is_mounted:
            return
        self._arrange(state)
        self.query_one(ChangeList).show(state)
        self.query_one(DiffView).show(state, document)
        self._show_titles(state)
        cells = self.size.width
        word = state.word or (stay(len(self._source.commits)) if self._source.commits else "")
        self.query_one("#word", Bar).show([Piece(f" {word}", "accent" if state.word else Tone.DIM)])
        self.query_one("#totals", Bar).show(_totals(state, cells))
        self.query_one("#keys", Bar).show(hints(_HINTS[state.pane], self._keys, cells))

    def _arrange(self, state: State) -> None:
        left, right = self.query_one("#left"), self.query_one("#right")
        left.display = state.is_wide or state.pane is Pane.LIST
        right.display = state.is_wide or state.pane is Pane.DIFF
        left.styles.width = state.list_columns
        right.set_class(state.is_wide, "-wide")
        left.set_class(state.pane is Pane.LIST, "-active")
        right.set_class(state.pane is Pane.DIFF, "-active")

    def _show_titles(self, state: State) -> None:
        source, cells = self._source, self.size.width
        command = crop(clean(" ".join(source.command)), cells // 4)
        session = crop(clean(source.session), cells // 4)
        root = crop_start(clean(source.root), cells - width(command) - width(session) - 18)
        right = [Piece(f"{command} · {session} ", Tone.DIM)]
        self.query_one("#title", Bar).show([Piece(" agent-dev ", Tone.STRONG), Piece(f" {root}")], right)
        self.query_one("#left-title", Bar).show(_count(state))
        self.query_one("#right-title", Bar).show(*self._right_title(state))

    def _right_title(self, state: State) -> tuple[Sequence[Piece], Sequence[Piece]]:
        change = state.change
        if change is None:
            return (), ()
        is_chosen = change.key in state.selection
        box = Piece("chosen " if is_chosen else "not chosen " if change.is_clean else "", "chosen" if is_chosen else Tone.DIM)
        blocks = state.diff.starts
        at = sum(start <= state.diff.cursor for start in blocks)
        where = Piece(f"block {at} of {len(blocks)}  " if at else "", Tone.DIM)
        name = crop_start(
            clean(words.name(change.key, self._source.roots)), state.diff_columns - len(box.text) - len(where.text) - 3
        )
        return [Piece(f" {name}", Tone.STRONG)], [where, box]

    # Keys

    def action_send(self, name: str) -> None:
        """Send an event without values."""
        self._send(_EVENTS[name])

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._send(Moved(by))

    def action_page(self, by: int) -> None:
        """Move the cursor by what is in sight."""
        view: RowView = self.query_one(ChangeList) if self._state.pane is Pane.LIST else self.query_one(DiffView)
        self._send(Moved(by * max(1, view.size.height - 1)))

    def action_edge(self, row: int) -> None:
        """Move the cursor to an end."""
        self._send(MovedTo(row))

    def action_change(self, by: int) -> None:
        """Go to the next change."""
        self._send(ChangeMoved(by))

    def action_block(self, by: int) -> None:
        """Go to the next block."""
        self._send(BlockMoved(by))

    def action_shift(self, by: int) -> None:
        """See another part of long lines."""
        self._send(Shifted(by))

    # The mouse

    @on(RowView.Clicked, "#changes")
    def _click_change(self, event: RowView.Clicked) -> None:
        self._send(MovedTo(event.row, Pane.LIST))
        if event.column in BOX:
            self._send(Toggled(event.row))
        elif event.is_double or not isinstance(self._state.row, ChangeRow):
            self._send(Entered())

    @on(RowView.Clicked, "#diff")
    def _click_diff(self, event: RowView.Clicked) -> None:
        self._send(MovedTo(event.row, Pane.DIFF))


def _count(state: State) -> list[Piece]:
    ignored = sum(len(group.changes) for group in state.listing.groups if group.is_ignored)
    shown = Piece(f" {words.number(state.whole.changes - ignored, 'change')}")
    return [shown, Piece(f", {ignored:,} ignored", Tone.DIM)] if ignored else [shown]


def _totals(state: State, cells: int) -> list[Piece]:
    chosen, rest = sentence(state.chosen, state.whole, cells)
    return [Piece(chosen, "chosen" if state.chosen.changes else Tone.STRONG), Piece(rest)]
