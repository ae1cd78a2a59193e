"""The review screen: changes on the left, the diff on the right, status, totals and keys below."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.screen import Screen

from agent_dev.overlay.changes import Change
from agent_dev.overlay.labels import display_path, format_count
from tui.events import CursorMoved, CursorMovedTo, EnterPressed, Event, Pane, Resized, TabSelected, Toggled
from tui.keys.bindings import REVIEW_BINDINGS, review_bindings
from tui.keys.key_names import KeysByBinding, clicked_binding, hint_pieces, keys_by_binding
from tui.model.change_list import ChangeRow
from tui.model.document import Tone
from tui.model.tabs import Tab
from tui.model.totals import format_totals
from tui.page_text import commits
from tui.source import ReviewedSession
from tui.state import ScreenPage, State
from tui.text.cells import clean_text, crop, crop_start, crop_words, width
from tui.update import resolution
from tui.widgets import change_list, diff_view
from tui.widgets.bars import Bar
from tui.widgets.change_list import ChangeList
from tui.widgets.diff_view import DiffView
from tui.widgets.paint import Piece
from tui.widgets.row_view import RowView

Send = Callable[[Event], None]

_LOW, _NARROW = 8, 30  # rows and columns below which less is shown
_TABS = (  # the current tab, the others
    (" [{0}] {1} {2} ", " [{0}] {1} {2} "),
    (" [{0}] {1} {2}", " [{0}] {1}"),
    (" [{0}] {1} {2}", " [{0}]"),
)
_ALWAYS = [("apply", "apply"), ("quit", "quit"), ("help", "help")]
_LIST = [("select", "select"), ("activate", "open"), ("select.all", "all safe"), ("filter", "filter"), ("search", "search")]
_DIFF = [("cancel", "list"), ("hunk.next", "next"), ("show.split", "side by side")]
_COMMITS = [
    ("apply", "import"),
    ("quit", "quit"),
    ("help", "help"),
    ("select", "select"),
    ("activate", "details"),
    ("select.all", "all"),
    ("cancel", "changes"),
]
_ENTRIES = [("quit", "quit"), ("help", "help"), ("activate", "details"), ("cancel", "changes")]
_COMMIT = [
    ("apply", "import"),
    ("quit", "quit"),
    ("help", "help"),
    ("select", "select"),
    ("hunk.next", "next file"),
    ("change.next", "next commit"),
    ("cancel", "list"),
]
_ENTRY = [("quit", "quit"), ("help", "help"), ("cancel", "list")]


class ReviewScreen(Screen[None], inherit_bindings=False):
    """The main screen: it draws the state and turns keys and clicks into events."""

    BINDINGS: ClassVar[list[BindingType]] = review_bindings()

    def __init__(self, source: ReviewedSession, state: State, send: Send) -> None:
        super().__init__()
        self._source, self._state, self._send = source, state, send
        self._keys: KeysByBinding = {}

    def compose(self) -> ComposeResult:
        """Lay out the bars and panes."""
        yield Bar(id="title")
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield Bar(id="left-title", classes="pane-title")
                yield ChangeList(self._state, self._source)
            with Vertical(id="right"):
                yield Bar(id="right-title", classes="pane-title")
                yield DiffView(self._state)
        yield Bar(id="status")
        yield Bar(id="totals")
        yield Bar(id="keys")

    def on_mount(self) -> None:
        """Draw for the first time."""
        self._keys = keys_by_binding(self)
        self.show(self._state)

    def on_resize(self, event: Resize) -> None:
        """Report the new width, and keep the cursors visible."""
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
        is_over = state.page is ScreenPage.RESULT and state.may_have_changed  # the selection was applied: its totals are outdated
        self.query_one(ChangeList).show(state)
        self.query_one(DiffView).show(state)
        self._show_titles(state)
        cells = self.size.width
        self.query_one("#status", Bar).show([] if is_over else self._message(state))
        self.query_one("#totals", Bar).show([] if is_over else _totals(state, cells))
        self.query_one("#keys", Bar).show([] if is_over else hint_pieces(_hints(state), self._keys, cells))

    def _message(self, state: State) -> list[Piece]:
        if state.message:
            return [Piece(f" {crop_words(clean_text(state.message), self.size.width - 1)}", "accent")]
        if self._is_small:
            return [Piece(" terminal too small", Tone.RISK)]
        if state.is_running:
            return [Piece(" the agent is still running: these are its changes so far", Tone.RISK)]
        if state.is_resolving:
            return [Piece(" resolve all conflicts to import the commits", Tone.RISK)]
        return [Piece(f" {commits.status_message(state)}", Tone.DIM)] if state.tabs.get(Tab.COMMITS) else []

    @property
    def _is_small(self) -> bool:
        return self.size.height < _LOW or self.size.width < _NARROW

    def _arrange(self, state: State) -> None:
        for name in ("#title", "#totals"):  # hidden on small terminals in favour of the list
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
        session = crop(clean_text(source.session), cells // 4)
        command = crop_words(clean_text(" ".join(source.command)), max(cells // 4, cells * 3 // 5 - width(session) - 6))
        root = crop_start(clean_text(source.root), cells - width(command) - width(session) - 18)
        right = [Piece(f"{command} · {session} ", Tone.DIM)]
        self.query_one("#title", Bar).show([Piece(" agent-dev ", Tone.STRONG), Piece(f" {root}")], right)
        self.query_one("#left-title", Bar).show(_tabs(state, state.list_columns))
        self.query_one("#right-title", Bar).show(*self._right_title(state))

    def _right_title(self, state: State) -> tuple[Sequence[Piece], Sequence[Piece]]:
        change = state.change
        if change is None and state.tab is not Tab.CHANGES and not state.is_wide:
            count, number, title = _count(state, state.tab), state.cursor + 1, state.tab.capitalize()
            return [Piece(f" {title} {number:,} of {count:,}" if number <= count else f" {title}: more", "accent")], ()
        if change is None:
            return (), ()
        is_selected = change.key in state.selection
        is_part = change_list.is_partly_selected(state, self._source, change.key)
        label = "partly selected " if is_part else "selected " if is_selected else "not selected " if change.is_clean else ""
        marker = Piece(label, "selected" if is_selected else Tone.DIM)
        starts = state.diff.document.hunk_rows
        number = sum(start <= state.diff.cursor for start in starts)
        noun = "conflict" if state.diff.document.conflict_count == len(starts) else "hunk"
        position = Piece(f"{noun} {number} of {len(starts)}  " if number else "", Tone.DIM)
        name = crop_start(
            clean_text(display_path(change.key, self._source.roots)),
            state.diff_columns - len(marker.text) - len(position.text) - 3,
        )
        return [Piece(f" {name}", Tone.STRONG)], [position, marker]

    # Keys

    def action_do(self, name: str) -> None:
        """Send the event of a binding."""
        event = REVIEW_BINDINGS[name][2]
        if event is None:
            view: RowView = self.query_one(ChangeList) if self._state.pane is Pane.LIST else self.query_one(DiffView)
            event = CursorMoved((1 if name == "page.down" else -1) * max(1, view.size.height - 1))
        self._send(event)

    # The mouse

    @on(Bar.Clicked, "#left-title")
    def _click_tab(self, event: Bar.Clicked) -> None:
        tabs = [tab for number, tab in enumerate(Tab, 1) if event.pieces[event.index].text.strip().startswith(f"[{number}]")]
        for tab in tabs:
            self._send(TabSelected(tab))

    @on(Bar.Clicked, "#keys")
    def _click_hint(self, event: Bar.Clicked) -> None:
        if name := clicked_binding(event.pieces, event.index, self._keys):
            self.action_do(name)

    @on(RowView.Clicked, "#changes")
    def _click_change(self, event: RowView.Clicked) -> None:
        self._send(CursorMovedTo(event.row, Pane.LIST))
        if event.column - self._indent(event.row) in change_list.CHECKBOX_COLUMNS:
            self._send(Toggled(event.row, Pane.LIST))
        elif event.is_double or not isinstance(self._state.row, ChangeRow):
            self._send(EnterPressed())

    def _indent(self, index: int) -> int:
        rows = self._state.listing.rows if self._state.tab is Tab.CHANGES else ()
        group = getattr(rows[index], "group", None) if index < len(rows) else None
        return 2 * self._state.listing.groups[group].depth if group is not None else 0

    @on(RowView.Clicked, "#diff")
    def _click_diff(self, event: RowView.Clicked) -> None:
        self._send(CursorMovedTo(event.row, Pane.DIFF))
        if event.column in diff_view.CHECKBOX_COLUMNS or event.is_double:
            self._send(Toggled(event.row, Pane.DIFF))


def _hints(state: State) -> list[tuple[str, str]]:
    if state.tab is not Tab.CHANGES and state.pane is Pane.DIFF:
        return _COMMIT if state.tab is Tab.COMMITS and state.entry is not None and state.entry.id else _ENTRY
    if state.tab is not Tab.CHANGES:
        return _COMMITS if state.tab is Tab.COMMITS else _ENTRIES
    if state.diff.document.conflict_count >= 0 and state.change is not None:
        return [*_ALWAYS, *_conflict_hints(state, state.change), ("cancel", "list")]
    return [*_ALWAYS, *(_LIST if state.pane is Pane.LIST else _hunk_hints(state))]


def _hunk_hints(state: State) -> list[tuple[str, str]]:
    unit, other = ("line", "hunks") if state.display_options.selects_lines else ("hunk", "lines")
    return [("select", f"select {unit}"), ("select.lines", other), *_DIFF]


def _conflict_hints(state: State, change: Change) -> list[tuple[str, str]]:
    """Return hints for possible resolutions. A conflict of whole files has "both" only in an import, if the types differ."""
    sides, lines = [("resolve.yours", "yours"), ("resolve.agent", "agent's")], state.diff.document.conflict_count > 0
    kinds = {one.type for one in (change.yours, change.after) if one is not None}
    both = [("resolve.both", "both")] if lines or (state.is_resolving and len(kinds) > 1) else []
    if resolution.edits_at(state, None, state.pane):
        return [("select", "apply or leave out"), *sides]
    return [*sides, *both, *([("resolve.edit", "edit")] if lines else [])]


def _tabs(state: State, cells: int) -> list[Piece]:
    """Return the tabs that have entries; if space is short, all but the current one lose their counts, then their names."""
    variants = [_format_tabs(state, *formats, len(Tab)) for formats in _TABS]
    variants[-1:] = [_format_tabs(state, *_TABS[-2], named) for named in range(len(Tab) - 1, -1, -1)]
    return next((one for one in variants if sum(width(clean_text(piece.text)) for piece in one) <= cells), variants[-1])


def _format_tabs(state: State, current: str, other: str, named: int) -> list[Piece]:
    """Return the tabs; apart from the current one, only the first `named` tabs with entries have names."""
    pieces: list[Piece] = []
    for number, tab in enumerate(Tab, 1):
        count = _count(state, tab)
        if tab is state.tab:
            shown = len(state.listing.group_of) if tab is Tab.CHANGES else count
            of = f"{shown:,} of " if shown != count else ""
            pieces.append(Piece(current.format(number, tab.capitalize(), f"{of}{count:,}"), "accent"))
        elif count:
            form = other if named > 0 else _TABS[-1][1]
            named -= 1
            pieces.append(Piece(form.format(number, tab.capitalize(), f"{count:,}"), Tone.DIM))
    if state.listing.filter.text:
        pieces.append(Piece(f" ⌕ {state.listing.filter.text}", Tone.CHANGED))
    return pieces


def _count(state: State, tab: Tab) -> int:
    """Return the number of entries of a tab; on the Commits tab, of the commits, if there are any."""
    if tab is Tab.CHANGES:
        return len(state.changes.changes)
    return (tab is Tab.COMMITS and commits.count_commits(state)) or len(state.tabs.get(tab, ()))


def _totals(state: State, cells: int) -> list[Piece]:
    if state.tab is Tab.COMMITS:
        count = len(state.selected_commit_entries)
        text = f" {count:,} of {format_count(commits.count_commits(state), 'commit')} selected"
        return [Piece(text, "selected" if count else Tone.STRONG)]
    if state.is_resolving:  # the result, and so its lines, is known only when all are resolved
        count = state.selected_totals.changes
        text = f" {count:,} of {format_count(len(state.changes.changes), 'conflict')} resolved"
        return [Piece(text, "selected" if count else Tone.STRONG)]
    selected, rest = format_totals(state.selected_totals, state.totals, cells)
    return [Piece(selected, "selected" if state.selected_totals.changes else Tone.STRONG), Piece(rest)]
