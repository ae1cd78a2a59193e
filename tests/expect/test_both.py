"""A file that the agent and the user both changed, answered on the screen: what it says is what then lands."""

from pathlib import Path

import pytest

from tests.expect.reviews import CODE, review, work
from tests.harness.program import AgentDev
from tests.harness.terminal import Terminal


def answer(terminal: Terminal, key: str) -> str:
    """Answer the one conflict under the cursor, and return the last page."""
    terminal.wait_for("✗")
    terminal.keys(key)
    terminal.wait_for("settled, and taken")
    terminal.keys("c")
    return terminal.wait_for("No, go back")


def leave(terminal: Terminal) -> str:
    """Merge, and return what the screen says of it."""
    terminal.keys("y")
    said = terminal.wait_for("undo takes it back")
    terminal.keys("enter")
    terminal.wait_exit()
    return said


AGENTS = ("Merge 1 change?", "yours is replaced by the agent's (undo brings it back)", "1 change merged, nothing")
YOURS = ("Keep yours, and merge nothing of it?", "nothing of the agent's lands", "0 changes merged, yours kept in 1")


@pytest.mark.parametrize(("key", "landed", "said"), [(">", "agent's\n", AGENTS), ("<", "yours\n", YOURS)])
def test_a_file_that_both_added(shop: AgentDev, repo: Path, key: str, landed: str, said: tuple[str, str, str]) -> None:
    work(shop, 'echo "agent\'s" >both.txt')
    (repo / "both.txt").write_text("yours\n")
    with review(shop, cols=120) as terminal:
        last = answer(terminal, key)
        assert all(part in last for part in said[:2])
        assert "both fit together" not in last
        assert said[2] in leave(terminal)
    assert (repo / "both.txt").read_text() == landed
    shop("undo")
    assert (repo / "both.txt").read_text() == "yours\n"


@pytest.mark.parametrize(
    ("key", "line", "page"),
    [(">", "55", "yours are replaced by the agent's"), ("<", "500", "0 of 1 change")],
)
def test_lines_in_conflict(shop: AgentDev, repo: Path, key: str, line: str, page: str) -> None:
    work(shop, "sed -i 's/return 5$/return 55/' code.py")
    (repo / "code.py").write_text(CODE.replace("return 5\n", "return 500\n"))
    with review(shop, cols=120) as terminal:
        last = answer(terminal, key)
        assert page in last
        assert "both fit together" not in last
        leave(terminal)
    assert (repo / "code.py").read_text() == CODE.replace("return 5\n", f"return {line}\n")
    shop("undo")
    assert (repo / "code.py").read_text() == CODE.replace("return 5\n", "return 500\n")
    assert shop.changes() == {"code.py": "edited"}
