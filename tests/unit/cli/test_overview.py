"""The text of `agent-dev` without arguments: short, and with the most useful command."""

import pytest

from agent_dev.agents.startable import InstalledAgents
from agent_dev.cli.render.overview import ABOUT, Overview, next_command, overview_text
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession

HOME = "/home/ada"
BUILT_IN = InstalledAgents(("bash", "demo"), ("claude", "codex"))
CLAUDE = InstalledAgents(("bash", "claude", "demo"), ("codex",))


def listed(name: str, state: str, command: tuple[str, ...] = ("claude",), problem: str = "") -> ListedSession:
    record: store.Record = {**store.BLANK, "name": name, "command": list(command), "started": 10**18}
    return ListedSession(store.Session(name, f"/state/{name}"), record, state, problem)


def overview(
    *sessions: ListedSession,
    questions: dict[str, tuple[int, int]] | None = None,
    agents: InstalledAgents = CLAUDE,
    root: str = f"{HOME}/src/shop",
    is_repository: bool = True,
) -> Overview:
    return Overview(root, HOME, sessions, questions or {}, agents, is_repository)


A, B = listed("a", store.WAITING), listed("b", store.WAITING)
RUNNING, KILLED = listed("r", store.RUNNING), listed("k", store.KILLED)
DAMAGED = listed("d", "damaged", problem="no record")


@pytest.mark.parametrize(
    ("state", "command"),
    [
        (overview(), "claude"),
        (overview(agents=InstalledAgents(("bash", "mine"))), "mine"),
        (overview(agents=BUILT_IN), "install claude"),
        (overview(agents=InstalledAgents(("bash",))), "profiles"),
        (overview(agents=InstalledAgents(problem="no bwrap")), "doctor"),
        (overview(A), "merge"),
        (overview(KILLED), "merge"),
        (overview(A, B), "merge b"),
        (overview(RUNNING), "status"),
        (overview(RUNNING, DAMAGED), "status r"),
        (overview(A, RUNNING), "merge a"),
        (overview(DAMAGED), "claude"),
        (overview(RUNNING, questions={"r": (1, 0)}), "approve"),
        (overview(A, RUNNING, questions={"r": (2, 0)}), "approve --in r"),
    ],
)
def test_the_next_command_follows_from_the_state(state: Overview, command: str) -> None:
    assert next_command(state)[0] == f"agent-dev {command}"
    assert f"\n  next  agent-dev {command}    " in overview_text(state)


def test_the_state_is_shown_with_running_sessions_first() -> None:
    text = overview_text(overview(A, RUNNING, B, DAMAGED, questions={"r": (1, 0)}, agents=BUILT_IN))
    rows = [row.split("  2001-09-09")[0].rstrip() for row in text.splitlines()]
    assert rows == [
        "~/src/shop",
        "  running    r",
        "  damaged    d  no record",
        "  waiting    b",
        "  waiting    a",
        "  approvals  1 command waits in r",
        "  agents     bash, demo; not installed: claude, codex",
        "",
        "  next  agent-dev approve --in r    approve or deny what waits",
        "  help  agent-dev --help",
    ]


def test_an_empty_state_is_shown_in_a_few_lines() -> None:
    assert overview_text(overview(root="/srv/shop")).splitlines()[:3] == [
        "/srv/shop",
        "  sessions   none running or waiting",
        "  agents     bash, claude, demo; not installed: codex",
    ]
    problem = overview(agents=InstalledAgents(problem="bubblewrap is missing"))
    assert "  agents     none can start: bubblewrap is missing\n" in overview_text(problem)


def test_the_text_fits_on_a_small_screen() -> None:
    many = [listed(f"{'name' * 30}{n}", store.RUNNING, ("x" * 200,)) for n in range(40)]
    names = tuple(f"agent-{n}" for n in range(50))
    state = overview(
        *many, questions={one.name: (2, 1) for one in many}, agents=InstalledAgents(names, names), root=f"/{'d' * 200}"
    )
    text = overview_text(state)
    assert "\n  and 32 more: agent-dev sessions\n" in text
    for shown in (text, ABOUT):
        assert len(shown.splitlines()) < 24
        assert max(map(len, shown.splitlines())) <= 80


def test_control_characters_are_escaped() -> None:
    state = overview(listed("a", store.WAITING, ("\x1b[31m",)), listed("d", "damaged", problem="\x1b"), root="/\x1b")
    assert "\x1b" not in overview_text(state)


def test_without_a_repository_the_program_is_described() -> None:
    assert overview_text(overview(is_repository=False)) == ABOUT
    assert overview_text(overview(A, is_repository=False)) != ABOUT  # a session in a directory without git
