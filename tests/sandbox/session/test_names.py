"""Sessions are renamed, and discarded by name where several are open."""

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal


@pytest.fixture
def two(agent_dev: AgentDev) -> AgentDev:
    """Return the program with two waiting sessions."""
    for name in ("first", "second"):
        assert agent_dev("--no-merge", "--name", name, "--", "sh", "-c", f"echo {name} >{name}").returncode == 0
    return agent_dev


def names(agent_dev: AgentDev) -> list[object]:
    return [row["name"] for row in agent_dev.sessions()]


def test_a_session_is_renamed(two: AgentDev) -> None:
    assert two.do("sessions", "rename", "first", "fix-login") == "session first is now fix-login\n"
    assert names(two) == ["fix-login", "second"]
    assert two("merge", "fix-login", "--all").returncode == 0
    assert (two.repo / "first").exists()


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("first", "second"), 2, "second: a waiting session of this repository has that name\n"),
        (
            ("first", "a b"),
            2,
            "'a b': only letters, digits, `.`, `-` and `_`\nagent-dev: hint: agent-dev sessions rename first fix-login\n",
        ),
        (("first", "a..b"), 2, "'a..b': not `-` first, and no two `.` in a row"),
        (("first", "261121-030926-869c"), 2, "'261121-030926-869c': it has the form of a session's id\n"),
        (("--", "first", "--all"), 2, "'--all': not `-` first, and no two `.` in a row"),
        (("third", "new"), 2, "no session third"),
        (("", "new"), 2, "sessions rename: an argument is empty"),
    ],
)
def test_a_wrong_name_changes_nothing(two: AgentDev, words: tuple[str, ...], code: int, why: str) -> None:
    done = two("sessions", "rename", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"agent-dev: {why}")
    assert names(two) == ["first", "second"]


def test_of_several_sessions_none_is_discarded_without_a_name(two: AgentDev) -> None:
    done = two("discard")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "agent-dev: several sessions are open: first, second\nagent-dev: hint: agent-dev discard second\n"
    assert names(two) == ["first", "second"]


@pytest.mark.parametrize(("answer", "left"), [("1", ["second"]), ("", ["first", "second"]), ("3", ["first", "second"])])
def test_the_session_to_discard_is_asked_for_on_a_terminal(two: AgentDev, answer: str, left: list[str]) -> None:
    with Terminal([str(PROGRAM), "discard"], env=two.environment(), cwd=two.repo) as terminal:
        terminal.wait_for("discard which session? [1-2, enter: none]")
        terminal.send(answer + "\r")
        terminal.wait_for("moved to the trash" if len(left) == 1 else "no session was discarded")
    assert names(two) == left


def test_a_name_like_a_commit_or_an_option_is_no_trap(agent_dev: AgentDev) -> None:
    for option in (("--name", "--no-merge"), ("--name=-x",)):
        done = agent_dev(*option, "--", "touch", "x")
        assert (done.returncode, "not `-` first" in done.stderr) == (2, True)
    done = agent_dev("--name", "261121-030926-869c", "--", "touch", "x")
    assert (done.returncode, "it has the form of a session's id" in done.stderr) == (2, True)
    agent_dev.do("--no-merge", "--name", "1234", "--", "sh", "-c", "echo x >facade; mkdir 2024; echo y >2024/file")
    assert "+y" in agent_dev.do("diff", "1234")
    for words in (("2024",), ("1234", "2024"), ("--", "2024"), ("1234", "--", "2024"), ("--stat", "2024")):
        printed = agent_dev.do("diff", *words)
        assert ("2024/file" in printed, "facade" in printed) == (True, False)
    assert "+x" in agent_dev.do("diff", "facade")
    done = agent_dev("diff", "fade")
    assert (done.returncode, "the session has no commit fade" in done.stderr) == (2, True)


def test_an_id_selects_one_of_two_open_sessions_of_a_name(two: AgentDev) -> None:
    two.do("sessions", "rename", "first", "fix")
    two.do("merge", "fix", "--all")
    two.do("sessions", "rename", "second", "fix")
    two.do("undo")  # the first one is open again
    ids = [str(row["session"]) for row in two.sessions()]
    done = two("discard", "fix")
    assert (done.returncode, f"2 open sessions have the name fix: {', '.join(ids)}" in done.stderr) == (2, True)
    assert "second" in two.do("diff", ids[1])
    assert [ids[row] in line for row, line in enumerate(two.do("sessions").splitlines())] == [True, True]
    for words in ((), (ids[1],)):
        assert two.do("status", *words).endswith(f"to select and apply changes: agent-dev merge {ids[1]}\n")
    assert (
        two("discard").stderr
        == f"agent-dev: several sessions are open: {', '.join(ids)}\nagent-dev: hint: agent-dev discard {ids[1]}\n"
    )
