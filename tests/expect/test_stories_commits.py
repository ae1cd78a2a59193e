"""Whole imports of commits on the screen: all commits, one, as a branch, with conflicts."""

from pathlib import Path

import pytest

from tests.expect.reviews import CODE, confirm, review, work
from tests.expect.test_person import session
from tests.harness.git.git_kinds import KINDS
from tests.harness.program import PROGRAM, AgentDev, tree
from tests.harness.terminal import Terminal


def committed(shop: AgentDev) -> None:
    """Let an agent make two commits."""
    work(
        shop,
        "sed -i 's/return 1$/return 100/' code.py; git commit -qam 'Raise one'; echo new >new.py; git add new.py; "
        "git commit -qm 'Add new'",
    )


def run_import(shop: AgentDev, *keys: str) -> str:
    """Select commits by keys, and import them (last key `branch`: as a new branch); return the text of the result page."""
    with review(shop) as terminal:
        terminal.keys("2")
        terminal.wait_for("[ ]   ")
        terminal.wait_for("+ new.py")  # the first commit is read completely
        *choosing, answer = keys
        terminal.keys(*choosing)
        terminal.wait_for(f"{max(1, 2 * choosing.count('A'))} of 2 commits selected")
        terminal.keys("c")
        terminal.wait_for("onto your branch")
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


def resolve_last(terminal: Terminal, key: str) -> None:
    """Resolve the last conflict by a key, and import the commits."""
    terminal.keys(key)
    terminal.wait_for("1 of 1 conflict resolved")
    terminal.keys("c")
    terminal.wait_for("Import the commits with these resolutions?")
    confirm(terminal, "agent-dev undo")


def files(repo: Path) -> dict[str, str]:
    """Return the work tree without git's files: imported objects may remain."""
    return {path: what for path, what in tree(repo).items() if not path.startswith(".git")}


@pytest.mark.slow
def test_all_commits_are_imported_onto_the_current_branch_and_undone(shop: AgentDev, repo: Path) -> None:
    before, head = files(repo), shop.git("rev-parse", "HEAD")
    committed(shop)
    assert "2 files changed" in run_import(shop, "A", "y")
    assert shop.git("log", "--format=%s", "-2").split("\n")[:2] == ["Add new", "Raise one"]
    assert "return 100" in (repo / "code.py").read_text()
    assert (repo / "new.py").read_text() == "new\n"
    assert shop.git("status", "--porcelain") == "?? old.py\n"
    assert shop("undo").returncode == 0
    assert (shop.git("rev-parse", "HEAD"), files(repo)) == (head, before)


def test_one_commit_of_two_is_imported(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    assert ", 1 file changed" in run_import(shop, "space", "y")
    assert shop.git("log", "--format=%s", "-1").strip() == "Add new"
    assert (repo / "new.py").read_text() == "new\n"
    assert "return 100" not in (repo / "code.py").read_text()


@pytest.mark.parametrize(("choice", "rest"), [("space", "2 commits; import: merge --commits"), ("A", "")])
def test_commits_imported_after_a_run_no_longer_count_as_waiting(shop: AgentDev, choice: str, rest: str) -> None:
    commit = "git add {0}.py; git commit -qm {0}"
    script = "; ".join(f"echo new >{name}.py; {commit.format(name)}" for name in ("one", "two", "three"))
    with session(shop, "--", "sh", "-c", script, rows=24, cols=120) as terminal:
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        terminal.keys("2")
        terminal.wait_for("+ three.py")
        terminal.keys(choice, "c")
        terminal.wait_for("onto your branch")
        confirm(terminal, "agent-dev undo")
        waiting = [line.strip() for line in terminal.text().splitlines() if "import: merge --commits" in line]
    assert [line[-len(rest) :] for line in waiting] == [rest] * bool(rest)


def test_commits_imported_as_a_branch_leave_the_files_unchanged(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    head = shop.git("rev-parse", "HEAD")
    run_import(shop, "A", "branch")
    assert shop.git("log", "--format=%s", "-2", "topic").split("\n")[:2] == ["Add new", "Raise one"]
    assert (shop.git("rev-parse", "HEAD"), (repo / "new.py").exists()) == (head, False)


def import_over_conflicts(terminal: Terminal) -> None:
    """Select all commits and confirm the import, until the screen offers to resolve the conflicts."""
    terminal.keys("2")
    terminal.wait_for("+ new.py")
    terminal.keys("A", "c")
    terminal.wait_for("Import 2 commits?")
    terminal.keys("y")
    terminal.wait_for("Resolve conflicts now?")
    terminal.wait_for("conflict: code.py")


def test_commits_blocked_by_an_edit_are_reported_and_the_review_continues(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    (repo / "code.py").write_text(CODE.replace("return 1\n", "return 111\n"))
    before = tree(repo)
    with review(shop) as terminal:
        import_over_conflicts(terminal)
        terminal.wait_for("nothing was changed")
        terminal.keys("enter")
        terminal.wait_for("2 of 2 commits selected")
        assert tree(repo) == before


def test_conflicts_of_commits_are_resolved_one_commit_after_the_other(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    (repo / "code.py").write_text(CODE.replace("return 1\n", "return 111\n"))
    (repo / "new.py").write_text("mine\n")
    shop.git("add", "-A")
    shop.git("commit", "-qm", "Mine")
    with review(shop) as terminal:
        import_over_conflicts(terminal)
        terminal.keys("y")
        terminal.wait_for("Raise one")
        terminal.wait_for("conflict 1: unresolved")
        terminal.wait_quiet()
        terminal.keys("c")
        terminal.wait_for("1 more to resolve")
        terminal.keys("b")
        terminal.wait_for("conflict 1: both")
        terminal.wait_for("1 of 1 conflict resolved")
        terminal.keys("c")
        terminal.wait_for("Import the commits with these resolutions?")
        terminal.keys("y")
        terminal.wait_for("Resolve conflicts now?")
        terminal.wait_for("conflict: new.py")
        terminal.keys("y")
        terminal.wait_for("Add new")
        terminal.wait_for("conflict 1: unresolved")
        terminal.wait_quiet()
        resolve_last(terminal, ">")
    assert shop.git("log", "--format=%s", "-3").split("\n")[:3] == ["Add new", "Raise one", "Mine"]
    assert "return 111\n    return 100\n" in (repo / "code.py").read_text()
    assert (repo / "new.py").read_text() == "new\n"
    assert not shop.git("status", "--porcelain")


@pytest.mark.slow
def test_edits_blocking_commits_are_resolved_and_survive_quitting(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    (repo / "code.py").write_text(CODE.replace("return 1\n", "return 111\n"))
    (repo / "new.py").write_text("mine\n")
    for answer in ("first", "again"):
        with session(shop, "merge", "--commits", rows=24, cols=120) as terminal:
            terminal.wait_for("your uncommitted changes")
            if answer == "first":
                terminal.wait_for("conflict 1: unresolved")
                terminal.wait_quiet()
                terminal.keys("<")
                terminal.wait_for("1 more to resolve")
                terminal.keys("q")
                terminal.wait_for("keeps the changes and the selection")
                terminal.keys("y")
                assert terminal.wait_exit() == 1
                assert shop.git("status", "--porcelain") == " M code.py\n?? new.py\n?? old.py\n"
                continue
            terminal.wait_for("1 of 2 conflicts resolved")
            terminal.wait_for("conflict 1: unresolved")  # the cursor went on to the next one
            terminal.wait_quiet()
            terminal.keys(">")
            terminal.wait_for("2 of 2 conflicts resolved")
            terminal.keys("c")
            terminal.wait_for("Import the commits with these resolutions?")
            terminal.keys("y")
            terminal.wait_for("agent-dev undo")
            terminal.keys("enter")
            assert terminal.wait_exit() == 0
    assert shop.git("status", "--porcelain") == " M code.py\n?? old.py\n"
    assert (repo / "code.py").read_text() == CODE.replace("return 1\n", "return 111\n")
    assert (repo / "new.py").read_text() == "new\n"
    assert shop("undo").returncode == 0
    assert shop.git("status", "--porcelain") == " M code.py\n?? new.py\n?? old.py\n"


def test_commits_named_on_the_command_line_have_conflicts_resolved_too(shop: AgentDev, repo: Path) -> None:
    committed(shop)
    (repo / "code.py").write_text(CODE.replace("return 1\n", "return 111\n"))
    shop.git("commit", "-qam", "Mine")
    head = shop.git("rev-parse", "HEAD")
    assert shop("merge", "--commits", "--onto-current").returncode == 1
    with session(shop, "merge", "--commits", "--onto-current", rows=24, cols=120) as terminal:
        terminal.wait_for("conflict 1: unresolved")
        terminal.wait_quiet()
        terminal.keys("q")
        terminal.wait_exit()
    assert shop.git("rev-parse", "HEAD") == head
    with session(shop, "merge", "--commits", "--onto-current", rows=24, cols=120) as terminal:
        terminal.wait_for("conflict 1: unresolved")
        terminal.wait_quiet()
        resolve_last(terminal, "<")
    assert shop.git("log", "--format=%s", "-2").split("\n")[:2] == ["Add new", "Mine"]
    assert "return 111" in (repo / "code.py").read_text()


def test_a_submodule_moved_by_commits_is_marked_and_confirmed(agent_dev: AgentDev, tmp_path: Path) -> None:
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
        terminal.wait_for("Import this risky change?")
        terminal.wait_for("one")
        terminal.keys("n")
        terminal.wait_for("Import 1 commit?")
        terminal.keys("n")
        terminal.wait_for(lambda text: "Import 1" not in text)
        terminal.keys("A")
        terminal.wait_for("2 of 2 commits selected")
        terminal.keys("c")
        terminal.wait_for("Import this risky change?")
        terminal.keys("y")
        terminal.wait_for("Import 2 commits?")
        assert agent_dev.git("rev-parse", "HEAD", cwd=place) == head
        confirm(terminal, "agent-dev undo")
    assert agent_dev.git("log", "--format=%s", "-2", cwd=place) == "Plain\nMoved\n"


def test_commits_without_a_changed_file_open_the_screen_too(shop: AgentDev, repo: Path) -> None:
    side = "git checkout -q -b side; echo x >side.py; git add side.py; git commit -qm Side; git checkout -q main"
    work(shop, side)
    with session(shop, "merge", rows=24, cols=120) as terminal:
        terminal.wait_for("+ side.py")
        terminal.wait_quiet()
        terminal.keys("A", "c")
        terminal.wait_for("Import 1 commit?")
        confirm(terminal, "agent-dev undo")
    assert shop.git("log", "-1", "--format=%s") == "Side\n"
    assert (repo / "side.py").read_text() == "x\n"
