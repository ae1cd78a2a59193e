"""A program of twelve functions, what an agent does to it, and the screen on which it is reviewed."""

from tests.expect.test_person import session
from tests.harness.program import AgentDev
from tests.harness.terminal import Terminal

CODE = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(12))


def work(agent_dev: AgentDev, script: str) -> None:
    """Let an agent do something."""
    assert agent_dev("--no-merge", "--", "sh", "-ec", script).returncode == 0


def review(agent_dev: AgentDev, *words: str, rows: int = 24, cols: int = 120) -> Terminal:
    """Open the screen and wait until it takes keys."""
    terminal = session(agent_dev, "merge", *words, rows=rows, cols=cols)
    terminal.wait_for("c apply")
    terminal.wait_quiet()
    return terminal


EDIT = "sed -i 's/return 1$/return 100/; s/return 10$/return 1000/' code.py; rm old.py; echo new >new.py"
