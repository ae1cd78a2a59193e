"""Questions before something is done: a page to read, *No* in focus, and a key of its own for yes."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Resize
from textual.screen import ModalScreen

from tui.events import Answered, AnswerMoved, Event, GivenUp
from tui.keys.key_names import hints, keys
from tui.model.document import Line, Tone
from tui.state import WIDE, State
from tui.widgets.answers import Answers
from tui.widgets.bars import Bar, Page
from tui.widgets.paint import Piece

Send = Callable[[Event], None]

_TWO = 2
_SCROLLING = ("page.line.down page.line.up", "scroll")
_SCROLL: list[BindingType] = [
    Binding("j,down", "scroll(1)", "down", id="page.line.down"),
    Binding("k,up", "scroll(-1)", "up", id="page.line.up"),
    Binding("pagedown,ctrl+f,space", "scroll_page(1)", "a page down", id="page.page.down"),
    Binding("pageup,ctrl+b", "scroll_page(-1)", "a page up", id="page.page.up"),
    Binding("home,g", "scroll_edge(0)", "to the top", id="page.first"),
    Binding("end,G", "scroll_edge(1)", "to the end", id="page.last"),
]


class PageScreen(ModalScreen[None], inherit_bindings=False):
    """A page over the review, and how to get back."""

    around: ClassVar[int] = 4  # rows beside the page: title, keys, two blank ones
    BINDINGS: ClassVar[list[BindingType]] = [
        *_SCROLL,
        Binding("escape,q,n,question_mark,f1,enter,ctrl+c,ctrl+q", "give_up", "back", id="page.back"),
    ]

    def __init__(self, title: str, lines: Sequence[Sequence[Piece]], send: Send, *, way_out: str = "back") -> None:
        super().__init__()
        self._lines, self._send, self._way_out = lines, send, way_out
        # Held, and never looked for: a page can be left, by keys that were typed ahead, before it is mounted.
        self._box, self._head, self._foot = Vertical(id="page"), Bar(id="page-title"), Bar(id="page-keys")
        self._page = Page(lines)
        self._head.show([Piece(f" {title}", Tone.STRONG)])

    def compose(self) -> ComposeResult:
        """Lay out title, page and keys."""
        with self._box:
            yield self._head
            yield self._page
            yield from self.below()
            yield self._foot

    def below(self) -> ComposeResult:
        """Yield what stands between the page and the keys."""
        yield from ()

    def hints(self) -> Sequence[tuple[str, str]]:
        """Return the bindings to name below, the most important first."""
        return [("page.back", self._way_out), _SCROLLING]

    def on_mount(self) -> None:
        """Name the keys."""
        self.call_after_refresh(self._show_keys)

    def on_resize(self, event: Resize) -> None:
        """Be as high as the page, with a frame where there is room; show as many keys as fit now."""
        box = self._box
        is_framed, most = event.size.width >= WIDE, event.size.height
        wanted = len(self._lines) + self.around
        box.set_class(is_framed, "-framed")
        box.set_class(wanted < most and not is_framed, "-lined")
        box.styles.height = min(wanted + 2, most - 2 * is_framed)
        self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        if self.is_current:
            self._foot.show(hints(self.hints(), keys(self), self._foot.size.width))

    def show(self, state: State) -> None:
        """Draw a state: a page has nothing that changes."""

    def action_answer(self, answer: int | None) -> None:
        """Answer, None with the answer in focus."""
        self._send(Answered(answer))

    def action_give_up(self) -> None:
        """Go back."""
        self._send(GivenUp())

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self._page.scroll_relative(y=by, animate=False, force=True)

    def action_scroll_page(self, by: int) -> None:
        """Scroll by what is in sight."""
        self._page.scroll_relative(y=by * max(1, self._page.size.height - 1), animate=False, force=True)

    def action_scroll_edge(self, is_last: int) -> None:
        """Scroll to the top, or to the end."""
        self._page.scroll_to(y=len(self._lines) if is_last else 0, animate=False, force=True)


class QuestionScreen(PageScreen, inherit_bindings=False):
    """A page with a question below it."""

    around: ClassVar[int] = 6
    BINDINGS: ClassVar[list[BindingType]] = [
        *_SCROLL,
        Binding("y", "answer(1)", "yes", id="question.yes"),
        Binding("n", "answer(0)", "no", id="question.no"),
        Binding("escape,q,ctrl+c,ctrl+q", "give_up", "back to the review", id="question.back"),
        Binding("enter", "answer(None)", "the answer in focus", id="question.enter"),
        Binding("tab,right,l", "move(1)", "the next answer", id="question.other"),
        Binding("shift+tab,left,h", "move(-1)", "the one before", id="question.before"),
    ]

    def __init__(self, page: tuple[str, Sequence[Sequence[Piece]]], answers: Sequence[str], send: Send) -> None:
        super().__init__(*page, send)
        self._labels, self._answers = answers, Answers(*answers)

    def hints(self) -> Sequence[tuple[str, str]]:
        """Name the keys of the first two answers, and how to get to more: of these none is a plain yes."""
        others = [("question.other", "next answer")] if len(self._labels) > _TWO else []
        yes = self._labels[1] if others else "yes"
        return [("question.yes", yes), ("question.no", "no"), *others, ("question.back", "back"), _SCROLLING]

    def below(self) -> ComposeResult:
        """Yield the answers."""
        yield self._answers

    def show(self, state: State) -> None:
        """Mark the answer in focus."""
        self._answers.show(state.answer)

    def action_move(self, by: int) -> None:
        """Put the focus on another answer."""
        self._send(AnswerMoved(by))

    @on(Answers.Given)
    def _given(self, event: Answers.Given) -> None:
        self._send(Answered(event.answer))


def as_pieces(lines: Sequence[Line]) -> list[list[Piece]]:
    """Return lines for a page."""
    return [[Piece(f" {line.text}", line.tone)] for line in lines]
