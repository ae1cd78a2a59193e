"""Labels of the review screen: only keys that work are shown, and messages are not cut within a word."""

import re
from pathlib import Path

import pytest

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from tests.harness.sample_session import Sample
from tests.tui.screen_player import FILE, FakeSession, edited, text_after_keys
from tui.keys.bindings import REVIEW_BINDINGS
from tui.model.tabs import Tab
from tui.model.tabs import TabEntry as Row
from tui.source import ContentPair

REPOSITORY = Path(__file__).parents[2]
TO_BASKET = ("A", *["n"] * 7)
ADDED = Change(Key(0, b"both.txt"), ChangeKind.ADDED, None, FILE, yours=FILE, conflict="you and the agent both added it")
NOT_COMMITTED = "your uncommitted changes of this file conflict with what the commits change in it"


class BothAdded(FakeSession):
    """A file that both sides added with different contents."""

    def __init__(self, change: Change = ADDED) -> None:
        super().__init__(change)

    def read_content(self, _key: Key) -> ContentPair:
        """Return the agent's version."""
        return None, b"the first\nof the agent\n"

    def yours_content(self, _key: Key) -> bytes | None:
        """Return the user's version."""
        return b"of the user\n"


class Resolving(BothAdded):
    """The same file, in the resolution of conflicts of commits."""

    is_resolving = True


def footer(source: FakeSession | Sample, *keys: str, columns: int = 120) -> str:
    return text_after_keys(source, (columns, 30), *keys).splitlines()[-1]


# Keys in the footer


def test_a_file_added_by_both_can_be_resolved_by_one_side_only() -> None:
    assert footer(BothAdded()) == " c apply  q quit  ? help  < yours  > agent's  esc list"
    assert footer(Resolving()) == " c apply  q quit  ? help  < yours  > agent's  esc list"


def test_both_is_offered_if_commits_import_another_file_type() -> None:
    kinds = Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.SYMLINK, target=b"y"), yours=FILE, conflict="two kinds")
    assert "b both  esc list" in footer(Resolving(kinds))
    assert "both" not in footer(BothAdded(kinds))


def test_conflicting_lines_have_every_resolution() -> None:
    assert "< yours  > agent's  b both  e edit" in footer(Sample(), "n", "n", columns=80)


def test_the_footer_shows_what_space_selects() -> None:
    assert "space select hunk  a lines" in footer(Sample(), *TO_BASKET, "enter")
    assert "space select line  a hunks" in footer(Sample(), *TO_BASKET, "enter", "a")


def test_the_yes_key_is_labelled_with_its_import_mode() -> None:
    asked = text_after_keys(Sample(), (80, 24), "2", "A", "c", "y")
    assert " y onto your branch  n no  tab next answer" in asked
    assert "y yes" not in asked


@pytest.mark.parametrize("columns", [80, 200])
def test_the_columns_of_a_conflict_have_headings(columns: int) -> None:
    rows = text_after_keys(Sample(), (columns, 30), "n", "n", "enter").splitlines()
    at = next(number for number, row in enumerate(rows) if "yours  " in row and "│result  " in row and "│agent" in row)
    assert "conflict 1: unresolved" in rows[at + 1]
    assert rows[at].index("│result") == rows[at + 2].index("│", rows[at].index("│result"))


@pytest.mark.parametrize(("key", "result"), [("", ""), ("greater_than_sign", "the first"), ("less_than_sign", "of the user")])
def test_both_texts_of_a_file_that_both_added_are_shown(key: str, result: str) -> None:
    rows = text_after_keys(BothAdded(), (80, 24), *([key] if key else []), "enter").splitlines()
    found = [[part.strip() for part in row.split("│")] for row in rows if row.count("│") == 2]
    assert found[:2] == [["yours", "result", "agent"], ["of the user", result, "the first"]]


# Texts that are not cut


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_help_is_not_cut(columns: int) -> None:
    shown = text_after_keys(Sample(), (columns, 100), "question_mark")
    assert [row for row in shown.splitlines() if row.endswith("…")] == []
    assert "diff" in shown


def test_end_goes_to_the_end_of_the_help_and_home_back() -> None:
    assert "must be selected individually" in text_after_keys(Sample(), (80, 24), "question_mark", "end")
    assert "c ctrl+s" in text_after_keys(Sample(), (80, 24), "question_mark", "G", "home")


def test_a_status_message_fits_80_columns() -> None:
    shown = text_after_keys(Sample(), (80, 24), *TO_BASKET, "enter", "home", "space")
    assert " nothing to select on this row (]: next hunk)\n" in shown


def test_a_reason_is_cut_between_words_and_the_title_is_not_cut() -> None:
    some = FakeSession(edited(b"code.py", conflict=NOT_COMMITTED, yours=FILE))
    some.command = ("your uncommitted changes",)
    rows = text_after_keys(some, (80, 24)).splitlines()
    assert "your uncommitted changes · test" in rows[0]
    row = next(row for row in rows if "code.py" in row and "✗" in row)
    assert row.rstrip().removesuffix("…").split()[-1] in NOT_COMMITTED.split()


def test_the_tabs_fit_next_to_the_diff() -> None:
    some = Sample()
    some.tabs = {**some.tabs, Tab.COMMANDS: tuple(Row(f"true {number}") for number in range(120))}
    rows = text_after_keys(some, (120, 30)).splitlines()
    assert rows[1].partition("│")[0].rstrip() == " [1] Changes 1,852 [2] Commits [3] Risks [4]"
    assert " [4] Commands 120" in text_after_keys(some, (200, 30)).splitlines()[1]
    assert text_after_keys(some, (150, 30), "2").splitlines()[1].startswith(" [1] Changes [2] Commits 2 [3] Risks [4] Commands")
    assert text_after_keys(some, (40, 12)).splitlines()[1] == " [1] Changes 1,852 [2] Commits [3] [4]"


def test_the_network_tab_shows_connections_with_their_details() -> None:
    some = Sample()
    rows = (
        Row("deny   evil.example:443  curl (pid 7)  no rule allows it", ("denied: no rule allows it",), is_risky=True),
        Row("allow  api.example:443  node (pid 8)", ("bytes sent: 5",)),
    )
    some.tabs = {**some.tabs, Tab.NETWORK: rows}
    shown = text_after_keys(some, (80, 24), "5")
    assert "[5] Network 2" in shown.splitlines()[1]
    assert shown.index("deny   evil.example:443") < shown.index("allow  api.example:443")
    assert "bytes sent: 5" in text_after_keys(some, (80, 24), "5", "down", "enter")
    assert "[5]" not in text_after_keys(Sample(), (80, 24))


def test_a_tiny_terminal_shows_rows_and_a_warning() -> None:
    rows = text_after_keys(Sample(), (20, 5)).splitlines()
    assert any(row.startswith("▌[ ]") for row in rows)
    assert " terminal too small" in rows


# After a merge


def test_after_a_merge_nothing_is_called_selected_and_esc_quits() -> None:
    shown = text_after_keys(Sample(), (80, 24), "A", "c", "y")
    assert " esc quit" in shown
    assert "selected" not in shown


def test_the_documentation_lists_every_key_id() -> None:
    section = (REPOSITORY / "docs/profiles.md").read_text().partition("## Ids of the keys")[2].partition("\n## ")[0]
    table = section[section.index("| to |") :]
    assert sorted(re.findall(r"`([a-z.]+)`", table)) == sorted(REVIEW_BINDINGS)


def test_the_page_of_a_commit_has_its_box_and_keys_on_a_small_screen() -> None:
    source = FakeSession(edited(b"a"))
    commit = Row("0123456789 Add n", (f"index {'0' * 40}..{'1' * 40}",), id="1")
    source.tabs = {Tab.COMMITS: (commit,)}
    rows = text_after_keys(source, (80, 24), "2", "enter").splitlines()
    assert rows[2] == "▌[ ] 0123456789 Add n"
    assert rows[-1] == " c import  q quit  ? help  space select  ] next file  n next commit  esc list"
    assert text_after_keys(source, (80, 24), "2", "enter", "space").splitlines()[2] == "▌[x] 0123456789 Add n"


@pytest.mark.parametrize("columns", [60, 120])
def test_the_end_of_a_long_note_is_shown_with_the_cursor(columns: int) -> None:
    source = FakeSession(edited(b"a"))
    keys = [*("x" * columns), *"end"]
    screen = text_after_keys(source, (columns, 24), "m", *keys)
    line = next(row for row in screen.splitlines() if "note to the agent: " in row)
    assert "xend▏" in line
    assert line.endswith("enter keep, esc cancel")


def test_each_change_shows_its_commit_if_there_is_space() -> None:
    class Committed(FakeSession):
        def find_commits(self) -> dict[Key, str]:
            return {Key(0, b"a"): "0123456789abcdef", Key(0, b"b"): "", Key(0, b"x" * 62): "fedcba9876543210"}

    rows = text_after_keys(Committed(edited(b"a"), edited(b"b"), edited(b"c"), edited(b"x" * 62)), (80, 24)).splitlines()
    assert [row.split()[-1] for row in rows[3:6]] == ["0123456", "uncommitted", "c"]
    assert "fedcba9" not in rows[6]


# Long paths

LONG_PATHS = tuple(
    b"services/billing-%b/src/main/java/com/example/InvoiceRepositoryImplementation.java" % one for one in (b"api", b"worker")
)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_long_paths_are_shown_in_full_in_the_summary_and_the_diff(columns: int) -> None:
    source = FakeSession(*map(edited, LONG_PATHS))
    summary = "".join(text_after_keys(source, (columns, 40), "A", "c").split())
    assert all(path.decode() in summary for path in LONG_PATHS)
    for number, path in enumerate(LONG_PATHS):
        rows = text_after_keys(source, (columns, 40), *["n"] * number, "enter").splitlines()
        assert path.decode() in "".join(row.rpartition("│")[2].strip() for row in rows)


def test_a_wrapped_path_is_not_covered_by_the_scroll_bar() -> None:
    path = "x" * 150
    source = FakeSession(edited(path.encode()), contents={path.encode(): (b"", b"line\n" * 100)})
    assert path in "".join(text_after_keys(source, (60, 24), "enter").split())


def test_a_path_that_fits_the_title_of_the_diff_is_not_repeated() -> None:
    assert text_after_keys(FakeSession(edited(b"src/short.py")), (80, 24), "enter").count("short.py") == 1


def test_a_conflict_file_without_an_edit_of_the_agents_is_partly_selected() -> None:
    keys = ("f", *"models", "enter", "enter", "greater_than_sign")
    whole = text_after_keys(Sample(), (120, 24), *keys)
    assert ("[x]   ~  models.py" in whole, "[~]" in whole, "  selected" in whole) == (True, False, True)
    part = text_after_keys(Sample(), (120, 24), *keys, "right_square_bracket", "space")
    assert "left out" in part
    assert ("[~]   ~  models.py" in part, "[~] ▾" in part, "  partly selected" in part) == (True, True, True)
