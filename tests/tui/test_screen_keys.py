"""Keys and clicks on the review screen: rebound keys, early keys, clicks."""

import asyncio
from typing import Any

import pytest
from textual.events import Key as KeyEvent
from textual.pilot import Pilot

from agent_dev.cli.screen.screen_settings import load_screen_settings, screen_problems
from agent_dev.config.profile import Profile
from agent_dev.errors import InvalidConfiguration
from agent_dev.session.sessions import CommandContext
from agent_dev.session.store import Store
from tests.harness.sample_session import Sample
from tests.tui.screen_player import (
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
from tui.events import Pane
from tui.keys.bindings import REVIEW_BINDINGS
from tui.model.tabs import Tab
from tui.state import ScreenPage
from tui.terminal.driver import DriverWithAltKeys, WakeableDriver
from tui.theme import ScreenSettings
from tui.widgets.change_list import ChangeList
from tui.widgets.diff_view import DiffView

# Keys


def test_every_binding_has_a_unique_id() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        bindings = [active.binding for active in pilot.app.screen.active_bindings.values()]
        assert all(binding.id for binding in bindings)
        assert len({binding.id for binding in bindings}) == len({(binding.action, binding.description) for binding in bindings})

    run_keys(Sample(), (80, 24), scene=scene)
    run_keys(Sample(), (80, 24), "question_mark", scene=scene)
    run_keys(Sample(), (80, 24), "space", "c", scene=scene)


@pytest.mark.parametrize(("key", "driver"), [("alt+x", DriverWithAltKeys), ("x,alt+x", DriverWithAltKeys), ("x", WakeableDriver)])
def test_escape_and_a_character_are_a_key_with_alt_if_one_is_bound(key: str, driver: type[WakeableDriver]) -> None:
    assert ReviewApp(Sample(), ScreenSettings(keys={"apply": key})).driver_class is driver


def configured(**settings: Any) -> CommandContext:
    origins = {"keys:aply": "config.yaml:2", "keys:apply": "config.yaml:3", "theme": "config.yaml:9"}
    return CommandContext(Store(""), "/", "/", {}, Profile(name="default", **settings), origins)


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        ({"keys": (("aply", "x"),)}, ["2: keys.aply: unknown id (did you mean apply?)"]),
        *(
            ({"keys": (("apply", text),)}, [f"3: keys.apply: `{key}` is not a key like m, ctrl+s, shift+up, f2 or question_mark"])
            for text, key in (("x,nosuchkey", "nosuchkey"), ("x,", ""), ("ctl+x", "ctl+x"))
        ),
        (
            {"theme": "dracul"},
            ["9: theme: dracul is not agent-dev, agent-dev-light or a theme of Textual (did you mean dracula?)"],
        ),
        (
            {"keys": (("aply", "x"), ("apply", "x,")), "theme": "?"},
            [
                "2: keys.aply: unknown id (did you mean apply?)",
                "3: keys.apply: `` is not a key like m, ctrl+s, shift+up, f2 or question_mark",
                "9: theme: ? is not agent-dev, agent-dev-light or a theme of Textual",
            ],
        ),
    ],
)
def test_all_unknown_ids_keys_and_themes_are_refused_with_their_lines(settings: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        load_screen_settings(configured(**settings))
    assert refused.value.message.splitlines() == [f"config.yaml:{problem}" for problem in problems]


@pytest.mark.parametrize(
    ("keys", "problems"),
    [
        ({"apply": "x", "select": "space,y"}, []),
        ({"apply": "m", "note": "x"}, []),
        ({"apply": "s", "show.split": "y", "note": "c"}, []),
        ({"help": "j"}, []),
        ({"apply": "m"}, ["3: keys.apply: note would have no key left: give it another one"]),
        ({"apply": "/"}, ["3: keys.apply: search would have no key left: give it another one"]),
        ({"apply": "x", "select": "x"}, ["3: keys.apply: select would have no key left: give it another one"]),
        ({"apply": "j,down"}, ["3: keys.apply: cursor.down would have no key left: give it another one"]),
    ],
)
def test_a_key_that_another_binding_needs_is_refused(keys: dict[str, str], problems: list[str]) -> None:
    assert screen_problems(configured(keys=tuple(keys.items()))) == tuple(f"config.yaml:{problem}" for problem in problems)


def test_every_key_that_textual_can_report_is_accepted() -> None:
    keys = (*(keys for keys, _, _ in REVIEW_BINDINGS.values()), "m, ?,+,é,ctrl+s,alt+x,shift+f2,minus")
    for text in keys:
        problems = screen_problems(configured(theme="nord", keys=(("apply", text),)))
        assert not [problem for problem in problems if "would have no key" not in problem]


def test_a_rebound_key_works_and_is_shown() -> None:
    app = ReviewApp(Sample())
    app.set_keymap({"apply": "m"})

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until_idle(pilot)
            assert " m apply" in screen_text(app).splitlines()[-1]
            await pilot.press("question_mark")
            await wait_until_idle(pilot)
            assert " m               apply" in screen_text(app)
            await pilot.press("escape", *KEYS_TO_SAFE_CHANGE, "space", "m")
            assert app.state.page is ScreenPage.SUMMARY

    asyncio.run(run())


def test_a_key_typed_before_the_first_paint_does_nothing() -> None:
    app = ReviewApp(Sample())
    typed = KeyEvent("space", " ")

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until_idle(pilot)
            await app.on_event(typed)
            await wait_until_idle(pilot)
            assert not app.state.selection.keys
            await app.on_event(KeyEvent("space", " "))
            await wait_until_idle(pilot)
            assert app.state.selection.keys

    asyncio.run(run())


def test_back_from_the_diff_the_list_shows_its_cursor() -> None:
    source = FakeSession(*(edited(b"%02d" % number) for number in range(33)))
    shown = text_after_keys(source, (80, 24), "enter", *["n"] * 25, "escape").splitlines()
    assert [line[:12].split()[-1] for line in shown if line.startswith("▌")] == ["25"]


def test_a_match_far_down_in_a_diff_is_shown() -> None:
    text = b"".join(b"line %d\n" % number for number in range(200))
    source = FakeSession(edited(b"a"), contents={b"a": (b"", text)})
    shown = text_after_keys(source, (80, 24), "slash", *"150", "enter")
    assert "line 150" in shown


def test_a_search_finds_the_row_of_the_shown_diff_and_no_path() -> None:
    old, new = (b"".join(b"%b %d\n" % (side, number) for number in range(40)) for side in (b"old", b"new"))
    paths = [b"long/%b/needle/needle/needle/needle/needle/needle/%d.py" % (b"x" * 40, number) for number in range(2)]
    source = FakeSession(*map(edited, paths), contents={paths[1]: (old, new.replace(b"new 30", b"needle"))})
    for view in ((), ("s",)):
        shown = text_after_keys(source, (80, 24), *view, "slash", *"needle", "enter").splitlines()
        assert [line.split()[-1] for line in shown if line.startswith("▌")] == ["needle"]


# The mouse


def test_a_click_on_a_checkbox_toggles_and_on_a_name_moves() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        await pilot.click(ChangeList, offset=(12, 2))
        assert pilot.app.state.cursor == 2
        assert not pilot.app.state.selection.keys
        await pilot.click(ChangeList, offset=(2, 6))
        assert {key.path for key in pilot.app.state.selection.keys} == {b"README.md"}

    run_keys(Sample(), (120, 40), scene=scene)


def test_a_click_focuses_a_pane() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        await pilot.click(DiffView, offset=(10, 2))
        assert (pilot.app.state.pane, pilot.app.state.diff.cursor) == (Pane.DIFF, 2)
        await pilot.click(DiffView, offset=(2, 4))
        assert {key.path for key in pilot.app.state.selection.keys} == {b".github/workflows/release.yml"}

    run_keys(Sample(), (120, 40), scene=scene)


def test_a_click_on_a_tab_opens_it() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        line = screen_text(pilot.app).splitlines()[1]
        await pilot.click("#left-title", offset=(line.index("[2]") + 1, 0))
        await wait_until_idle(pilot)
        assert pilot.app.state.tab is Tab.COMMITS

    run_keys(Sample(), (120, 40), scene=scene)


def test_a_click_on_a_key_of_the_footer_does_what_the_key_does() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        line = screen_text(pilot.app).splitlines()[-1]
        await pilot.click("#keys", offset=(line.index("all safe"), 0))
        await wait_until_idle(pilot)
        assert pilot.app.state.selection.keys
        await pilot.click("#keys", offset=(line.index(" c ") + 1, 0))
        await wait_until_idle(pilot)
        assert pilot.app.state.page is not ScreenPage.REVIEW

    run_keys(Sample(), (120, 40), scene=scene)


def test_a_click_on_an_answer_sends_it() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        await pilot.click("Answers", offset=(22, 0))

    assert merged_paths(run_keys(Sample(), (80, 24), *KEYS_TO_SAFE_CHANGE, "space", "c", scene=scene))


# Keys typed ahead, before a page is drawn

BURSTS = (
    *("q?", "qf", "q:", "q/", "q2", "qA", "qc", "?q", "?q?q", "??", "f?", "?f", ":q", "cq"),
    *("Aq?", "Aqn?", "Acn", "Acnc", "Ac?n", "Aqyf", "?jq", "? q", "cjk"),
)


@pytest.mark.parametrize("burst", BURSTS)
def test_keys_typed_ahead_do_not_crash(burst: str) -> None:
    """Rely on `run_test`, which raises the screen's exception when it exits."""
    names = {"?": "question_mark", ":": "colon", "/": "slash", " ": "space"}
    app = ReviewApp(Sample())

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until_idle(pilot)
            for key in burst:
                app.post_message(KeyEvent(names.get(key, key), key))
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()

    asyncio.run(run())


def test_keys_typed_before_a_question_is_drawn_do_not_answer_it() -> None:
    source = Sample()
    app = ReviewApp(source)

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until_idle(pilot)
            await pilot.press(*KEYS_TO_SAFE_CHANGE, "space")
            for key in "cy":
                app.post_message(KeyEvent(key, key))
            await wait_until_idle(pilot)
            assert (app.state.page, merged_paths(app)) == (ScreenPage.SUMMARY, set())
            await pilot.press("y")
            await wait_until_idle(pilot)
            assert app.state.page is ScreenPage.RESULT

    asyncio.run(run())


def test_keys_typed_after_the_answer_go_to_the_next_screen() -> None:
    app = ReviewApp(Sample())

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until_idle(pilot)
            await pilot.press(*KEYS_TO_SAFE_CHANGE, "space", "c")
            await wait_until_idle(pilot)
            for key in "nX":  # no; then deselect all on the list
                app.post_message(KeyEvent(key, key))
            await wait_until_idle(pilot)
            assert (app.state.page, app.state.selection.keys) == (ScreenPage.REVIEW, frozenset())

    asyncio.run(run())


def test_keys_after_quit_are_dropped() -> None:
    app = ReviewApp(Sample())

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until_idle(pilot)
            app.post_message(KeyEvent("q", "q"))
            app.post_message(KeyEvent("question_mark", "?"))
            app.post_message(KeyEvent("A", "A"))
            await pilot.pause()
            assert (app.state.page, app.state.selection.keys) == (ScreenPage.REVIEW, frozenset())

    asyncio.run(run())
