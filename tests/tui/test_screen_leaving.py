"""Ways out of the merge screen: what applies, what merges nothing, what asks first; conflicts of commits, too."""

import pytest
from textual.pilot import Pilot

from agent_dev.overlay.changes import Key
from tests.harness.sample_session import Sample
from tests.tui.playing import FILE, SAFE, Made, drawn, edited, merged, play, quiet, text
from tui.app import ReviewApp
from tui.state import Face

# Leaving


def test_apply_needs_two_keys_and_merges_the_selection() -> None:
    app = play(Sample(), (80, 24), *SAFE, "space", "c", "y")
    assert merged(app) == {b"README.md"}
    assert app.state.face is Face.RESULT


@pytest.mark.parametrize("keys", [("c",), ("c", "c"), ("c", "enter"), ("ctrl+s", "escape"), ("c", "q"), ("c", "space")])
def test_no_other_second_key_applies(keys: tuple[str, ...]) -> None:
    assert merged(play(Sample(), (80, 24), *SAFE, "space", *keys)) == set()


def test_yes_can_be_chosen_by_arrow_and_enter() -> None:
    assert merged(play(Sample(), (80, 24), *SAFE, "space", "c", "right", "enter"))


def test_a_risky_change_wants_a_yes_of_its_own() -> None:
    assert merged(play(Sample(), (80, 24), "space", "c", "y", "y")) == {b".github/workflows/release.yml"}
    assert merged(play(Sample(), (80, 24), "space", "c", "n", "y")) == set()


@pytest.mark.parametrize("keys", [("q",), ("escape",), ("ctrl+c",), ("ctrl+q",), ("space", "q", "y")])
def test_leaving_merges_nothing(keys: tuple[str, ...]) -> None:
    app = play(Sample(), (80, 24), *keys)
    assert merged(app) == set()
    assert not app.is_running


def test_what_was_chosen_is_there_again_the_next_time() -> None:
    sample = Sample()
    play(sample, (80, 24), "A", "n", "n", "r", "q", "y")
    again = ReviewApp(sample)
    assert len(again.state.selection) == 7
    assert again.state.reviewed == {Key(0, b"shop/models.py")}
    assert again.state.change is not None
    assert again.state.change.key.path == b"shop/models.py"


def test_after_a_merge_any_way_out_leaves() -> None:
    for key in ("enter", "escape", "q"):
        assert not play(Sample(), (80, 24), *SAFE, "space", "c", "y", key).is_running


def test_leaving_with_a_choice_asks_and_stays_by_default() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        faces = [pilot.app.state.face]
        await pilot.press("enter")
        faces.append(pilot.app.state.face)
        assert faces == [Face.LEAVE, Face.REVIEW]
        assert len(pilot.app.state.selection) == 1

    play(Sample(), (80, 24), "space", "escape", scene=scene)


# Conflicts of commits


class Conflicts(Made):
    """Two files that commits and the user's both change."""

    is_settling = True

    def __init__(self) -> None:
        super().__init__(edited(b"one", conflict="both", mine=FILE), edited(b"two", conflict="both", mine=FILE))


def settled(*keys: str) -> tuple[ReviewApp, str]:
    """Settle both, one key after the other has done its work; return the screen after more keys."""
    found = []

    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        for key in ("greater_than_sign", "exclamation_mark", "less_than_sign", *keys):
            await pilot.press(key)
            await quiet(pilot)
        found.append(text(pilot.app))

    return play(Conflicts(), (100, 24), scene=scene), found[0]


def test_conflicts_of_commits_are_applied_only_when_each_is_settled() -> None:
    assert "1 more to settle: < takes yours, > the agent's" in drawn(Conflicts(), (100, 24), "greater_than_sign", "c")
    app, shown = settled("c")
    assert app.state.face is Face.SUMMARY
    assert "Bring the commits home with this?" in shown


def test_conflicts_of_commits_say_what_they_are_for_and_what_leaving_means() -> None:
    assert "what the commits and yours both change: settle each, and they come home" in drawn(Conflicts(), (100, 24))
    _, left = settled("q")
    assert "0 of 2 conflicts settled" in drawn(Conflicts(), (100, 24))
    assert "1 of 2 conflicts settled" in drawn(Conflicts(), (100, 24), "greater_than_sign")
    assert "keeps everything, and the choice too." in left
