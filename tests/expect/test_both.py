"""Resolve a file that the agent and the user both changed, on the screen: the result is what the screen announced."""

from pathlib import Path

import pytest

from tests.expect.reviews import CODE, review, work
from tests.harness.program import AgentDev
from tests.harness.terminal import Terminal


def answer(terminal: Terminal, key: str) -> str:
    """Resolve the conflict under the cursor by a key; return the text of the last page."""
    terminal.wait_for("✗")
    terminal.keys(key)
    terminal.wait_for("conflict resolved")
    terminal.keys("c")
    return terminal.wait_for("No, go back")


def leave(terminal: Terminal) -> str:
    """Merge; return the text of the result page."""
    terminal.keys("y")
    printed = terminal.wait_for("undo reverts it")
    terminal.keys("enter")
    terminal.wait_exit()
    return printed


AGENTS = ("Apply 1 change?", "replaces yours with the agent's version (undo restores yours)", "1 change merged, nothing")
YOURS = ("Keep yours, and apply nothing?", "the agent's change is dropped from the session", "0 changes merged, yours kept in 1")


@pytest.mark.parametrize(("key", "landed", "printed"), [(">", "agent's\n", AGENTS), ("<", "yours\n", YOURS)])
def test_a_file_added_by_both_is_resolved_on_the_screen(
    shop: AgentDev, repo: Path, key: str, landed: str, printed: tuple[str, str, str]
) -> None:
    work(shop, 'echo "agent\'s" >both.txt')
    (repo / "both.txt").write_text("yours\n")
    with review(shop, cols=120) as terminal:
        last = answer(terminal, key)
        assert all(part in last for part in printed[:2])
        assert "merged without conflict" not in last
        assert printed[2] in leave(terminal)
    assert (repo / "both.txt").read_text() == landed
    shop("undo")
    assert (repo / "both.txt").read_text() == "yours\n"


@pytest.mark.parametrize(
    ("key", "line", "page"),
    [(">", "55", "the agent's lines replace yours"), ("<", "500", "0 of 1 change")],
)
def test_conflicting_lines_are_resolved_on_the_screen(shop: AgentDev, repo: Path, key: str, line: str, page: str) -> None:
    work(shop, "sed -i 's/return 5$/return 55/' code.py")
    (repo / "code.py").write_text(CODE.replace("return 5\n", "return 500\n"))
    with review(shop, cols=120) as terminal:
        last = answer(terminal, key)
        assert page in last
        assert "merged without conflict" not in last
        leave(terminal)
    assert (repo / "code.py").read_text() == CODE.replace("return 5\n", f"return {line}\n")
    shop("undo")
    assert (repo / "code.py").read_text() == CODE.replace("return 5\n", "return 500\n")
    assert shop.changes() == {"code.py": "edited"}


def test_an_edit_next_to_a_conflict_is_left_out_and_stays(shop: AgentDev, repo: Path) -> None:
    work(shop, "sed -i 's/return 1$/return 100/; s/return 5$/return 55/; s/return 10$/return 1000/' code.py")
    yours = CODE.replace("return 5\n", "return 500\n")
    (repo / "code.py").write_text(yours)
    with review(shop, cols=120) as terminal:
        terminal.keys("enter")
        terminal.wait_for("hunk 1 of 3")
        terminal.keys("space")
        terminal.wait_for("[ ] 1 line changed by the agent: left out")
        terminal.keys("]", ">")
        terminal.wait_for("conflict resolved; change selected; 1 edit left out")
        terminal.keys("]", "<")
        terminal.wait_for("2 edits left out")
        terminal.keys(">")
        terminal.wait_for("selected; 1 edit left out")
        terminal.keys("c")
        terminal.wait_for("edit of the agent's left out: it stays in the session")
        leave(terminal)
    merged = yours.replace("return 500\n", "return 55\n").replace("return 10\n", "return 1000\n")
    assert (repo / "code.py").read_text() == merged
    changed = [line for line in shop("diff").stdout.splitlines() if line.startswith(("+", "-")) and line[1:3] not in ("++", "--")]
    assert changed == ["-    return 1", "+    return 100"]
    shop("merge", "--all")
    assert (repo / "code.py").read_text() == merged.replace("return 1\n", "return 100\n")
    shop("undo")
    shop("undo")
    assert (repo / "code.py").read_text() == yours
    assert shop.changes() == {"code.py": "edited"}
