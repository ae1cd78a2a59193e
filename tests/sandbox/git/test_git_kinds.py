"""Git works inside in worktrees of every kind, and the user's own git directory stays unchanged."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.git.git_kinds import KINDS, hidden_bare_parent
from tests.harness.program import AgentDev, tree

# Git operations of an agent, one per line; the first that fails ends the script and is printed.
TOUR = r"""
set -e
trap 'test $? = 0 || echo "failed: $step" >&2' EXIT
step=status; git status --porcelain >/tmp/before
step=commit; echo agent >agent; git add -A; git commit -qm one; main=$(git branch --show-current)
step=branch; git checkout -qb topic; echo topic >topic.txt; git add --sparse topic.txt; git commit -qm topic
git checkout -q "$main"
step=rebase; echo more >>agent; git commit -qam more; git rebase -q "$main" topic; git checkout -q "$main"; git merge -q topic
step=stash; echo stashed >>agent; git stash -q; test "$(wc -l <agent)" = 2; git stash pop -q; git checkout -q -- agent
step=config; git config agent.key value; test "$(git config agent.key)" = value
step=hooks; hooks=$(git rev-parse --git-path hooks); mkdir -p "$hooks"
printf '#!/bin/sh\necho ran >/tmp/hooked\n' >"$hooks/pre-commit"; chmod +x "$hooks/pre-commit"
git commit -qm hooked --allow-empty; test -e /tmp/hooked; rm "$hooks/pre-commit"
step=remote; format=$(git rev-parse --show-object-format)
git init -q --bare --object-format="$format" /tmp/remote; git -C /tmp/remote config receive.shallowUpdate true
git remote add agents /tmp/remote; git push -q agents HEAD:refs/heads/pushed; git fetch -q agents
test "$(git rev-parse agents/pushed)" = "$(git rev-parse HEAD)"
step=worktree; git worktree add -q /tmp/tree topic; git -C /tmp/tree commit -qm there --allow-empty
test "$(git log -1 --format=%s topic)" = there
step=submodule; git init -q --object-format="$format" /tmp/library; git -C /tmp/library commit -qm library --allow-empty
git -c protocol.file.allow=always submodule --quiet add /tmp/library agents/library; git commit -qm submodule
git -C agents/library commit -qm within --allow-empty
git commit -qam moved
step=gc; git gc -q --prune=now
step=fsck; git fsck --no-progress >/tmp/said 2>&1 || { cat /tmp/said >&2; false; }
step=clean; git status --porcelain; test -z "$(git status --porcelain)"
"""


def reftable(agent_dev: AgentDev, _: Path) -> tuple[Path, str, str]:
    """Write the files of an empty reftable repository, as git 2.45 does."""
    git_dir = agent_dev.repo / ".git"
    agent_dev.git("config", "core.repositoryFormatVersion", "1")
    agent_dev.git("config", "extensions.refStorage", "reftable")
    shutil.rmtree(git_dir / "refs")
    (git_dir / "refs").mkdir()
    (git_dir / "refs/heads").write_text("this repository uses the reftable format\n")
    (git_dir / "HEAD").write_text("ref: refs/heads/.invalid\n")
    (git_dir / "reftable").mkdir()
    (git_dir / "reftable/tables.list").touch()
    return agent_dev.repo, "reftable of", "git refs migrate"


def hidden_bare(agent_dev: AgentDev, folder: Path) -> tuple[Path, str, str]:
    """Create a bare repository in a hidden directory, with its worktrees next to it."""
    place = hidden_bare_parent(agent_dev, folder)
    return place.cwd.parent, f"{place.cwd.parent}/.bare is inside", "use a work tree"


def git_dir_within(agent_dev: AgentDev, _: Path) -> tuple[Path, str, str]:
    """Create a separate git directory inside its own worktree."""
    agent_dev.git("init", "-q", "--separate-git-dir=data.git")
    return agent_dev.repo, "data.git is inside", "--separate-git-dir"


REFUSED = {
    "a reftable": reftable,
    "a directory of work trees": hidden_bare,
    "a git dir in its work tree": git_dir_within,
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_git_commands_work(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    place = KINDS[kind](agent_dev, tmp_path)
    agent_dev.git("status", cwd=place.cwd)
    before = {folder: tree(folder) for folder in git_dirs(tmp_path)}

    done = agent_dev(*place.options, "--", "sh", "-c", TOUR, cwd=place.cwd)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    subjects = {commit["subject"] for commit in agent_dev.status(cwd=place.cwd)["commits"]}
    assert subjects >= {"one", "topic", "more", "hooked", "there", "submodule", "moved"}
    assert {folder: tree(folder) for folder in git_dirs(tmp_path)} == before
    assert agent_dev.git("fsck", "--no-progress", "--no-dangling", cwd=place.cwd) == ""


@pytest.mark.parametrize("kind", REFUSED)
def test_unsupported_git_directories_are_refused_by_name(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    root, reason, hint = REFUSED[kind](agent_dev, tmp_path)
    done = agent_dev("--", "echo", "ran", cwd=root)
    assert (done.returncode, done.stdout) == (125, "")
    assert reason in done.stderr
    assert hint in done.stderr
    assert agent_dev.session_directories() == []


@pytest.mark.parametrize("path", [".", "..", ".git", ".git/hooks"])
def test_the_users_git_dir_is_never_writable(agent_dev: AgentDev, path: str) -> None:
    (agent_dev.repo / ".git/hooks").mkdir(exist_ok=True)
    done = agent_dev("--rw", path, "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (125, "")
    assert f"would let the agent write to {agent_dev.repo}/.git:" in done.stderr


EMBEDDED = {
    "a clone": "git clone -q . vendor/inner; echo new >vendor/inner/new",
    "a new repository": "mkdir -p vendor/inner; git init -q vendor/inner; echo new >vendor/inner/new",
    "a linked work tree": "git worktree add -q vendor/inner; echo new >vendor/inner/new",
    "a bare repository": "git init -q --bare vendor/inner",
}


@pytest.mark.parametrize("script", EMBEDDED.values(), ids=EMBEDDED)
def test_a_repository_that_the_agent_created_is_never_applied_unasked(agent_dev: AgentDev, script: str) -> None:
    agent_dev("--", "sh", "-c", f"echo plain >plain; {script}")
    changes = {one["path"]: {risk["rule"] for risk in one["risks"]} for one in agent_dev.status()["changes"]}
    inner = {path for path in changes if path.startswith("vendor/inner/")}
    assert inner
    assert all("embedded-repository" in changes[path] for path in inner)
    assert changes["plain"] == set()
    agent_dev("merge", "--all")
    assert (agent_dev.repo / "plain").exists()
    assert not (agent_dev.repo / "vendor").exists()


def other(agent_dev: AgentDev, folder: Path) -> tuple[Path, Path]:
    """Create another repository, which the test mounts with `--overlay`."""
    agent_dev.git("clone", "-q", agent_dev.repo, folder / "other")
    return agent_dev.repo, folder / "other"


def other_linked(agent_dev: AgentDev, folder: Path) -> tuple[Path, Path]:
    """Create a linked worktree of another repository."""
    root, there = other(agent_dev, folder)
    agent_dev.git("worktree", "add", "-q", "-b", "side", folder / "tree", cwd=there)
    return root, folder / "tree"


def main_of_linked(agent_dev: AgentDev, folder: Path) -> tuple[Path, Path]:
    """Start in a linked worktree, with the main worktree of the same repository as the overlay."""
    return KINDS["a linked work tree"](agent_dev, folder).cwd, agent_dev.repo


def linked_of_main(agent_dev: AgentDev, folder: Path) -> tuple[Path, Path]:
    """Start in the main worktree, with a linked worktree of the same repository as the overlay."""
    linked = KINDS["a linked work tree"](agent_dev, folder).cwd
    return agent_dev.repo, linked


@pytest.mark.parametrize("make", [other, other_linked, main_of_linked, linked_of_main])
def test_git_works_in_a_repository_mounted_with_overlay(
    agent_dev: AgentDev, tmp_path: Path, make: Callable[[AgentDev, Path], tuple[Path, Path]]
) -> None:
    root, given = make(agent_dev, tmp_path)
    agent_dev.git("status", cwd=root)
    agent_dev.git("status", cwd=given)
    before = {folder: tree(folder) for folder in git_dirs(tmp_path)}
    script = "set -e; git status --porcelain; echo x >new; git add -A; git commit -qm new; git gc -q; git fsck --no-dangling"
    script = f"({script}); cd {given}; {script}; git log -1 --format=%s"

    done = agent_dev("--overlay", given, "--", "sh", "-c", script, cwd=root)

    assert (done.returncode, done.stdout) == (0, "new\n"), done.stderr
    assert "import: merge --commits" in done.stderr
    assert agent_dev.changes(cwd=root) == {"new": "added", f"{given}/new": "added"}
    again = agent_dev("resume", "--", "git", "-C", given, "log", "-1", "--format=%s", cwd=root)
    assert again.stdout == "new\n", again.stderr
    merged = agent_dev("merge", "--all", cwd=root)
    assert merged.returncode == 0, merged.stdout + merged.stderr
    assert (given / "new").read_text() == "x\n"
    assert {folder: tree(folder) for folder in git_dirs(tmp_path)} == before
    assert agent_dev.git("status", "--porcelain", cwd=given) == "?? new\n"


def git_dirs(folder: Path) -> set[Path]:
    """Return all git directories of the user."""
    outer = {Path(place) for place, names, files in os.walk(folder) if "HEAD" in files and "objects" in names}
    return {place for place in outer if not str(place).startswith(str(folder / "state"))}
