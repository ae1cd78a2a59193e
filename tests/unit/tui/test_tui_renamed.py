"""A directory that was renamed as a whole is one row of the list, and selected as one."""

from dataclasses import replace

from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from tests.unit.tui.tui_states import FILE, RISK, after, change, changes, key, names
from tui.events import AllToggled, CursorMovedTo, EnterPressed, Pane, Toggled
from tui.model.change_list import ChangeRow, HeadingRow, Section
from tui.state import State
from tui.update.dispatch import initial_state


def renamed(path: str, **more: object) -> Change:
    new = f"lib/{path}"
    return Change(key(new), ChangeKind.RENAMED, FILE, FILE, renamed_from=key(f"src/{path}"), **more)  # type: ignore[arg-type]


def moved(*some: Change) -> State:
    found: ChangeSet = changes(*some, change("lib/new", ChangeKind.ADDED), change("README.md"))
    return initial_state(replace(found, directory_renames={key("lib"): key("src")}))[0]


def rows(state: State) -> list[str]:
    groups = state.listing.groups
    return [
        f"{groups[one.group].section}:{groups[one.group].path.decode()}"
        if isinstance(one, HeadingRow)
        else one.key.path.decode()
        if isinstance(one, ChangeRow)
        else ""
        for one in state.listing.rows
    ]


def head_of(state: State) -> int:
    return rows(state).index("renamed:lib")


def test_a_renamed_directory_is_one_closed_row_before_the_directories() -> None:
    assert rows(moved(renamed("a"), renamed("b/c"))) == ["renamed:lib", "folder:", "README.md", "folder:lib", "lib/new"]


def test_enter_lists_its_files() -> None:
    state = moved(renamed("a"), renamed("b/c"))
    opened = after(state, CursorMovedTo(head_of(state), Pane.LIST), EnterPressed())
    assert rows(opened)[:3] == ["renamed:lib", "lib/a", "lib/b/c"]


def test_space_selects_it_as_one_and_deselects_it() -> None:
    state = moved(renamed("a"), renamed("b/c"))
    selected = after(state, Toggled(head_of(state), Pane.LIST))
    assert names(selected) == {"lib/a", "lib/b/c"}
    assert names(after(selected, Toggled(head_of(state), Pane.LIST))) == set()


def test_all_selects_it() -> None:
    assert names(after(moved(renamed("a"), renamed("b/c")), AllToggled())) == {"lib/a", "lib/b/c", "lib/new", "README.md"}


def test_its_files_that_need_review_are_listed_there_and_counted_here() -> None:
    state = moved(renamed("a"), renamed("b/c"), renamed("hook", risks=RISK))
    assert rows(state)[:3] == ["risky:", "lib/hook", "renamed:lib"]
    (group,) = (one for one in state.listing.groups if one.section is Section.RENAMED)
    assert group.held_back == (key("lib/hook"),)
    selected = after(state, Toggled(head_of(state), Pane.LIST))
    assert names(selected) == {"lib/a", "lib/b/c"}
    assert selected.message == "1 risky change not selected; select individually"


def test_a_file_whose_old_path_is_in_conflict_is_counted_as_one_to_review() -> None:
    old = change("src/x", ChangeKind.DELETED, conflict="you changed it")
    new = change("lib/x", ChangeKind.ADDED, requires=(old.key,))
    state = moved(renamed("a"), renamed("b"), old, new)
    (group,) = (one for one in state.listing.groups if one.section is Section.RENAMED)
    assert (group.held_back, len(group.keys)) == ((key("lib/x"),), 2)
    assert names(after(state, AllToggled())) == {"lib/a", "lib/b", "lib/new", "README.md"}


def test_one_safe_file_alone_is_no_row_of_a_directory() -> None:
    assert "renamed:lib" not in rows(moved(renamed("a"), renamed("hook", risks=RISK)))
