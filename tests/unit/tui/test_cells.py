"""Text in terminal cells: no control sequence remains in any text, and widths are exact to the cell."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size

from tui.text.cells import ELLIPSIS, MAX_MARKS, clean_text, crop, crop_start, width, wrap

NASTY = "a\x1b[31m\r\n\t\x07\x9b\u202e\u200d\u0301\u0301\u0301\U0001f469\U0001f3fd\U0001f1e9\U0001f1ea中\ue000\u093e\udcff\x00"
TEXTS = st.text() | st.text(st.sampled_from(NASTY), max_size=40)


@given(TEXTS)
def test_no_terminal_control_character_remains(text: str) -> None:
    for character in clean_text(text):
        assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


@given(TEXTS)
def test_cleaning_is_idempotent(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


@given(TEXTS)
def test_the_width_is_the_sum_of_the_character_widths(text: str) -> None:
    shown = clean_text(text)
    assert cell_len(shown) == sum(get_character_cell_size(character) for character in shown)


@given(TEXTS)
def test_no_character_is_dropped_silently(text: str) -> None:
    assert len(clean_text(text)) >= len(text)


def test_plain_text_in_many_scripts_is_unchanged() -> None:
    text = "Grüße, κόσμε, мир, 世界, 안녕, e\u0301, 🙂"
    assert clean_text(text) == text


def test_excess_combining_marks_are_shown_as_code_points() -> None:
    shown = clean_text("a" + "\u0301" * 1000)
    assert shown.count("\u0301") == MAX_MARKS
    assert shown.count("<U+0301>") == 1000 - MAX_MARKS


def test_a_leading_combining_mark_does_not_join_the_preceding_text() -> None:
    assert clean_text("\u0301a")[0] == "\u25cc"


@pytest.mark.parametrize("character", ["\U0001f1e9", "\U0001f3fd", "\u093e", "\ue0b0", "\u200d", "\u00ad"])
def test_characters_of_ambiguous_width_are_shown_as_code_points(character: str) -> None:
    assert clean_text(f"a{character}") == f"a<U+{ord(character):04X}>"


@given(TEXTS, st.integers(0, 20))
def test_cropped_text_fits(text: str, cells: int) -> None:
    shown = clean_text(text)
    assert width(crop(shown, cells)) <= cells
    assert width(crop_start(shown, cells)) <= cells


@given(TEXTS, st.integers(1, 20))
def test_only_cropped_text_has_an_ellipsis(text: str, cells: int) -> None:
    shown = clean_text(text)
    is_fitting = width(shown) <= cells
    assert crop(shown, cells) == shown if is_fitting else crop(shown, cells).endswith(ELLIPSIS)
    assert crop_start(shown, cells) == shown if is_fitting else crop_start(shown, cells).startswith(ELLIPSIS)


@given(TEXTS, st.integers(2, 20))
def test_wrapped_lines_fit_and_keep_every_word(text: str, cells: int) -> None:
    shown = clean_text(text)
    assert all(width(line) <= cells for line in wrap(shown, cells))
    assert "".join(wrap(shown, cells)).replace(" ", "") == shown.replace(" ", "")


@pytest.mark.parametrize(("path", "shown"), [("src/main.py", "src/main.py"), ("a/very/long/path/main.py", "…path/main.py")])
def test_the_end_of_a_path_is_kept(path: str, shown: str) -> None:
    assert crop_start(path, 13) == shown
