"""What the merge screen offers is what works there, and what it says is not cut in the middle of a word."""

import pytest

from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind
from tests.harness.sample_session import Sample
from tests.tui.playing import FILE, Made, drawn, edited
from tui.model.tabs import Entry as Row
from tui.model.tabs import Tab
from tui.source import Content

TO_BASKET = ("A", *["n"] * 7)
ADDED = Change(Key(0, b"both.txt"), Kind.ADDED, None, FILE, mine=FILE, conflict="you and the agent both added it")
NOT_COMMITTED = "what you have not committed of it and what the commits change are in each other's way"


class BothAdded(Made):
    """A file that both sides added, each with a text of its own."""

    def __init__(self, change: Change = ADDED) -> None:
        super().__init__(change)

    def content(self, _key: Key) -> Content:
        """Return what the agent has written."""
        return None, b"the first\nof the agent\n"

    def mine(self, _key: Key) -> bytes | None:
        """Return what the user has."""
        return b"of the user\n"


class Settling(BothAdded):
    """The same in commits."""

    is_settling = True


def footer(source: Made | Sample, *keys: str, columns: int = 120) -> str:
    return drawn(source, (columns, 30), *keys).splitlines()[-1]


# What is offered


def test_of_a_file_that_both_added_one_side_is_offered_and_no_more() -> None:
    assert footer(BothAdded()) == " c apply  q leave  ? help  < yours  > agent's  esc list"
    assert footer(Settling()) == " c apply  q leave  ? help  < yours  > agent's  esc list"


def test_both_are_offered_where_commits_bring_two_kinds_of_things() -> None:
    kinds = Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.SYMLINK, target=b"y"), mine=FILE, conflict="two kinds")
    assert "b both  esc list" in footer(Settling(kinds))
    assert "both" not in footer(BothAdded(kinds))


def test_lines_in_conflict_have_every_way_out() -> None:
    assert "< yours  > agent's  b both  e edit" in footer(Sample(), "n", "n", columns=80)


def test_the_footer_says_what_space_takes() -> None:
    assert "space block  a lines" in footer(Sample(), *TO_BASKET, "enter")
    assert "space line  a blocks" in footer(Sample(), *TO_BASKET, "enter", "a")


def test_where_there_are_several_ways_the_key_is_named_by_its_own() -> None:
    asked = drawn(Sample(), (80, 24), "2", "A", "c", "y")
    assert " y onto your branch  n no  tab next answer" in asked
    assert "y yes" not in asked


@pytest.mark.parametrize("columns", [80, 200])
def test_the_columns_of_a_conflict_have_headings(columns: int) -> None:
    rows = drawn(Sample(), (columns, 30), "n", "n", "enter").splitlines()
    at = next(number for number, row in enumerate(rows) if "yours  " in row and "│result  " in row and "│the agent's" in row)
    assert "conflict 1: not settled" in rows[at + 1]
    assert rows[at].index("│result") == rows[at + 2].index("│", rows[at].index("│result"))


@pytest.mark.parametrize(("key", "result"), [("", ""), ("greater_than_sign", "the first"), ("less_than_sign", "of the user")])
def test_both_texts_of_a_file_that_both_added_are_shown(key: str, result: str) -> None:
    rows = drawn(BothAdded(), (80, 24), *([key] if key else []), "enter").splitlines()
    found = [[part.strip() for part in row.split("│")] for row in rows if row.count("│") == 2]
    assert found[:2] == [["yours", "result", "the agent's"], ["of the user", result, "the first"]]


# What is not cut


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_help_is_not_cut(columns: int) -> None:
    shown = drawn(Sample(), (columns, 100), "question_mark")
    assert [row for row in shown.splitlines() if row.endswith("…") and not row.endswith("hold …")] == []
    assert "directory" in shown


def test_end_goes_to_the_end_of_the_help_and_home_back() -> None:
    assert "never taken with the others" in drawn(Sample(), (80, 24), "question_mark", "end")
    assert "c ctrl+s" in drawn(Sample(), (80, 24), "question_mark", "G", "home")


def test_a_word_about_a_key_is_whole_on_80_columns() -> None:
    shown = drawn(Sample(), (80, 24), *TO_BASKET, "enter", "home", "space")
    assert " nothing to choose on this row: ] goes on, space in the list takes all of it\n" in shown


def test_a_reason_is_cut_between_words_and_the_title_of_conflicts_is_whole() -> None:
    some = Made(edited(b"code.py", conflict=NOT_COMMITTED, mine=FILE))
    some.command = ("what you have not committed",)
    rows = drawn(some, (80, 24)).splitlines()
    assert "what you have not committed · test" in rows[0]
    row = next(row for row in rows if "code.py" in row and "✗" in row)
    assert row.rstrip().removesuffix("…").split()[-1] in NOT_COMMITTED.split()


def test_the_tabs_fit_beside_the_diff() -> None:
    some = Sample()
    some.tabs = {**some.tabs, Tab.COMMANDS: tuple(Row(f"true {number}") for number in range(120))}
    rows = drawn(some, (120, 30)).splitlines()
    assert rows[1].partition("│")[0].rstrip() == " 1 changes 1,852 2 commits 3 risks 4 commands"
    assert " 4 commands 120" in drawn(some, (160, 30)).splitlines()[1]
    assert drawn(some, (110, 30), "2").splitlines()[1].startswith(" 1 changes 2 commits 2 3 risks 4 commands")
    assert drawn(some, (40, 12)).splitlines()[1] == " 1 changes 1,852 2 3 4"


def test_a_tiny_terminal_shows_rows_and_says_that_it_is_too_small() -> None:
    rows = drawn(Sample(), (20, 5)).splitlines()
    assert any(row.startswith("▌[ ]") for row in rows)
    assert " terminal too small" in rows


# After a merge


def test_what_was_merged_is_no_longer_called_chosen_and_esc_says_that_it_leaves() -> None:
    shown = drawn(Sample(), (80, 24), "A", "c", "y")
    assert " esc done, leave" in shown
    assert "chosen" not in shown
