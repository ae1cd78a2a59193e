"""A program of twelve functions, an agent's edit of it, and helpers that drive its review on the screen."""

from tests.expect.test_person import session
from tests.harness.program import AgentDev
from tests.harness.terminal import Terminal

CODE = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(12))


def work(agent_dev: AgentDev, script: str) -> None:
    """Run a shell script as an agent, without a merge."""
    assert agent_dev("--no-merge", "--", "sh", "-ec", script).returncode == 0


def review(agent_dev: AgentDev, *words: str, rows: int = 24, cols: int = 120) -> Terminal:
    """Open the screen and wait until it accepts keys."""
    terminal = session(agent_dev, "merge", *words, rows=rows, cols=cols)
    terminal.wait_for("c apply")
    terminal.wait_quiet()
    return terminal


def confirm(terminal: Terminal, result: str = "undo reverts it") -> str:
    """Answer yes to the last question and close the result page; return its text."""
    terminal.keys("y")
    text = terminal.wait_for(result)
    terminal.keys("enter")
    terminal.wait_exit()
    return text


EDIT = "sed -i 's/return 1$/return 100/; s/return 10$/return 1000/' code.py; rm old.py; echo new >new.py"
