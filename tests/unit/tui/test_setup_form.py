"""The form of `agent-dev init`: moving, selecting, pages; and its plain dialogue."""

import pytest

from tests.harness.typist import Typist
from tui.setup.form import Choice, Form, Question, back, confirm, form_rows, move, open_form, toggle
from tui.setup.plain import ask_form

ONE = Question("one", "One", "A choice.", (Choice("a", "A", "the first"), Choice("b", "B"), Choice("c", "C")))
MANY = Question("many", "Many", "Several.", (Choice("x", "X"), Choice("y", "Y")), is_multiple=True)
NONE = Question("none", "None", "Nothing.", (), is_multiple=True)
LAST = Question("last", "Last", "", (Choice("w", "Write"),), preview=lambda picks: (f"one: {picks['one'][0]}", "\x1b"))


def form(*questions: Question) -> Form:
    return open_form(questions or (ONE, MANY, NONE, LAST), {"one": ("b",), "many": ("y",)})


def test_the_cursor_starts_on_what_is_selected_and_stops_at_the_ends() -> None:
    assert form().cursor == 1
    assert move(form(), -1).cursor == 0
    assert move(move(form(), 5), 5).cursor == 2
    assert move(form(NONE), 1).cursor == 0


def test_enter_selects_the_one_answer_under_the_cursor() -> None:
    after = confirm(move(form(), 1))
    assert (after.picks["one"], after.page, after.cursor) == (("c",), 1, 1)


def test_space_toggles_several_answers_in_their_order_and_enter_keeps_them() -> None:
    page = confirm(form())
    both = toggle(move(page, -1))
    assert both.picks["many"] == ("x", "y")
    assert toggle(both).picks["many"] == ("y",)
    assert confirm(both).picks["many"] == ("x", "y")


def test_back_turns_the_page_and_keeps_the_answers() -> None:
    after = back(confirm(move(form(), 1)))
    assert (after.page, after.cursor, after.picks["one"]) == (0, 2, ("c",))
    assert back(form()) == form()


def test_the_last_enter_ends_the_form() -> None:
    after = confirm(confirm(confirm(form())))
    assert not after.is_done
    assert confirm(after).is_done
    assert confirm(after).picks == {"one": ("b",), "many": ("y",), "last": ("w",)}


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_rows_show_marks_by_signs_and_fit(columns: int) -> None:
    rows = form_rows(form(), columns)
    texts = [row.text for row in rows]
    assert [text for text in texts if "(" in text] == ["  ( ) A", "▸ (•) B", "  ( ) C"]
    assert [row.text for row in rows if row.is_cursor] == ["▸ (•) B"]
    long = form(Question("one", "", "word " * 40, (Choice("a", "A", "text " * 40),)))
    assert max(len(row.text) for row in form_rows(long, columns)) <= columns
    assert [row.text for row in form_rows(confirm(form()), columns) if "[" in row.text] == ["  [ ] X", "▸ [x] Y"]


def test_the_preview_follows_the_answers() -> None:
    last = confirm(confirm(confirm(move(form(), 1))))
    assert " one: c" in [row.text for row in form_rows(last, 80)]


@pytest.mark.parametrize(
    ("answers", "one", "many"),
    [
        (("", "", ""), ("b",), ("y",)),
        (("3", "1,2", "1"), ("c",), ("x", "y")),
        (("1", "0", ""), ("a",), ()),
        (("4", "0", "1 2", "x", "1", "9", "2", "1"), ("a",), ("y",)),
    ],
)
def test_plain_answers_select(answers: tuple[str, ...], one: tuple[str, ...], many: tuple[str, ...]) -> None:
    typist = Typist(*answers, *("" for _ in range(3)))
    assert ask_form(form(ONE, MANY, NONE, LAST), typist) == {
        "one": one,
        "many": many,
        "none": (),
        "last": ("w",)[: "1" in answers[2:]],
    }


@pytest.mark.parametrize("answers", [(), ("q",), ("", "quit"), ("", "")])
def test_the_plain_dialogue_can_be_left(answers: tuple[str, ...]) -> None:
    assert ask_form(form(), Typist(*answers)) is None


def test_plain_output_is_escaped_and_old_input_dropped() -> None:
    typist = Typist("", "", "")
    ask_form(form(), typist)
    assert typist.lines[0] == "(forgotten)"
    assert not any("\x1b" in line for line in typist.lines)
    assert "*  2  B" in typist.lines
    assert typist.lines[typist.lines.index("   1  A") + 1] == "      the first"
