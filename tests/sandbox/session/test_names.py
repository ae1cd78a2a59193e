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
        (("first", "second"), 2, "--name second: a waiting session of this repository has that name"),
        (("first", "a b"), 2, "'a b': only letters, digits, `.`, `-` and `_`"),
        (("third", "new"), 2, "no session third"),
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
