"""Text in cells: of any text nothing that acts on a terminal is left, and a width is kept to the cell."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size

from tui.text.cells import CUT, MARKS, clean, crop, crop_start, width, wrap

NASTY = "a\x1b[31m\r\n\t\x07\x9b\u202e\u200d\u0301\u0301\u0301\U0001f469\U0001f3fd\U0001f1e9\U0001f1ea中\ue000\u093e\udcff\x00"
TEXTS = st.text() | st.text(st.sampled_from(NASTY), max_size=40)


@given(TEXTS)
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    for character in clean(text):
        assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


@given(TEXTS)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(TEXTS)
def test_the_width_is_the_sum_of_the_characters(text: str) -> None:
    shown = clean(text)
    assert cell_len(shown) == sum(get_character_cell_size(character) for character in shown)


@given(TEXTS)
def test_nothing_is_dropped_silently(text: str) -> None:
    assert len(clean(text)) >= len(text)


def test_plain_text_in_many_scripts_stays_as_it_is() -> None:
    text = "Grüße, κόσμε, мир, 世界, 안녕, e\u0301, 🙂"
    assert clean(text) == text


def test_a_flood_of_combining_marks_is_shown_by_numbers() -> None:
    shown = clean("a" + "\u0301" * 1000)
    assert shown.count("\u0301") == MARKS
    assert shown.count("<U+0301>") == 1000 - MARKS


def test_a_mark_at_the_start_does_not_land_on_what_stands_before() -> None:
    assert clean("\u0301a")[0] == "\u25cc"


@pytest.mark.parametrize("character", ["\U0001f1e9", "\U0001f3fd", "\u093e", "\ue0b0", "\u200d", "\u00ad"])
def test_characters_that_terminals_disagree_about_are_numbers(character: str) -> None:
    assert clean(f"a{character}") == f"a<U+{ord(character):04X}>"


@given(TEXTS, st.integers(0, 20))
def test_cropped_text_fits(text: str, cells: int) -> None:
    shown = clean(text)
    assert width(crop(shown, cells)) <= cells
    assert width(crop_start(shown, cells)) <= cells


@given(TEXTS, st.integers(1, 20))
def test_what_was_cut_says_so_and_what_fits_is_not_cut(text: str, cells: int) -> None:
    shown = clean(text)
    is_fitting = width(shown) <= cells
    assert crop(shown, cells) == shown if is_fitting else crop(shown, cells).endswith(CUT)
    assert crop_start(shown, cells) == shown if is_fitting else crop_start(shown, cells).startswith(CUT)


@given(TEXTS, st.integers(2, 20))
def test_wrapped_lines_fit_and_hold_every_word(text: str, cells: int) -> None:
    shown = clean(text)
    assert all(width(line) <= cells for line in wrap(shown, cells))
    assert "".join(wrap(shown, cells)).replace(" ", "") == shown.replace(" ", "")


@pytest.mark.parametrize(("path", "shown"), [("src/main.py", "src/main.py"), ("a/very/long/path/main.py", "…path/main.py")])
def test_of_a_path_the_end_is_kept(path: str, shown: str) -> None:
    assert crop_start(path, 13) == shown
