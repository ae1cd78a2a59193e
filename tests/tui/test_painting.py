"""What is painted only where it may have changed, against the same screen painted anew: no row may be a stale one."""

import os
import random

import pytest
from textual.pilot import Pilot

from tests.harness.sample_session import Sample
from tests.tui.playing import play, quiet, strips
from tui.app import ReviewApp
from tui.widgets.bars import Bar
from tui.widgets.row_view import RowView

SEEDS = int(os.environ.get("AGENT_DEV_SCREENS", "3"))
KEYS = (
    "j",
    "k",
    "n",
    "N",
    "tab",
    "space",
    "enter",
    "h",
    "l",
    "J",
    "u",
    "s",
    "w",
    "t",
    "a",
    "A",
    "v",
    "pagedown",
    "pageup",
    "home",
    "end",
)
SIZES = ((80, 24), (160, 30), (60, 15))


def forget(app: ReviewApp) -> None:
    """Let every pane and bar draw all of itself when it is looked at next."""
    for widget in app.screen.walk_children():
        if isinstance(widget, (RowView, Bar)):
            for name, empty in (("_drawn", {}), ("_strips", {}), ("_strip", None)):
                if hasattr(widget, name):
                    setattr(widget, name, empty)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_kept_of_a_painting_is_what_a_new_one_shows(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  (a test)

    async def scene(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, ReviewApp)
        pressed = []
        for _ in range(40):
            pressed.append(chance.choice(KEYS))
            await pilot.press(pressed[-1])
            await quiet(pilot)
            kept = strips(app)
            forget(app)
            assert kept == strips(app), f"seed {seed}: {pressed}"

    play(Sample(), chance.choice(SIZES), scene=scene)
