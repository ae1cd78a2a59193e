"""A connection that waits for the user: alerts, lists, the live view, and `approve` on a terminal."""

import pytest

from tests.expect.test_alerts import BELL, Desk, asking, desk
from tests.expect.test_person import session
from tests.harness.internet import CLIENT, PORT, in_internet
from tests.harness.program import PROGRAM, PYTHON, AgentDev, wait_until
from tests.harness.terminal import Terminal

__all__ = ["asking", "desk"]  # fixtures
API = "api.example.org"
QUESTION = f"agent-dev: {API}:{PORT} waits for the user's approval (agent-dev approve), at most 120 s\r\n".encode()


def run(program: AgentDev, *words: str) -> Terminal:
    """Run a program on a terminal that connects twice."""
    patient = CLIENT.replace("(host, port), 10)", "(host, port), 100)")
    code = f"{patient}\nfor _ in '12': print(ask('{API}', {PORT}), flush=True)\ninput()"
    command = [*in_internet(), str(PROGRAM), "--net", "ask", "--no-merge", *words, "--", PYTHON, "-I", "-c", code]
    return Terminal(command, rows=24, cols=100, env=program.terminal_environment(), cwd=program.repo)


def answer(program: AgentDev, key: str) -> None:
    with session(program, "approve") as terminal:
        terminal.wait_for("approve? [y]es, for the [s]ession, [a]lways, [N]o")
        assert f"{API}:{PORT}  python3 (pid " in terminal.text()
        terminal.wait_quiet()  # keys typed before the question are dropped
        terminal.send(f"{key}\r")
        assert terminal.wait_exit() == 0


def test_a_connection_that_waits_rings_and_is_shown_everywhere(asking: AgentDev, desk: Desk) -> None:
    with run(asking, "--name", "fix") as agent:
        agent.wait_raw(QUESTION)
        agent.wait_raw(BELL)
        assert desk.received()[4:] == ["agent-dev: a connection waits for your approval", f"{API}:{PORT}  python3"]
        assert asking("sessions").stdout.endswith("  1 connection waiting (agent-dev approve)\n")
        assert "approvals  1 connection waits in fix" in asking().stdout
        assert asking.status()["approvals"] == 1
        assert "to answer what waits: agent-dev approve --in fix\n" in asking("status").stdout
        with session(asking, "watch") as view:
            assert f"{API}:{PORT}  python3 (pid " in view.wait_for("Waiting for your answer 1")
            view.keys("q")
            view.wait_exit()
        assert asking("approve", "1", "--session").returncode == 0
        agent.wait_for("OUT hello")


@pytest.mark.parametrize(
    ("key", "lines"), [("s", ["OUT", "OUT"]), ("a", ["OUT", "OUT"]), ("y", ["OUT", ""]), ("", ["ECONN", "ECONN"])]
)
def test_approve_asks_about_a_connection_on_a_terminal(asking: AgentDev, key: str, lines: list[str]) -> None:
    with run(asking) as agent:
        agent.wait_raw(QUESTION)
        answer(asking, key)
        if key == "y":
            wait_until(lambda: asking.sessions()[0]["approvals"], "the second connection asks again")
            answer(asking, "n")
        agent.wait_for(lambda text: all(text.count(one) >= lines.count(one) for one in lines))
    path = asking.home.parent / "config" / "agent-dev" / "network" / "default.yaml"
    assert path.exists() == (key == "a")
