"""Keys and clicks on the merge screen: rebound ones, early ones, and what a click does."""

import asyncio

import pytest
from textual.events import Key as KeyEvent
from textual.pilot import Pilot

from tests.harness.sample_session import Sample
from tests.tui.playing import SAFE, merged, play, quiet, text
from tui.app import ReviewApp
from tui.events import Pane
from tui.state import Face
from tui.widgets.change_list import ChangeList
from tui.widgets.diff_view import DiffView

# Keys


def test_every_binding_has_an_id_of_its_own() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        bindings = [active.binding for active in pilot.app.screen.active_bindings.values()]
        assert all(binding.id for binding in bindings)
        assert len({binding.id for binding in bindings}) == len({(binding.action, binding.description) for binding in bindings})

    play(Sample(), (80, 24), scene=scene)
    play(Sample(), (80, 24), "question_mark", scene=scene)
    play(Sample(), (80, 24), "space", "c", scene=scene)


def test_a_rebound_key_works_and_is_shown() -> None:
    app = ReviewApp(Sample())
    app.set_keymap({"apply": "m"})

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await quiet(pilot)
            assert " m apply" in text(app).splitlines()[-1]
            await pilot.press("question_mark")
            await quiet(pilot)
            assert " m               apply" in text(app)
            await pilot.press("escape", *SAFE, "space", "m")
            assert app.state.face is Face.SUMMARY

    asyncio.run(run())


def test_a_key_older_than_the_first_paint_does_nothing() -> None:
    app = ReviewApp(Sample())
    typed = KeyEvent("space", " ")

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await quiet(pilot)
            await app.on_event(typed)
            await quiet(pilot)
            assert not app.state.selection.keys
            await app.on_event(KeyEvent("space", " "))
            await quiet(pilot)
            assert app.state.selection.keys

    asyncio.run(run())


# The mouse


def test_a_click_on_a_box_toggles_and_on_a_name_only_goes_there() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        await pilot.click(ChangeList, offset=(12, 2))
        assert pilot.app.state.cursor == 2
        assert not pilot.app.state.selection.keys
        await pilot.click(ChangeList, offset=(2, 6))
        assert {key.path for key in pilot.app.state.selection.keys} == {b"README.md"}

    play(Sample(), (120, 40), scene=scene)


def test_a_click_gives_a_pane_the_keys() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        await pilot.click(DiffView, offset=(10, 2))
        assert (pilot.app.state.pane, pilot.app.state.diff.cursor) == (Pane.DIFF, 2)
        await pilot.click(DiffView, offset=(2, 4))
        assert {key.path for key in pilot.app.state.selection.keys} == {b".github/workflows/release.yml"}

    play(Sample(), (120, 40), scene=scene)


def test_a_click_on_an_answer_answers_it() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        await pilot.click("Answers", offset=(22, 0))

    assert merged(play(Sample(), (80, 24), *SAFE, "space", "c", scene=scene))


# Keys typed ahead: nobody waits until a page is drawn

BURSTS = (
    *("q?", "qf", "q:", "q/", "q2", "qA", "qc", "?q", "?q?q", "??", "f?", "?f", ":q", "cq"),
    *("Aq?", "Aqn?", "Acn", "Acnc", "Ac?n", "Aqyf", "?jq", "? q", "cjk"),
)


@pytest.mark.parametrize("burst", BURSTS)
def test_keys_that_are_typed_ahead_end_no_program(burst: str) -> None:
    """A failure on the screen is raised by `run_test` when it ends."""
    names = {"?": "question_mark", ":": "colon", "/": "slash", " ": "space"}
    app = ReviewApp(Sample())

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await quiet(pilot)
            for key in burst:
                app.post_message(KeyEvent(names.get(key, key), key))
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()

    asyncio.run(run())


def test_after_the_key_that_leaves_no_other_is_taken() -> None:
    app = ReviewApp(Sample())

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await quiet(pilot)
            app.post_message(KeyEvent("q", "q"))
            app.post_message(KeyEvent("question_mark", "?"))
            app.post_message(KeyEvent("A", "A"))
            await pilot.pause()
            assert (app.state.face, app.state.selection.keys) == (Face.REVIEW, frozenset())

    asyncio.run(run())
