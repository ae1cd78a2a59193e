"""The state of a form: one question per page, answered from a list; pure."""

import textwrap
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agent_dev.quick_dataclass import dataclass, replace
from tui.model.document import Tone

Picks = Mapping[str, tuple[str, ...]]  # the selected values by question
Preview = Callable[[Picks], tuple[str, ...]]
_INDENT = 6  # columns before a label


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer that can be selected."""

    value: str
    label: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question; `is_multiple`: any number of answers. `preview`: returns lines to show below the answers selected so far."""

    name: str
    title: str
    about: str
    choices: tuple[Choice, ...]
    is_multiple: bool = False
    preview: Preview | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """The questions, what is selected, and the page and the row of the cursor. `is_done`: all questions are answered."""

    questions: tuple[Question, ...]
    picks: Picks
    page: int = 0
    cursor: int = 0
    is_done: bool = False

    @property
    def question(self) -> Question:
        """The question of the current page."""
        return self.questions[self.page]

    @property
    def value(self) -> str:
        """The value under the cursor; empty if there is none."""
        return self.question.choices[self.cursor].value if self.question.choices else ""


class FormRow(NamedTuple):
    """A row of a page; `is_cursor`: the row under the cursor."""

    text: str
    tone: str = Tone.PLAIN
    is_cursor: bool = False


def open_form(questions: tuple[Question, ...], picks: Picks) -> Form:
    """Return a form on its first page."""
    return _turn(Form(questions, picks), 0)


def move(form: Form, by: int) -> Form:
    """Move the cursor; it stops at the ends."""
    return replace(form, cursor=max(0, min(form.cursor + by, len(form.question.choices) - 1)))


def toggle(form: Form) -> Form:
    """Select or deselect the answer under the cursor; of a question with one answer, select it."""
    question, before = form.question, form.picks.get(form.question.name, ())
    if not question.choices:
        return form
    wanted = {form.value}
    if question.is_multiple:
        wanted = {*before} ^ wanted
    return replace(form, picks={**form.picks, question.name: tuple(one.value for one in question.choices if one.value in wanted)})


def confirm(form: Form) -> Form:
    """Turn to the next page; of a question with one answer, the one under the cursor is selected first."""
    answered = form if form.question.is_multiple else toggle(form)
    return replace(answered, is_done=True) if form.page + 1 == len(form.questions) else _turn(answered, form.page + 1)


def back(form: Form) -> Form:
    """Turn to the previous page."""
    return _turn(form, max(0, form.page - 1))


def _turn(form: Form, page: int) -> Form:
    """Return a page with the cursor on its first selected answer."""
    question = form.questions[page]
    picked = form.picks.get(question.name, ())
    cursor = next((n for n, one in enumerate(question.choices) if one.value in picked), 0)
    return replace(form, page=page, cursor=cursor)


def form_rows(form: Form, columns: int) -> list[FormRow]:
    """Return the rows of the current page, wrapped to a width."""
    question, picked = form.question, form.picks.get(form.question.name, ())
    rows = [FormRow(line, Tone.DIM) for line in _wrap(question.about, columns, 1)]
    rows.append(FormRow(""))
    for number, one in enumerate(question.choices):
        is_cursor = number == form.cursor
        mark = ("[x]" if one.value in picked else "[ ]") if question.is_multiple else ("(•)" if one.value in picked else "( )")
        rows.append(FormRow(f"{'▸' if is_cursor else ' '} {mark} {one.label}", "accent" if is_cursor else Tone.PLAIN, is_cursor))
        rows += [FormRow(line, Tone.DIM) for line in _wrap(one.about, columns, _INDENT)]
    if not question.choices:
        rows.append(FormRow(" nothing that agents may need was found here", Tone.DIM))
    if question.preview:
        rows += [FormRow(""), *(FormRow(f" {line}") for line in question.preview(form.picks))]
    return rows


def _wrap(text: str, columns: int, indent: int) -> list[str]:
    return textwrap.wrap(text, max(columns - 1, 20), initial_indent=" " * indent, subsequent_indent=" " * indent)
