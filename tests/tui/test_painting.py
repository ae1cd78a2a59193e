"""Incremental painting gives the same screen as a full repaint: no row is stale."""

import os
import random

import pytest
from textual.pilot import Pilot

from tests.harness.sample_session import Sample
from tests.tui.screen_player import run_keys, screen_rows, wait_until_idle
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
    """Clear the caches of all panes and bars, so that they repaint."""
    for widget in app.screen.walk_children():
        if isinstance(widget, (RowView, Bar)):
            for name, empty in (("_drawn", {}), ("_strips", {}), ("_strip", None)):
                if hasattr(widget, name):
                    setattr(widget, name, empty)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_cached_rows_equal_a_full_repaint(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  (a test)

    async def scene(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, ReviewApp)
        pressed = []
        for _ in range(40):
            pressed.append(chance.choice(KEYS))
            await pilot.press(pressed[-1])
            await wait_until_idle(pilot)
            kept = screen_rows(app)
            forget(app)
            assert kept == screen_rows(app), f"seed {seed}: {pressed}"

    run_keys(Sample(), chance.choice(SIZES), scene=scene)
