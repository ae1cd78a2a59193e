"""The page of a commit: its box, its patch by files, and the keys that select it and go on."""

from tests.unit.tui.tui_states import after, change, changes
from tui.events import CursorMoved, EnterPressed, HunkMoved, Pane, TabSelected, Toggled
from tui.model.document import RowKind, Tone
from tui.model.tabs import Tab, TabEntry
from tui.state import State
from tui.update.dispatch import initial_state
from tui.update.tabs import entry_document

IDS = ("0" * 40, "3e757656cf36eca53338e520d134963a44f73f81")
PATCH = (
    "diff --git a/n b/n",
    "new file mode 100644",
    f"index {'..'.join(IDS)}",
    "--- /dev/null",
    "+++ b/n",
    "@@ -0,0 +1 @@",
    "+new",
    "-old",
    f" index {'..'.join(IDS)}",
    "diff --git a/m b/m",
    "--- a/m",
)
COMMIT = TabEntry("3e757656cf Add n", ("Ada <a@x>", "", *PATCH), id="1")
OTHER = TabEntry("aaaaaaaaaa Other", ("Ada <a@x>",), id="2")
NOTE = TabEntry("branch main: moved")


def page(cells: int = 80, *, is_selected: bool = False) -> list[tuple[str, Tone]]:
    return [(row.text, row.tone) for row in entry_document(COMMIT, cells, is_selected=is_selected).rows]


def opened() -> State:
    tabs = {Tab.COMMITS: (COMMIT, OTHER, NOTE)}
    return after(initial_state(changes(change("a")), tabs=tabs)[0], TabSelected(Tab.COMMITS), EnterPressed())


def test_object_ids_of_a_patch_are_shortened_so_that_its_lines_are_not_wrapped() -> None:
    assert ("index 0000000000..3e757656cf", Tone.DIM) in page(79)
    assert any(text.startswith(" index 00000000000") for text, _ in page(200))  # a line of the file


def test_the_lines_of_a_patch_have_tones() -> None:
    tones = dict(page())
    assert [
        tones[text] for text in ("diff --git a/n b/n", "+++ b/n", "@@ -0,0 +1 @@", "+new", "-old", "Ada <a@x>", "--- a/m")
    ] == [
        Tone.STRONG,
        Tone.DIM,
        Tone.HEADING,
        Tone.ADDED,
        Tone.REMOVED,
        Tone.PLAIN,
        Tone.DIM,
    ]


def test_a_commit_has_a_box_other_entries_have_none() -> None:
    first = entry_document(COMMIT, 80, is_selected=True).rows[0]
    assert (first.kind, first.text, first.is_applied) == (RowKind.HEADING, "3e757656cf Add n", True)
    assert entry_document(NOTE, 80, is_selected=False).rows[0].is_applied is None


def test_space_on_the_page_selects_the_commit_and_fills_its_box() -> None:
    state = after(opened(), Toggled())
    assert (state.selected_commits, state.pane) == (frozenset({"1"}), Pane.DIFF)
    assert state.diff.document.rows[0].is_applied
    assert not after(state, Toggled()).diff.document.rows[0].is_applied


def test_the_page_opens_at_its_box_and_goes_from_file_to_file() -> None:
    state = opened()
    assert state.diff.cursor == 0
    rows = [state.diff.document.rows[after(state, *[HunkMoved(1)] * times).diff.cursor].text for times in (1, 2)]
    assert rows == ["diff --git a/n b/n", "diff --git a/m b/m"]
    assert after(state, *[HunkMoved(1)] * 3).message == "last file (n: next commit)"


def test_enter_on_the_page_selects_the_commit_and_goes_to_the_next() -> None:
    state = after(opened(), CursorMoved(1), EnterPressed())
    assert (state.selected_commits, state.cursor, state.pane) == (frozenset({"1"}), 1, Pane.LIST)
