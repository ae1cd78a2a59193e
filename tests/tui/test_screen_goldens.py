"""The drawn review screen compared with golden texts.

`AGENT_DEV_GOLDEN=write pytest tests/tui` rewrites them.
"""

import os
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.harness.sample_session import Sample
from tests.tui.screen_player import run_keys, screen_rows, screen_text, text_after_keys, wait_until_idle
from tui.app import ReviewApp

GOLDEN = Path(__file__).parent / "golden"

TO_BASKET = ("A", *["n"] * 7)
SCENES = {
    "list-80x24": ((80, 24), ("A",)),
    "list-60x15": ((60, 15), ("A",)),
    "both-120x40": ((120, 40), TO_BASKET),
    "both-200x50": ((200, 50), TO_BASKET),
    "diff-80x24": ((80, 24), (*TO_BASKET, "enter", "right_square_bracket")),
    "diff-60x15": ((60, 15), (*TO_BASKET, "enter")),
    "summary-80x24": ((80, 24), ("A", "n", "space", "c", "y")),
    "summary-60x15": ((60, 15), ("A", "c")),
    "summary-120x40": ((120, 40), ("A", "n", "space", "c", "y", "tab")),
    "leave-80x24": ((80, 24), ("A", "q")),
    "help-80x24": ((80, 24), ("question_mark",)),
    "ignored-100x30": ((100, 30), ("end", "l")),
    "tiny-30x8": ((30, 8), ("A",)),
    "split-120x40": ((120, 40), (*TO_BASKET, "s", "enter")),
    "block-120x40": ((120, 40), ("X", *TO_BASKET[1:], "enter", "enter", "right_square_bracket", "a", "j", "space")),
    "conflict-120x40": ((120, 40), ("n", "n", "enter", "greater_than_sign")),
    "conflict-80x24": ((80, 24), ("n", "n", "enter")),
    "risk-80x24": ((80, 24), ("space", "c")),
    "result-80x24": ((80, 24), ("A", "c", "y")),
    "palette-80x24": ((80, 24), ("colon", "c", "o", "n", "f")),
    "tree-80x24": ((80, 24), ("t",)),
    "commits-100x30": ((100, 30), ("2", "space")),
    "bring-80x24": ((80, 24), ("2", "A", "c", "y", "right")),
    "bring-60x15": ((60, 15), ("2", "space", "c", "y")),
    "bring-risk-80x24": ((80, 24), ("2", "A", "c")),
    "whole-120x40": ((120, 40), (*TO_BASKET, "z", "w")),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_screen_equals_its_golden(name: str) -> None:
    size, keys = SCENES[name]
    shown = text_after_keys(Sample(), size, *keys)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("AGENT_DEV_GOLDEN") == "write":
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40)])
@pytest.mark.parametrize("pane", [(), ("enter",)])
def test_the_footer_always_shows_apply_and_quit(size: tuple[int, int], pane: tuple[str, ...]) -> None:
    footer = text_after_keys(Sample(), size, *pane).splitlines()[-1]
    assert footer.startswith(" c apply  q quit  ? help")


def test_a_resize_redraws_the_screen() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        for size in ((60, 15), (200, 50), (99, 20), (100, 20)):
            await pilot.resize_terminal(*size)
            await wait_until_idle(pilot)
            assert [strip.cell_length for strip in screen_rows(pilot.app)] == [size[0]] * size[1]
            assert " c apply" in screen_text(pilot.app).splitlines()[-1]

    run_keys(Sample(), (120, 40), "enter", scene=scene)
