"""The screen of `agent-dev init`: pages, keys and sizes."""

import pytest

from agent_dev.cli.setup.questions import Facts, initial_picks, make_questions
from agent_dev.config.new_config import DEFAULTS, config_text
from tests.tui.single_screen_player import play_keys
from tui.setup.form import Picks, open_form
from tui.setup.screen import SetupApp

AGENTS = tuple((f"agent-{number:02}", f"@package/{number}") for number in range(16))
FACTS = Facts(
    AGENTS, ("agent-03",), {"A_KEY": "agent-03"}, ("ssh-agent",), "/home/ada/.config/agent-dev/config.yaml", has_config=False
)
TO_THE_END = ("enter",) * 7


def preview(_picks: Picks) -> tuple[str, ...]:
    return tuple(config_text(DEFAULTS).splitlines())


def play(*keys: str, size: tuple[int, int] = (80, 24), resized: tuple[int, int] | None = None) -> tuple[SetupApp, str]:
    """Press keys; return the application and the text of the screen before it ends."""
    app = SetupApp(open_form(make_questions(FACTS, DEFAULTS, preview), initial_picks(FACTS, DEFAULTS, ())), "agent-dev init")
    return app, play_keys(app, *keys, size=size, resized=resized)


def test_the_first_page_shows_agents_keys_and_the_cursor() -> None:
    _, shown = play()
    assert shown.splitlines()[0].startswith(" agent-dev init  Agents")
    assert shown.splitlines()[0].endswith("1/8")
    assert "▸ [x] agent-03 (installed)" in shown
    assert "enter next" in shown.splitlines()[-1]


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
def test_the_cursor_stays_visible_on_small_screens(size: tuple[int, int]) -> None:
    for number in (0, 5, 12):
        _, shown = play(*("down",) * number, size=size)
        assert f"▸ [{'x' if number == 0 else ' '}] agent-{number + 3:02}" in shown
        assert max(map(len, shown.splitlines())) <= size[0]


def test_a_resize_wraps_the_texts_again() -> None:
    _, shown = play("enter", resized=(40, 10))
    assert max(map(len, shown.splitlines())) <= 40
    assert "▸ (•) one home for all" in shown
    assert "log in once in each" in " ".join(play("enter", resized=(40, 24))[1].split())


def test_enter_on_every_page_gives_the_first_answers() -> None:
    app, shown = play(*TO_THE_END, "enter")
    assert app.form.is_done
    assert app.form.picks["agents"] == ("agent-03",)
    assert app.form.picks["write"] == ("write",)
    assert "▸ (•) write /home/ada/.config/agent-dev/config.yaml" in shown
    assert "# net: host" in play(*TO_THE_END)[1]
    assert "# share:" in play(*TO_THE_END, "pagedown")[1]


def test_answers_are_selected_by_keys_and_can_be_corrected() -> None:
    app, _ = play("space", "k", "space", "enter", "j", "j", "enter", "down", "left", "enter", *TO_THE_END)
    assert app.form.picks["agents"] == ("agent-02",)
    assert app.form.picks["home"] == ("~/aihomes/{project}",)
    assert app.form.picks["net"] == ("host",)


@pytest.mark.parametrize("key", ["q", "escape", "ctrl+c"])
def test_quitting_answers_nothing(key: str) -> None:
    app, _ = play("enter", key)
    assert not app.form.is_done
    assert not app.is_running
