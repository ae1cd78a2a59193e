"""The comparison as a full-screen application."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen

from tui.comparison.table import Comparison, TableLine, move, table_lines
from tui.events import Event
from tui.keys.key_names import hint_pieces, keys_by_binding
from tui.model.document import PageLine, Tone
from tui.screens.question import PageScreen, lines_as_pieces
from tui.screens.single_screen import SingleScreenApp
from tui.terminal.terminal_setup import prepare_terminal
from tui.theme import DARK
from tui.widgets.bars import Bar
from tui.widgets.paint import Piece
from tui.widgets.row_view import RowView

DiffReader = Callable[[int], tuple[PageLine, ...]]  # of the attempt in a row, against the best one
_HINTS = (
    ("comparison.open", "review"),
    ("comparison.up comparison.down", "move"),
    ("comparison.diff", "diff against the best"),
    ("comparison.quit", "quit"),
)


def run_comparison(comparison: Comparison, read_diff: DiffReader, theme: str = DARK.name) -> tuple[int, int | None]:
    """Let the user select an attempt; return the exit code and its row, None if the user quits."""
    with prepare_terminal():  # around the constructor too: App reads COLUMNS
        app = ComparisonApp(comparison, read_diff, theme)
        app.run()
    return app.return_code or 0, app.selected


class _TableRows(RowView):
    """The lines of the comparison."""

    def __init__(self) -> None:
        super().__init__(id="comparison")
        self.lines: list[TableLine] = []
        self._cursor = -1

    def show(self, lines: list[TableLine], cursor: int) -> None:
        """Draw lines, and scroll to the cursor."""
        self.lines, self._cursor = lines, cursor
        self.set_row_count(len(lines))
        self.reveal(next((number for number, one in enumerate(lines) if one.row == cursor), 0))
        self.update_rows()

    def row_pieces(self, index: int, _cells: int) -> Iterable[Piece]:
        """Return the piece of a line."""
        return [Piece(self.lines[index].text, self.lines[index].tone)] if index < len(self.lines) else ()

    def row_classes(self, index: int) -> tuple[str, ...]:
        """Mark the row under the cursor."""
        return ("cursor",) if index < len(self.lines) and self.lines[index].row == self._cursor else ()


class ComparisonScreen(Screen[None], inherit_bindings=False):
    """The title, the table, and the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "review", id="comparison.open"),
        Binding("up,k", "move(-1)", "up", id="comparison.up"),
        Binding("down,j", "move(1)", "down", id="comparison.down"),
        Binding("home,g", "move(-1000)", "first", id="comparison.first"),
        Binding("end,G", "move(1000)", "last", id="comparison.last"),
        Binding("d", "diff", "diff against the best", id="comparison.diff"),
        Binding("escape,q,ctrl+c,ctrl+q", "quit", "quit", id="comparison.quit"),
    ]

    def __init__(self, comparison: Comparison, read_diff: DiffReader) -> None:
        super().__init__()
        self.comparison, self._read_diff = comparison, read_diff
        self.selected: int | None = None
        self._head, self._rows, self._foot = Bar(id="title"), _TableRows(), Bar(id="keys")

    def compose(self) -> ComposeResult:
        """Lay out the title, the table and the keys."""
        yield from (self._head, self._rows, self._foot)

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.call_after_refresh(self._draw)

    def on_resize(self, _event: Resize) -> None:
        """Wrap the texts to the new width."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        self._head.show([Piece(" agent-dev  ", Tone.DIM), Piece(f"{len(self.comparison.rows)} attempts", Tone.STRONG)])
        self._rows.show(table_lines(self.comparison, self._rows.size.width), self.comparison.cursor)
        self._foot.show(hint_pieces(_HINTS, keys_by_binding(self), self._foot.size.width))

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.comparison = move(self.comparison, by)
        self._draw()

    def action_open(self) -> None:
        """Select the attempt under the cursor, if it has a session."""
        if self.comparison.row.has_session:
            self.selected = self.comparison.cursor
            self.app.exit()

    @on(RowView.Clicked)
    def _click(self, event: RowView.Clicked) -> None:
        row = self._rows.lines[event.row].row
        if row >= 0:
            self.action_move(row - self.comparison.cursor)
            if event.is_double:
                self.action_open()

    def action_diff(self) -> None:
        """Show the diff between the best attempt and the one under the cursor, or why there is none."""
        row = self.comparison.row
        lines: tuple[PageLine, ...] = (PageLine(Tone.PLAIN, "this is the best attempt: move to another one"),)
        if not row.has_session:
            lines = (PageLine(Tone.PLAIN, "this attempt has no session"),)
        elif not row.is_best:
            lines = self._read_diff(self.comparison.cursor)
        self.app.push_screen(PageScreen("Diff from the best attempt to this one", lines_as_pieces(lines), self._close_page))

    def _close_page(self, _event: Event) -> None:
        self.app.pop_screen()

    def action_quit(self) -> None:
        """Quit without an attempt."""
        self.app.exit()


class ComparisonApp(SingleScreenApp, inherit_bindings=False):
    """The application of one comparison."""

    def __init__(self, comparison: Comparison, read_diff: DiffReader, theme: str = DARK.name) -> None:
        self._comparison = ComparisonScreen(comparison, read_diff)
        super().__init__(self._comparison, theme)

    @property
    def selected(self) -> int | None:
        """The row of the selected attempt; None if the user quit."""
        return self._comparison.selected
