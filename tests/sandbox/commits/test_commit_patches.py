"""An agent's commits can be read as patches before they are imported."""

import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal

COMMITS = """
git config user.name Agent; git config user.email agent@example.invalid
git mv sub/app.py sub/moved.py; echo 'print(3)' >>sub/moved.py; git commit -qam 'Move the program

And say more.'
printf 'a\\0b' >bytes; git add bytes; git commit -qm 'Add bytes'
git checkout -qb side HEAD~2; echo side >side; git add side; git commit -qm 'On the side'
git checkout -q main; git merge -q --no-edit side
"""


@pytest.fixture
def committed(agent_dev: AgentDev) -> AgentDev:
    """Return the program with a session that has four commits, one of them a merge."""
    assert agent_dev("--no-merge", "--", "bash", "-ec", COMMITS).returncode == 0
    return agent_dev


def test_patches_of_all_commits_are_printed_and_git_applies_them(committed: AgentDev, tmp_path: Path) -> None:
    done = committed("commits", "--patch")
    assert done.returncode == 0, done.stderr
    found = [f"commit {text}" for text in done.stdout.split("commit ")[1:] if "Author" in text]
    texts = {text.split("\n\n")[1].splitlines()[0].strip(): text for text in found}
    assert sorted(texts) == ["Add bytes", "Merge branch 'side'", "Move the program", "On the side"]
    assert "rename from sub/app.py\nrename to sub/moved.py\n" in texts["Move the program"]
    assert "    And say more.\n" in texts["Move the program"]
    assert "+print(3)\n" in texts["Move the program"]
    assert "+++ b/side" in texts["Merge branch 'side'"]  # against its first parent

    clone = tmp_path / "clone"
    committed.git("clone", "-q", committed.repo, clone)
    for subject in ("Move the program", "Add bytes", "On the side"):
        subprocess.run(["git", "apply", "--index"], input=texts[subject], text=True, cwd=clone, check=True)
    assert (clone / "bytes").read_bytes() == b"a\0b"
    assert "print(3)" in (clone / "sub/moved.py").read_text()


def test_one_commit_is_printed_by_the_start_of_its_id(committed: AgentDev) -> None:
    ids = [line.split()[1] for line in committed.do("commits", "--patch").splitlines() if line.startswith("commit ")]
    shown = committed.do("commits", "--patch", ids[2][:10])
    assert shown.startswith(f"commit {ids[2]}\n")
    assert shown.count("\nAuthor: Agent <agent@example.invalid>\n") == 1

    wrong = committed("commits", "--patch", "0123456789")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("agent-dev: the session has no commit 0123456789")


def test_diff_prints_a_commit_or_the_changes_between_two(committed: AgentDev) -> None:
    ids = [line.split()[1] for line in committed.do("commits", "--patch").splitlines() if line.startswith("commit ")]
    subjects = {committed.do("commits", "--patch", one).split("\n\n")[1].strip().splitlines()[0]: one for one in ids}
    moved, added = subjects["Move the program"], subjects["Add bytes"]

    one = committed.do("diff", moved[:8])
    assert one.startswith("diff --git a/sub/app.py b/sub/moved.py\n")
    assert (one.count("diff --git"), committed.do("diff", moved[:8], "nothing")) == (1, "")
    assert "bytes" in committed.do("diff", f"{moved[:8]}..{added}")
    assert "sub/moved.py" not in committed.do("diff", f"{moved[:8]}..{added}")
    start = committed.git("rev-parse", "HEAD").strip()
    every = committed.do("diff", f"{start}..")
    assert every == committed.do("diff", f"{start}..HEAD")
    assert [path for path in ("sub/moved.py", "b/bytes", "b/side") if path not in every] == []


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("0123456789ab", "the session has no commit 0123456789ab"),
        ("0123456789ab..HEAD", "0123456789ab is not a commit of the session or the repository"),
        *((word, f"{word}: commits are named by their ids") for word in ("main..side", "HEAD~1..HEAD", "HEAD", "side^2")),
        ("../nothing", "no changes at ../nothing"),
    ],
)
def test_an_unknown_commit_is_an_error(committed: AgentDev, word: str, why: str) -> None:
    done = committed("diff", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"agent-dev: {why}")


def test_no_commit_controls_the_terminal(agent_dev: AgentDev) -> None:
    make = "printf 'x\\033[31mred\\033]0;title\\007\\n' >file; git add file"
    commit = "git -c user.name=$'A\\033[5m' -c user.email=a@a commit -qm $'s\\033[2J'"
    assert agent_dev("--no-merge", "--", "bash", "-ec", f"{make}; {commit}").returncode == 0
    environment = agent_dev.terminal_environment({"PAGER": "cat"})
    with Terminal([str(PROGRAM), "commits", "--patch"], env=environment, cwd=agent_dev.repo) as terminal:
        terminal.wait_for("red")
        assert terminal.wait_exit() == 0
        raw = terminal.raw
    assert b"\x1b[5m" not in raw
    assert b"\x1b[2J" not in raw
    assert b"\x1b]0;title" not in raw


def test_the_screen_shows_the_patch_of_a_commit(committed: AgentDev) -> None:
    with Terminal(
        [str(PROGRAM), "merge"], rows=50, cols=160, env=committed.terminal_environment(), cwd=committed.repo
    ) as terminal:
        terminal.wait_for("c apply")
        terminal.keys("2")
        terminal.wait_for("Merge branch 'side'")
        terminal.keys("j", "j", "j")
        terminal.wait_for("+print(3)")
        terminal.keys("q")
        terminal.wait_exit()
