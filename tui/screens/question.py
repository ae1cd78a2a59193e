"""Pages to read, and questions with *No* focused first and a separate key for yes."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Resize
from textual.screen import ModalScreen

from tui.events import Answered, AnswerFocusMoved, Cancelled, Event
from tui.keys.bindings import SUSPEND
from tui.keys.key_names import hint_pieces, keys_by_binding
from tui.model.document import PageLine, Tone
from tui.state import WIDE_COLUMNS, State
from tui.widgets.answers import Answers
from tui.widgets.bars import Bar, TextPage
from tui.widgets.paint import Piece

Send = Callable[[Event], None]

_YES_AND_NO = 2
_SCROLLING = ("page.line.down page.line.up", "scroll")
_COMMON: list[BindingType] = [
    Binding("j,down", "scroll(1)", "down", id="page.line.down"),
    Binding("k,up", "scroll(-1)", "up", id="page.line.up"),
    Binding("pagedown,ctrl+f,space", "scroll_page(1)", "page down", id="page.page.down"),
    Binding("pageup,ctrl+b", "scroll_page(-1)", "page up", id="page.page.up"),
    Binding("home,g", "scroll_edge(0)", "top", id="page.first"),
    Binding("end,G", "scroll_edge(1)", "end", id="page.last"),
    SUSPEND,
]


class PageScreen(ModalScreen[None], inherit_bindings=False):
    """A page over the review."""

    frame_rows: ClassVar[int] = 4  # rows around the text: title, keys, two blank ones
    BINDINGS: ClassVar[list[BindingType]] = [
        *_COMMON,
        Binding("escape,q,n,question_mark,f1,enter,ctrl+c,ctrl+q", "cancel", "back", id="page.back"),
    ]

    def __init__(self, title: str, lines: Sequence[Sequence[Piece]], send: Send, *, exit_label: str = "back") -> None:
        super().__init__()
        self._lines, self._send, self._exit_label = lines, send, exit_label
        # References, not queries: keys typed ahead may close the page before it is mounted.
        self._box, self._head, self._foot = Vertical(id="page"), Bar(id="page-title"), Bar(id="page-keys")
        self._page = TextPage(lines)
        self._head.show([Piece(f" {title}", Tone.STRONG)])

    def compose(self) -> ComposeResult:
        """Lay out the title, the text and the keys."""
        with self._box:
            yield self._head
            yield self._page
            yield from self.compose_below()
            yield self._foot

    def compose_below(self) -> ComposeResult:
        """Yield the widgets between the text and the keys."""
        yield from ()

    def footer_hints(self) -> Sequence[tuple[str, str]]:
        """Return the bindings for the footer, most important first."""
        return [("page.back", self._exit_label), _SCROLLING]

    def on_mount(self) -> None:
        """Show the keys."""
        self.call_after_refresh(self._show_keys)

    def on_resize(self, event: Resize) -> None:
        """Fit the height to the text, add a frame if there is space, and show as many keys as fit."""
        box = self._box
        is_framed, available = event.size.width >= WIDE_COLUMNS, event.size.height
        needed = len(self._lines) + self.frame_rows
        box.set_class(is_framed, "-framed")
        box.set_class(needed < available and not is_framed, "-lined")
        box.styles.height = min(needed + 2, available - 2 * is_framed)
        self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        if self.is_current:
            self._foot.show(hint_pieces(self.footer_hints(), keys_by_binding(self), self._foot.size.width))

    def show(self, state: State) -> None:
        """Do nothing: a page does not depend on the state."""

    def action_answer(self, answer: int | None) -> None:
        """Send an answer; None for the focused one."""
        self._send(Answered(answer))

    def action_cancel(self) -> None:
        """Go back."""
        self._send(Cancelled())

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self._page.scroll_relative(y=by, animate=False, force=True)

    def action_scroll_page(self, by: int) -> None:
        """Scroll by pages."""
        self._page.scroll_relative(y=by * max(1, self._page.size.height - 1), animate=False, force=True)

    def action_scroll_edge(self, is_last: int) -> None:
        """Scroll to the top or the end."""
        self._page.scroll_to(y=len(self._lines) if is_last else 0, animate=False, force=True)


class QuestionScreen(PageScreen, inherit_bindings=False):
    """A page with a question and its answers."""

    frame_rows: ClassVar[int] = 6
    BINDINGS: ClassVar[list[BindingType]] = [
        *_COMMON,
        Binding("y", "answer(1)", "yes", id="question.yes"),
        Binding("n", "answer(0)", "no", id="question.no"),
        Binding("escape,q,ctrl+c,ctrl+q", "cancel", "back", id="question.back"),
        Binding("enter", "answer(None)", "focused answer", id="question.confirm"),
        Binding("tab,right,l", "move(1)", "next answer", id="question.next"),
        Binding("shift+tab,left,h", "move(-1)", "previous answer", id="question.previous"),
    ]

    def __init__(self, page: tuple[str, Sequence[Sequence[Piece]]], answers: Sequence[str], send: Send) -> None:
        super().__init__(*page, send)
        self._labels, self._answers = answers, Answers(*answers)

    def footer_hints(self) -> Sequence[tuple[str, str]]:
        """Return the bindings for the footer; with more than two answers, `y` is labelled with its answer."""
        others = [("question.next", "next answer")] if len(self._labels) > _YES_AND_NO else []
        yes = self._labels[1] if others else "yes"
        return [("question.yes", yes), ("question.no", "no"), *others, ("question.back", "back"), _SCROLLING]

    def compose_below(self) -> ComposeResult:
        """Yield the answers."""
        yield self._answers

    def show(self, state: State) -> None:
        """Mark the answer in focus."""
        self._answers.show(state.focused_answer)

    def action_move(self, by: int) -> None:
        """Focus another answer."""
        self._send(AnswerFocusMoved(by))

    @on(Answers.Clicked)
    def _send_answer(self, event: Answers.Clicked) -> None:
        self._send(Answered(event.answer))


class ResultScreen(QuestionScreen, inherit_bindings=False):
    """The result of a merge, and the question what to do with the rest of the session: two or three answers, no key for yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_COMMON,
        Binding("escape,q,n,ctrl+c,ctrl+q", "answer(0)", "keep the rest", id="result.keep"),
        Binding("d", "answer(1)", "discard the rest", id="result.discard"),
        Binding("M", "answer(2)", "send the notes back", id="result.send"),
        Binding("enter", "answer(None)", "focused answer", id="question.confirm"),
        Binding("tab,right,l", "move(1)", "next answer", id="question.next"),
        Binding("shift+tab,left,h", "move(-1)", "previous answer", id="question.previous"),
    ]

    def footer_hints(self) -> Sequence[tuple[str, str]]:
        """Return the bindings for the footer."""
        send = [("result.send", "send the notes back")] if len(self._labels) > _YES_AND_NO else []
        return [
            ("result.keep", "keep the rest"),
            ("result.discard", "discard"),
            *send,
            ("question.next", "next answer"),
            _SCROLLING,
        ]


def lines_as_pieces(lines: Sequence[PageLine]) -> list[list[Piece]]:
    """Return lines as pieces for a page."""
    return [[Piece(f" {line.text}", line.tone)] for line in lines]
