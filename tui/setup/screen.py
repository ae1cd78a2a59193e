"""The form as a full-screen application."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen

from tui.keys.key_names import hint_pieces, keys_by_binding
from tui.model.document import Tone
from tui.screens.single_screen import SingleScreenApp
from tui.setup.form import Form, FormRow, Picks, back, confirm, form_rows, move, toggle
from tui.terminal.terminal_setup import prepare_terminal
from tui.theme import DARK
from tui.widgets.bars import Bar
from tui.widgets.paint import Piece
from tui.widgets.row_view import RowView

_HINTS = (
    ("setup.confirm", "next"),
    ("setup.toggle", "select"),
    ("setup.up setup.down", "move"),
    ("setup.back", "back"),
    ("setup.cancel", "quit"),
    ("setup.page.down", "scroll"),
)


def run_form(form: Form, title: str, theme: str = DARK.name) -> tuple[int, Picks | None]:
    """Let the user answer the questions; return the exit code and what is selected, None if the user quits."""
    with prepare_terminal():  # around the constructor too: App reads COLUMNS
        app = SetupApp(form, title, theme)
        app.run()
    return app.return_code or 0, app.form.picks if app.form.is_done else None


class _Rows(RowView):
    """The rows of the current page."""

    def __init__(self) -> None:
        super().__init__(id="form")
        self._rows: list[FormRow] = []

    def show(self, rows: list[FormRow], *, is_new: bool) -> None:
        """Draw rows, and scroll to the cursor, on a new page to the top."""
        self._rows = rows
        self.set_row_count(len(rows))
        if is_new:
            self.scroll_to(y=0, animate=False, force=True)
        self.reveal(next((number for number, row in enumerate(rows) if row.is_cursor), 0))
        self.update_rows()

    def row_pieces(self, index: int, _cells: int) -> Iterable[Piece]:
        """Return the piece of a row."""
        return [Piece(self._rows[index].text, self._rows[index].tone)] if index < len(self._rows) else ()

    def row_classes(self, index: int) -> tuple[str, ...]:
        """Mark the row under the cursor."""
        return ("cursor",) if index < len(self._rows) and self._rows[index].is_cursor else ()


class SetupScreen(Screen[None], inherit_bindings=False):
    """The title, the question with its answers, and the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "do('confirm')", "next", id="setup.confirm"),
        Binding("space", "do('toggle')", "select", id="setup.toggle"),
        Binding("up,k", "move(-1)", "up", id="setup.up"),
        Binding("down,j", "move(1)", "down", id="setup.down"),
        Binding("left,backspace,h", "do('back')", "back", id="setup.back"),
        Binding("right,l", "do('confirm')", "next", id="setup.next"),
        Binding("escape,q,ctrl+c,ctrl+q", "cancel", "quit", id="setup.cancel"),
        Binding("pagedown,ctrl+f", "scroll_page(1)", "page down", id="setup.page.down"),
        Binding("pageup,ctrl+b", "scroll_page(-1)", "page up", id="setup.page.up"),
    ]

    def __init__(self, form: Form, title: str) -> None:
        super().__init__()
        self.form, self._title = form, title
        self._head, self._rows, self._foot = Bar(id="title"), _Rows(), Bar(id="keys")

    def compose(self) -> ComposeResult:
        """Lay out the title, the page and the keys."""
        yield from (self._head, self._rows, self._foot)

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.call_after_refresh(self._draw, is_new=True)

    def on_resize(self, _event: Resize) -> None:
        """Wrap the texts to the new width."""
        self.call_after_refresh(self._draw, is_new=False)

    def _draw(self, *, is_new: bool) -> None:
        form = self.form
        self._head.show(
            [Piece(f" {self._title}  ", Tone.DIM), Piece(form.question.title, Tone.STRONG)],
            [Piece(f" {form.page + 1}/{len(form.questions)} ", Tone.DIM)],
        )
        self._rows.show(form_rows(form, self._rows.size.width), is_new=is_new)
        self._foot.show(hint_pieces(_HINTS, keys_by_binding(self), self._foot.size.width))

    def _change(self, form: Form) -> None:
        is_new = form.page != self.form.page
        self.form = form
        if form.is_done:
            self.app.exit()
        else:
            self._draw(is_new=is_new)

    def action_do(self, name: str) -> None:
        """Change the form."""
        changes: dict[str, Callable[[Form], Form]] = {"confirm": confirm, "toggle": toggle, "back": back}
        self._change(changes[name](self.form))

    def action_move(self, by: int) -> None:
        """Move the cursor; at the last answer, scroll on to the preview."""
        form = move(self.form, by)
        if form.cursor == self.form.cursor:
            self._rows.scroll_relative(y=by, animate=False, force=True)
        else:
            self._change(form)

    def action_scroll_page(self, by: int) -> None:
        """Scroll by pages."""
        self._rows.scroll_relative(y=by * max(1, self._rows.size.height - 1), animate=False, force=True)

    def action_cancel(self) -> None:
        """Quit without an answer."""
        self.app.exit()


class SetupApp(SingleScreenApp, inherit_bindings=False):
    """The application of one form."""

    def __init__(self, form: Form, title: str, theme: str = DARK.name) -> None:
        self._form_screen = SetupScreen(form, title)
        super().__init__(self._form_screen, theme)

    @property
    def form(self) -> Form:
        """The form with the answers so far."""
        return self._form_screen.form
