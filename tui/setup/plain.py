"""The form as plain questions and answers, for terminals without a screen."""

import textwrap
from collections.abc import Iterator

from agent_dev.quick_dataclass import replace
from tui.plain.prompt import LineIO, Questioner, QuestionsQuit
from tui.setup.form import Form, Picks, Question

_HELP = "numbers from the list, separated by spaces; 0: none; enter: as marked; q: quit"
_COLUMNS, _INDENT = 79, 6
_HELP_ONE = "a number from the list; enter: as marked; q: quit"


def ask_form(form: Form, line_io: LineIO) -> Picks | None:
    """Ask all questions; return what is selected, None if the user quits or the input ends."""
    questioner = Questioner(line_io)
    try:
        for question in form.questions:
            form = replace(form, picks={**form.picks, question.name: _ask(form, question, questioner)})
    except QuestionsQuit:
        return None
    return form.picks


def _ask(form: Form, question: Question, questioner: Questioner) -> tuple[str, ...]:
    for line in _lines(form, question):
        questioner.print_line(line)
    if not question.choices:
        return ()
    while True:
        answer = questioner.ask_line("> " if question.is_multiple else "number> ")
        if answer.lower() in ("q", "quit"):
            raise QuestionsQuit
        if not answer:
            return form.picks.get(question.name, ())
        values = _values(answer, question)
        if values is not None:
            return values
        questioner.print_line(_HELP if question.is_multiple else _HELP_ONE)


def _lines(form: Form, question: Question) -> Iterator[str]:
    """Yield a question with its numbered answers; selected ones are marked with a star."""
    yield from ("", f"{question.title}. {question.about}")
    yield from (f"  | {line}" for line in (question.preview(form.picks) if question.preview else ()))
    for number, one in enumerate(question.choices, 1):
        yield f"{'*' if one.value in form.picks.get(question.name, ()) else ' '} {number:>2}  {one.label}"
        yield from (f"{'':{_INDENT}}{line}" for line in textwrap.wrap(one.about, _COLUMNS - _INDENT))
    if not question.choices:
        yield "  nothing that agents may need was found here"


def _values(answer: str, question: Question) -> tuple[str, ...] | None:
    """Return the values with the given numbers; None if a number is not valid."""
    words = answer.replace(",", " ").split()
    if question.is_multiple and words == ["0"]:
        return ()
    if not all(word.isascii() and word.isdigit() and 0 < int(word) <= len(question.choices) for word in words):
        return None
    numbers = {int(word) - 1 for word in words}
    if not numbers or (len(numbers) > 1 and not question.is_multiple):
        return None
    return tuple(question.choices[number].value for number in sorted(numbers))
