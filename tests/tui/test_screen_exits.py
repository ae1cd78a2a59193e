"""Applying and quitting on the review screen, and conflicts of commits."""

import pytest
from textual.pilot import Pilot

from agent_dev.fs.entry import Key
from tests.harness.sample_session import Sample
from tests.tui.screen_player import (
    FILE,
    KEYS_TO_SAFE_CHANGE,
    FakeSession,
    edited,
    merged_paths,
    run_keys,
    screen_text,
    text_after_keys,
    wait_until_idle,
)
from tui.app import ReviewApp
from tui.state import ScreenPage

# Applying and quitting


def test_apply_needs_two_keys_and_merges_the_selection() -> None:
    app = run_keys(Sample(), (80, 24), *KEYS_TO_SAFE_CHANGE, "space", "c", "y")
    assert merged_paths(app) == {b"README.md"}
    assert app.state.page is ScreenPage.RESULT


@pytest.mark.parametrize("keys", [("c",), ("c", "c"), ("c", "enter"), ("ctrl+s", "escape"), ("c", "q"), ("c", "space")])
def test_no_other_second_key_applies(keys: tuple[str, ...]) -> None:
    assert merged_paths(run_keys(Sample(), (80, 24), *KEYS_TO_SAFE_CHANGE, "space", *keys)) == set()


def test_yes_can_be_selected_by_arrow_and_enter() -> None:
    assert merged_paths(run_keys(Sample(), (80, 24), *KEYS_TO_SAFE_CHANGE, "space", "c", "right", "enter"))


def test_a_risky_change_needs_a_separate_yes() -> None:
    assert merged_paths(run_keys(Sample(), (80, 24), "space", "c", "y", "y")) == {b".github/workflows/release.yml"}
    assert merged_paths(run_keys(Sample(), (80, 24), "space", "c", "n", "y")) == set()


@pytest.mark.parametrize("keys", [("q",), ("escape",), ("ctrl+c",), ("ctrl+q",), ("space", "q", "y")])
def test_quitting_merges_nothing(keys: tuple[str, ...]) -> None:
    app = run_keys(Sample(), (80, 24), *keys)
    assert merged_paths(app) == set()
    assert not app.is_running


def test_the_previous_selection_is_restored() -> None:
    sample = Sample()
    run_keys(sample, (80, 24), "A", "n", "n", "r", "q", "y")
    again = ReviewApp(sample)
    assert len(again.state.selection) == 7
    assert again.state.reviewed == {Key(0, b"shop/models.py")}
    assert again.state.change is not None
    assert again.state.change.key.path == b"shop/models.py"


def test_after_a_merge_every_exit_key_quits() -> None:
    for key in ("enter", "escape", "q"):
        assert not run_keys(Sample(), (80, 24), *KEYS_TO_SAFE_CHANGE, "space", "c", "y", key).is_running


def test_quitting_with_a_selection_asks_and_stays_by_default() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        faces = [pilot.app.state.page]
        await pilot.press("enter")
        faces.append(pilot.app.state.page)
        assert faces == [ScreenPage.QUIT, ScreenPage.REVIEW]
        assert len(pilot.app.state.selection) == 1

    run_keys(Sample(), (80, 24), "space", "escape", scene=scene)


# Conflicts of commits


class Conflicts(FakeSession):
    """Two files changed both by commits and by the user."""

    is_resolving = True

    def __init__(self) -> None:
        super().__init__(edited(b"one", conflict="both", yours=FILE), edited(b"two", conflict="both", yours=FILE))


def resolved(*keys: str) -> tuple[ReviewApp, str]:
    """Resolve both conflicts, then press more keys; return the application and the screen's text."""
    found = []

    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        for key in ("greater_than_sign", "exclamation_mark", "less_than_sign", *keys):
            await pilot.press(key)
            await wait_until_idle(pilot)
        found.append(screen_text(pilot.app))

    return run_keys(Conflicts(), (100, 24), scene=scene), found[0]


def test_commits_are_imported_only_when_all_conflicts_are_resolved() -> None:
    assert "1 more to resolve: < yours, > agent's" in text_after_keys(Conflicts(), (100, 24), "greater_than_sign", "c")
    app, shown = resolved("c")
    assert app.state.page is ScreenPage.SUMMARY
    assert "Import the commits with these resolutions?" in shown


def test_conflicts_of_commits_explain_import_and_quit() -> None:
    assert "resolve all conflicts to import the commits" in text_after_keys(Conflicts(), (100, 24))
    _, left = resolved("q")
    assert "0 of 2 conflicts resolved" in text_after_keys(Conflicts(), (100, 24))
    assert "1 of 2 conflicts resolved" in text_after_keys(Conflicts(), (100, 24), "greater_than_sign")
    assert "keeps the changes and the selection." in left
