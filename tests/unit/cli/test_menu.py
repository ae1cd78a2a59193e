"""The menu of `agent-dev` without arguments: its entries, keys and lines."""

import pytest

from agent_dev.agents.startable import InstalledAgents
from agent_dev.cli.menu.entries import MAX_ENTRIES, MenuEntry, menu_entries
from agent_dev.cli.menu.view import Menu, menu_lines, press
from agent_dev.cli.render.overview import next_command
from agent_dev.session import store
from tests.unit.cli.test_overview import BUILT_IN, KILLED, RUNNING, A, B, listed, overview

MANY = InstalledAgents(("bash", *(f"agent-{number}" for number in range(9))))
ENTRIES = (MenuEntry("r", "review", ("merge",)), MenuEntry("", "other", ("status",)), MenuEntry("h", "help", ("--help",)))
STATES = [
    overview(),
    overview(A),
    overview(A, B, RUNNING, KILLED, questions={"r": (2, 0)}, agents=MANY),
    overview(RUNNING, agents=BUILT_IN),
    overview(agents=BUILT_IN),
    overview(agents=InstalledAgents(problem="bubblewrap is missing")),
    overview(is_repository=False, agents=InstalledAgents()),
]


def commands(*sessions: object, has_merge: bool = False, **more: object) -> list[str]:
    state = overview(*sessions, **more)  # type: ignore[arg-type]
    return [one.command.removeprefix("agent-dev ") for one in menu_entries(state, has_merge=has_merge)]


@pytest.mark.parametrize("has_merge", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_there_are_at_most_ten_entries_with_different_keys(state: object, has_merge: bool) -> None:  # noqa: FBT001
    entries = menu_entries(state, has_merge=has_merge)  # type: ignore[arg-type]
    keys = [one.key for one in entries if one.key]
    assert 3 <= len(entries) <= MAX_ENTRIES
    assert len({*keys}) == len(keys)
    assert not {*keys} & {"q", "j", "k"}
    assert [one.arguments for one in entries[-2:]] == [("init",), ("--help",)]


def test_a_free_repository_offers_its_agents_first() -> None:
    assert commands() == ["claude", "bash", "install --list", "init", "--help"]
    assert commands(agents=BUILT_IN) == ["bash", "demo", "install claude", "init", "--help"]
    assert commands(agents=InstalledAgents(problem="no bwrap")) == ["doctor", "init", "--help"]
    assert commands(is_repository=False, agents=InstalledAgents()) == ["demo", "install claude", "init", "--help"]


def test_questions_come_first_then_reviews_of_the_newest_sessions() -> None:
    found = commands(A, B, RUNNING, questions={"r": (1, 0)}, has_merge=True)
    assert found[:5] == ["approve --in r", "merge b", "merge a", "resume b", "watch r"]
    assert found[5:] == ["claude", "bash", "install --list", "undo", "init", "--help"][:5] or len(found) == MAX_ENTRIES
    assert "undo" in found


def test_the_first_entry_is_the_next_command_of_the_text() -> None:
    for state in (overview(A), overview(A, B), overview(), overview(agents=InstalledAgents(problem="x"))):
        first = menu_entries(state, has_merge=False)[0].command
        assert first.startswith(next_command(state)[0])


def test_a_session_in_the_real_tree_is_not_resumed() -> None:
    direct = listed("a", store.WAITING)
    direct.record["options"] = {"direct": "copy"}
    assert "resume a" not in commands(direct)
    assert "resume a" in commands(A)


@pytest.mark.parametrize(
    ("data", "selected"),
    [
        (b"\r", "merge"),
        (b"\n", "merge"),
        (b"\x1b[B\r", "status"),
        (b"\x1bOB\x1b[B\x1b[B\r", "--help"),
        (b"jjk\r", "status"),
        (b"\x1b[B\x1b[A\x1b[A\r", "merge"),
        (b"h", "--help"),
        (b"hr", "--help"),
        (b"x\x1b[5~\x1b[1;5A\x1bh\x1b[200~r", "merge"),
    ],
)
def test_keys_select_an_entry(data: bytes, selected: str) -> None:
    menu = press(Menu(ENTRIES), data)
    assert menu.is_closed
    assert menu.selected is not None
    assert menu.selected.arguments == (selected,)


@pytest.mark.parametrize("data", [b"q", b"\x1b", b"\x03", b"\x04", b"jq\r"])
def test_leaving_selects_nothing(data: bytes) -> None:
    menu = press(Menu(ENTRIES), data)
    assert (menu.is_closed, menu.selected) == (True, None)


@pytest.mark.parametrize("data", [b"", b"x", b"\x1b[5~", b"\x1bq", b"\x1b[", b"\xc3\xa9", b"R"])
def test_other_keys_do_nothing(data: bytes) -> None:
    assert press(Menu(ENTRIES), data) == Menu(ENTRIES)


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 4), (10, 2), (1, 1)])
def test_lines_fit_and_the_cursor_is_visible(size: tuple[int, int]) -> None:
    entries = menu_entries(STATES[2], has_merge=True)
    for cursor in range(len(entries)):
        lines = menu_lines(Menu(entries, cursor), ["state"] * 30, size)
        plain = [line.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[22m", "") for line in lines]
        assert len(lines) <= size[1]
        assert max(map(len, plain)) <= size[0]
        if size[0] >= 20:
            assert (
                [line for line in plain if line.startswith("> ")]
                == [line for line in plain if line.startswith(f"> {entries[cursor].key or ' '}")]
                != []
            )


def test_a_large_terminal_shows_the_state_the_entries_and_the_commands() -> None:
    lines = menu_lines(Menu(ENTRIES), ["shop", "  agents  claude"], (80, 24))
    assert lines[:3] == ["shop", "  agents  claude", ""]
    assert lines[3].startswith("\x1b[1m> r  review\x1b[22m")
    assert lines[3].endswith("\x1b[2magent-dev merge\x1b[22m")
    assert "esc leave" in lines[-1]


def test_control_characters_of_names_are_escaped() -> None:
    lines = menu_lines(Menu((MenuEntry("r", "review \x1b[31m", ("merge", "\x1b[31m")),)), [], (80, 24))
    assert not any("\x1b[31m" in line for line in lines)
