"""The end of a review: the rest of the session is kept, discarded, or sent back to the agent with notes."""

import json
from pathlib import Path

from tests.expect.reviews import EDIT, review, work
from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal

# Called again with notes it shows where they are, and does something else.
AGENT = f'if [ -n "$AGENT_DEV_REVIEW_NOTES" ]; then cp "$AGENT_DEV_REVIEW_NOTES" notes.md; echo again >again.py; else {EDIT}; fi'


def states(shop: AgentDev) -> list[str]:
    """Return the state of each session, discarded ones too."""
    return [one["state"] for one in json.loads(shop("sessions", "--all", "--json").stdout)["sessions"]]


def test_notes_resume_the_agent_after_the_selection_was_applied(shop: AgentDev, repo: Path) -> None:
    work(shop, AGENT)
    with review(shop, rows=24, cols=80) as terminal:
        terminal.keys("m")
        terminal.wait_for("note to the agent:")
        terminal.send("use constants, please\r")
        terminal.wait_for("1 note (M: send back")
        terminal.keys("A")
        terminal.wait_for("selected 2 of 3")
        terminal.keys("M")
        terminal.wait_for("Send 1 note back to the agent?")
        terminal.keys("right", "right", "enter")
        terminal.wait_for("Apply 2 changes?")
        terminal.keys("y")
        terminal.wait_for(lambda shown: "+  notes.md" in shown and "+  again.py" in shown)  # the list of the next review
        assert "again.py" not in {path.name for path in repo.iterdir()}
        terminal.wait_quiet()
        terminal.keys("q")
        assert terminal.wait_exit() == 0
    assert (repo / "new.py").exists()
    assert "resuming session" in terminal.text()
    shop("merge", "--take", "notes.md")
    notes = (repo / "notes.md").read_text()
    assert "whole file: use constants, please" in notes
    assert "## old.py" in notes  # the first change of the list
    with review(shop, rows=24, cols=80) as terminal:  # sent notes are not shown again
        terminal.keys("M")
        terminal.wait_for("no notes yet")
        terminal.keys("q")
        terminal.wait_exit()


def test_notes_are_sent_after_a_recorded_run(shop: AgentDev, tmp_path: Path) -> None:
    """The file of its recording exists then, and is neither an error nor continued."""
    cast = tmp_path / "run.cast"
    argv: list[str | Path] = [PROGRAM, "--record", cast, "--", "sh", "-c", AGENT]
    with Terminal(argv, rows=24, cols=80, env=shop.terminal_environment(), cwd=shop.repo) as terminal:
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        before = cast.read_bytes()
        terminal.keys("m")
        terminal.wait_for("note to the agent:")
        terminal.send("again\r")
        terminal.wait_for("1 note (M: send back")
        terminal.keys("M")
        terminal.wait_for("Send 1 note back to the agent?")
        terminal.keys("right", "enter")
        terminal.wait_for(lambda shown: "+  again.py" in shown)
        terminal.wait_quiet()
        terminal.keys("q")
        assert terminal.wait_exit() == 0
    assert cast.read_bytes() == before


def test_notes_that_were_not_sent_are_there_in_the_next_review(shop: AgentDev) -> None:
    work(shop, EDIT)
    for answer in ("q", "M"):
        with review(shop, rows=24, cols=80) as terminal:
            if answer == "q":
                terminal.keys("m")
                terminal.wait_for("note to the agent:")
                terminal.send("later\r")
                terminal.wait_for("1 note (M")
                terminal.keys("q")
            else:
                terminal.keys("M")
                terminal.wait_for("later")
                terminal.keys("escape")
                terminal.wait_gone("Send 1 note")
                terminal.keys("q")
            terminal.wait_exit()


def test_the_rest_is_discarded_after_a_merge_and_restored(shop: AgentDev, repo: Path) -> None:
    work(shop, EDIT)
    with review(shop, rows=24, cols=80) as terminal:
        terminal.keys("A")
        terminal.wait_for("selected 2 of 3")
        terminal.keys("c")
        terminal.wait_for("No, go back")
        terminal.keys("y")
        shown = terminal.wait_for("Discard the rest")
        assert "Keep the rest" in shown
        terminal.wait_quiet()
        terminal.keys("d")
        assert terminal.wait_exit() == 0
    assert "agent-dev undiscard" in terminal.text().replace("\n", "")
    assert (repo / "old.py").exists()
    assert states(shop) == ["discarded"]
    assert shop("undiscard").returncode == 0
    assert shop.changes() == {"old.py": "deleted"}


def test_enter_keeps_the_rest(shop: AgentDev) -> None:
    work(shop, EDIT)
    with review(shop, rows=24, cols=80) as terminal:
        terminal.keys("A")
        terminal.wait_for("selected 2 of 3")
        terminal.keys("c")
        terminal.wait_for("No, go back")
        terminal.keys("y")
        terminal.wait_for("Keep the rest")
        terminal.keys("enter")
        assert terminal.wait_exit() == 0
    assert states(shop) == ["waiting"]


def test_the_plain_review_sends_notes_back_after_a_merge(shop: AgentDev, repo: Path) -> None:
    work(shop, AGENT)
    # old.py: a note, not selected; two hunks of code.py; new.py; merge; the rest: send back
    done = shop("merge", "--plain", input="m\nkeep this file\nn\ny\ny\ny\ny\ns\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the rest of the session: keep, discard, send back? [k,d,s,q,?]" in done.stdout
    assert (repo / "new.py").exists()
    assert (repo / "old.py").exists()
    assert {"again.py", "notes.md"} <= shop.changes().keys()
    shop("merge", "--take", "notes.md")
    assert "`print('old')`: keep this file" in (repo / "notes.md").read_text()


def test_the_plain_review_discards_the_rest(shop: AgentDev, repo: Path) -> None:
    work(shop, EDIT)
    done = shop("merge", "--plain", input="n\ny\ny\ny\ny\nd\n")
    assert (done.returncode, (repo / "old.py").exists()) == (0, True)
    assert states(shop) == ["discarded"]
