"""`tx --best` at a terminal: the comparison, the review of an attempt, and the end."""

from tests.expect.test_person import session
from tests.harness.program import AgentDev

SCRIPT = "n=1; until mkdir ~/turn$n 2>/dev/null; do n=$((n+1)); done; echo $n >score; echo text $n >text$n"


def test_an_attempt_is_compared_reviewed_and_merged_at_the_terminal(agent_dev: AgentDev) -> None:
    words = ("tx", "--best", "2", "--jobs", "1", "--score", "cat score", "--name", "fix", "--", "sh", "-c", SCRIPT)
    with session(agent_dev, *words, rows=24, cols=80) as terminal:
        terminal.wait_for("fix-2 is the best: score 2, the highest; next is fix-1 with 1")
        terminal.wait_for("▸ *  fix-2")
        terminal.wait_quiet()
        terminal.keys("up", "d")
        terminal.wait_for("+text 1")
        terminal.keys("escape")
        terminal.wait_for("▸    fix-1")
        terminal.keys("enter")
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        terminal.keys("q")  # merges nothing: back to the comparison
        terminal.wait_for("▸    fix-1")
        terminal.wait_quiet()
        terminal.keys("down", "enter")
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        terminal.keys("A", "c")
        terminal.wait_for("No, go back")
        terminal.keys("y")
        terminal.wait_for("undo reverts it")
        terminal.keys("enter")
        assert terminal.wait_exit() == 0
    assert (agent_dev.repo / "text2").exists()
    assert [one["name"] for one in agent_dev.sessions()] == ["fix-1"]
