"""Lines of a file as pieces: cut to the visible cells, with work bounded by these cells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size

from tui.text import cells
from tui.text.cells import clean_text, width
from tui.widgets.lines import truncate
from tui.widgets.paint import Piece

TEXT = st.text(st.sampled_from("ab é漢\u0301"), max_size=30).map(clean_text)


@given(st.lists(TEXT, max_size=5), st.integers(0, 40))
def test_text_is_cut_exactly_where_it_no_longer_fits(texts: list[str], free: int) -> None:
    whole = "".join(texts)
    kept = "".join(piece.text for piece in truncate([Piece(text) for text in texts], free))
    assert whole.startswith(kept)
    assert width(kept) <= free
    rest = whole[len(kept) :]
    assert not rest or width(kept) + width(rest[0]) >= free


def test_a_long_line_is_measured_no_further_than_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    # A line of combining marks, cleaned, once took minutes: each character that was cut off measured the rest again.
    measured = 0
    size = get_character_cell_size

    def size_of_character(character: str) -> int:
        nonlocal measured
        measured += 1
        return size(character)

    def size_of_text(text: str) -> int:
        return sum(map(size_of_character, text))

    monkeypatch.setattr(cells, "get_character_cell_size", size_of_character)
    monkeypatch.setattr(cells, "cell_len", size_of_text)
    text = clean_text("e" + "\u0301" * 60) * 400
    measured = 0
    assert [width(piece.text) for piece in truncate([Piece(text)], 80)] == [80]
    assert measured <= 2 * len(text)
