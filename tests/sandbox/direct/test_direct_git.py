"""Direct mode with git repositories below the root: the user's are restored, and the agent's are removed."""

import shutil
from pathlib import Path

import pytest

from tests.harness import program
from tests.harness.program import AgentDev
from tests.sandbox.direct.test_direct import plain, ran, tree

__all__ = ["plain"]


def nested(plain: AgentDev, name: str) -> Path:
    """Create a repository of the user below the root."""
    place = plain.repo / name
    plain.git("init", "-q", place)
    (place / "a").write_text("a\n")
    plain.git("-C", place, "add", "a")
    plain.git("-C", place, "commit", "-q", "-m", "a")
    return place


@pytest.mark.parametrize(
    "script",
    [
        "mv vendor/lib/.git vendor/lib/old",
        "mv vendor away",
        "rm -rf vendor",
        "mv vendor away; mkdir -p vendor/lib; git init -q vendor/lib; git -C vendor/lib commit -q --allow-empty -m x",
        "git init -q other; git init -q --bare bare",
        "cd vendor/lib; echo b >a; git commit -qam b",
    ],
)
def test_a_nested_repository_is_restored(plain: AgentDev, script: str) -> None:
    place = nested(plain, "vendor/lib")
    before, head = tree(plain.repo), plain.git("-C", place, "rev-parse", "HEAD")
    ran(plain, f"( {script} ) 2>/dev/null; echo changed >README.md")
    done = plain("restore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tree(plain.repo) == before
    assert plain.git("-C", place, "rev-parse", "HEAD") == head
    assert plain("undo").returncode == 0
    assert (plain.repo / "README.md").read_text() == "changed\n"


def test_later_commits_of_the_user_in_a_nested_repository_stay(plain: AgentDev) -> None:
    place = nested(plain, "vendor/lib")
    ran(plain, "echo changed >README.md; echo changed >vendor/lib/a")
    plain.git("-C", place, "commit", "-q", "--allow-empty", "-m", "mine")
    head = plain.git("-C", place, "rev-parse", "HEAD")
    assert plain("restore").returncode == 0
    assert plain.git("-C", place, "rev-parse", "HEAD") == head
    assert plain.git("-C", place, "status", "--porcelain") == ""


def test_a_restore_removes_a_top_level_git_directory_of_the_agent(plain: AgentDev) -> None:
    shutil.rmtree(plain.repo / ".git")
    before = program.tree(plain.repo)
    printed = ran(plain, "git init -q .; git add .; git commit -q -m all")
    assert "mv .git/HEAD.agent-dev .git/HEAD" in printed
    assert plain("restore").returncode == 0
    assert program.tree(plain.repo) == before


def test_the_start_reports_that_agent_repositories_are_disabled_at_the_end(plain: AgentDev) -> None:
    done = plain("run", "--direct", "--", "true")
    assert "do not run git in repositories that the agent creates; they are disabled when it ends" in done.stderr
