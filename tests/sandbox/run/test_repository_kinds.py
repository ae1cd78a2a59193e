"""Kinds of repositories in which a session works: linked worktrees, without commits, bare, broken."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, tree
from tests.sandbox.policy.refusals import NOTHING_RAN, refused

# Git directories


def test_the_agent_commits_and_the_users_git_dir_is_unchanged(agent_dev: AgentDev) -> None:
    before = tree(agent_dev.repo)
    done = agent_dev(
        "--", "sh", "-c", "echo x >new && git add -A && git commit -qm 'Add new' && git gc -q && git log --format=%s"
    )
    assert done.stdout == "Add new\nCount to two\nStart the shop\n", done.stderr
    assert tree(agent_dev.repo) == before
    assert [commit["subject"] for commit in agent_dev.status()["commits"]] == ["Add new"]


@pytest.fixture
def apart(agent_dev: AgentDev) -> Iterator[Path]:
    """Yield a copy of the repository on another file system than that of the state directory."""
    here = agent_dev.home.stat().st_dev
    other = next((place for place in ("/dev/shm", "/var/tmp", "/tmp") if Path(place).stat().st_dev != here), "")
    if not other:
        pytest.skip("there is one file system alone")
    folder = Path(tempfile.mkdtemp(dir=other))
    try:
        shutil.copytree(agent_dev.repo, folder / "repo", symlinks=True)
        yield folder / "repo"
    finally:
        shutil.rmtree(folder)


def test_the_agent_commits_in_a_repository_on_another_file_system(agent_dev: AgentDev, apart: Path) -> None:
    script = "echo x >new && git add -A && git commit -qm 'Add new' && git log --format=%s && git fsck --no-progress"
    done = agent_dev("--", "sh", "-c", script, cwd=apart)
    assert done.stdout == "Add new\nCount to two\nStart the shop\n", done.stderr
    again = agent_dev("resume", "--", "git", "log", "--format=%s", cwd=apart)
    assert again.stdout.splitlines()[0] == "Add new", again.stderr
    assert agent_dev("merge", "--commits", cwd=apart).returncode == 0
    assert agent_dev.git("-C", apart, "log", "-1", "--format=%s").strip() == "Add new"
    done = agent_dev("run", "--direct", "--", "git", "log", "-1", "--format=%s", cwd=apart)
    assert (done.returncode, done.stdout) == (0, "Add new\n"), done.stderr


@pytest.fixture
def linked(agent_dev: AgentDev, tmp_path: Path) -> Path:
    """Return a linked worktree of the repository, with its own branch."""
    agent_dev.git("worktree", "add", "-q", "-b", "side", tmp_path / "linked")
    return tmp_path / "linked"


def test_the_agent_commits_in_a_linked_worktree(agent_dev: AgentDev, linked: Path) -> None:
    script = "echo x >new && git add -A && git commit -qm 'Add new' && git status --short && git log --format=%s"
    script += " && git branch --show-current"
    done = agent_dev("--", "sh", "-c", script, cwd=linked)
    assert done.stdout == "Add new\nCount to two\nStart the shop\nside\n", done.stderr
    status = agent_dev.status(cwd=linked)
    assert [change["path"] for change in status["changes"]] == ["new"]
    assert [commit["subject"] for commit in status["commits"]] == ["Add new"]


def test_work_in_a_linked_worktree_leaves_the_main_one_unchanged(agent_dev: AgentDev, linked: Path) -> None:
    before, here = tree(agent_dev.repo), tree(linked)
    script = "git config core.hooksPath /tmp; git commit -qm x --allow-empty; git branch other"
    script += "; mkdir -p $(git rev-parse --git-common-dir)/hooks; echo evil >$(git rev-parse --git-common-dir)/hooks/pre-commit"
    agent_dev("--", "sh", "-c", script, cwd=linked)
    assert [commit["subject"] for commit in agent_dev.status(cwd=linked)["commits"]] == ["x"]
    assert tree(agent_dev.repo) == before
    assert tree(linked) == here


def test_the_main_worktree_of_a_linked_one_is_not_mounted(agent_dev: AgentDev, linked: Path) -> None:
    assert agent_dev("--", "cat", agent_dev.repo / "README.md", cwd=linked).returncode == 1


# Repositories without commits (docs/decisions/0006-lower-snapshot.md)


@pytest.fixture
def fresh(agent_dev: AgentDev, tmp_path: Path) -> Path:
    """Return a repository without commits."""
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    agent_dev.git("init", "-q", cwd=fresh)
    return fresh


def test_changes_in_a_repository_without_commits_are_seen_and_merged(agent_dev: AgentDev, fresh: Path) -> None:
    (fresh / "notes").write_text("one\n")
    (fresh / "staged").write_text("one\n")
    agent_dev.git("add", "staged", cwd=fresh)
    before = tree(fresh)
    agent_dev("--", "sh", "-c", "echo x >new; echo two >>notes; echo two >>staged", cwd=fresh)
    assert tree(fresh) == before
    assert agent_dev.changes(cwd=fresh) == {"new": "added", "notes": "edited", "staged": "edited"}
    diff = agent_dev("diff", cwd=fresh).stdout
    assert all(row in diff for row in ("+++ b/new\n", "+++ b/notes\n@@ -1 +1,2 @@\n one\n+two\n", "+++ b/staged\n"))
    assert agent_dev("merge", "--all", cwd=fresh).returncode == 0
    changed = {name for name, was in tree(fresh).items() if before.get(name) != was}
    assert changed - {"."} == {"new", "notes", "staged"}
    assert (fresh / "staged").read_text() == "one\ntwo\n"


def test_a_concurrent_change_without_commits_is_a_conflict(agent_dev: AgentDev, fresh: Path) -> None:
    (fresh / "notes").write_text("one\n")
    agent_dev("--", "sh", "-c", "echo agent >notes", cwd=fresh)
    (fresh / "notes").write_text("user\n")
    assert agent_dev("merge", "--take", "notes", cwd=fresh).returncode == 1
    assert (fresh / "notes").read_text() == "user\n"


def test_a_repository_without_commits_works(agent_dev: AgentDev, fresh: Path) -> None:
    before = tree(fresh)
    done = agent_dev("--", "sh", "-c", "echo x >new && git add -A && git commit -qm First", cwd=fresh)
    assert done.returncode == 0, done.stderr
    assert tree(fresh) == before
    assert agent_dev.changes(cwd=fresh) == {"new": "added"}
    assert [commit["subject"] for commit in agent_dev.status(cwd=fresh)["commits"]] == ["First"]
    assert agent_dev("commits", cwd=fresh).stdout.splitlines()[0].endswith(" First")


@pytest.mark.parametrize("below", ["", "hooks"])
def test_a_bare_repository_is_refused_by_name(agent_dev: AgentDev, tmp_path: Path, below: str) -> None:
    bare = tmp_path / "shop.git"
    agent_dev.git("init", "-q", "--bare", bare)
    (bare / "hooks").mkdir(exist_ok=True)
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=bare / below), f"{bare} is a bare repository")


def test_an_overlay_of_a_bare_repository_is_refused_by_name(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev.git("init", "-q", "--bare", tmp_path / "shop.git")
    refused(agent_dev, agent_dev("--overlay", tmp_path / "shop.git", *NOTHING_RAN), "shop.git is a bare repository")


def test_a_worktree_of_a_bare_repository_works(agent_dev: AgentDev, tmp_path: Path) -> None:
    bare, work = tmp_path / "shop.git", tmp_path / "work"
    agent_dev.git("clone", "-q", "--bare", agent_dev.repo, bare)
    agent_dev.git("worktree", "add", "-q", work, cwd=bare)
    before = tree(bare)
    done = agent_dev("--", "sh", "-c", "echo x >new && git add -A && git commit -qm New && git log --format=%s", cwd=work)
    assert done.stdout.splitlines()[0] == "New", done.stderr
    assert agent_dev.changes(cwd=work) == {"new": "added"}
    assert tree(bare) == before


def test_within_the_git_dir_of_a_worktree_the_root_is_that_worktree(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "pwd", cwd=agent_dev.repo / ".git").stdout == f"{agent_dev.repo}/.git\n"


def test_a_broken_gitfile_is_refused_by_name(agent_dev: AgentDev, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / ".git").write_text("gitdir: /no/such/dir\n")
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=broken), "/no/such/dir")


@pytest.mark.parametrize("directory", ["missing", "file"])
def test_a_path_that_is_not_a_directory_is_refused(agent_dev: AgentDev, tmp_path: Path, directory: str) -> None:
    (tmp_path / "file").write_text("")
    refused(agent_dev, agent_dev("-C", tmp_path / directory, *NOTHING_RAN), directory)
