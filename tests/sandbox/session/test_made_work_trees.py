"""`--worktree NAME`: a git work tree for a run, which is removed when nothing is left in it, and never with work in it."""

import shutil
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, tree

COMMIT = "git -c user.name=a -c user.email=a@b commit -q"


def place(agent_dev: AgentDev, name: str = "fix") -> Path:
    return agent_dev.repo.with_name(f"{agent_dev.repo.name}.{name}")


def branches(agent_dev: AgentDev) -> list[str]:
    return agent_dev.git("branch", "--format=%(refname:short)").split()


def test_the_agent_works_in_a_work_tree_of_its_own(agent_dev: AgentDev) -> None:
    before = {path: entry for path, entry in tree(agent_dev.repo).items() if not path.startswith(".git")}
    script = f"pwd; git branch --show-current; echo x > made; git add made; {COMMIT} -m agents; echo y > other"
    done = agent_dev("--no-merge", "--worktree", "fix", "--name", "one", "--", "sh", "-ec", script)
    assert (done.returncode, done.stdout) == (0, f"{place(agent_dev)}\nfix\n"), done.stderr
    assert f"made the work tree {place(agent_dev)} on the branch fix" in done.stderr
    agent_dev.do("merge", "one", "--commits")
    assert agent_dev.git("log", "-1", "--format=%s", "fix") == "agents\n"
    assert (place(agent_dev) / "made").read_text() == "x\n"
    assert {path: entry for path, entry in tree(agent_dev.repo).items() if not path.startswith(".git")} == before
    assert agent_dev("exec", "one", "--", "cat", "other").stdout == "y\n"


def test_the_hint_for_a_checked_out_branch_fails_for_gits_reason(agent_dev: AgentDev) -> None:
    (name,) = branches(agent_dev)
    done = agent_dev("--worktree", name, "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    command = f"worktree add {place(agent_dev, name)} {name}"
    assert done.stderr.endswith(f"agent-dev: hint: see why: git -C {agent_dev.repo} {command}\n")
    assert branches(agent_dev) == [name]


def test_without_changes_it_is_removed_at_once(agent_dev: AgentDev) -> None:
    before = branches(agent_dev)
    done = agent_dev("--worktree", "fix", "--", "true")
    assert "removed the work tree" in done.stderr
    assert not place(agent_dev).exists()
    assert branches(agent_dev) == before
    assert len(agent_dev.git("worktree", "list").splitlines()) == 1


def test_one_with_a_waiting_session_stays_until_it_is_over(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--worktree", "fix", "--name", "one", "--", "sh", "-c", "echo x > made")
    agent_dev.do("clean")
    assert place(agent_dev).is_dir()
    agent_dev.do("discard", "one")
    assert f"work tree {place(agent_dev)}   would be removed" in agent_dev.do("clean", "--dry-run")
    assert place(agent_dev).is_dir()
    assert f"work tree {place(agent_dev)}   removed" in agent_dev.do("clean")
    assert not place(agent_dev).exists()


@pytest.mark.parametrize(
    "work",
    ["echo x > new", "echo x >> README.md", "echo x > skip.log", "git checkout -q --detach", "git update-ref MERGE_HEAD HEAD"],
    ids=("new", "changed", "ignored", "detached", "operation"),
)
def test_one_with_work_in_it_is_kept(agent_dev: AgentDev, work: str) -> None:
    (agent_dev.repo / ".git/info/exclude").write_text("*.log\n")
    agent_dev("--no-merge", "--worktree", "fix", "--name", "one", "--", "sh", "-c", "echo x > made")
    agent_dev.do("discard", "one")
    before = tree(place(agent_dev))
    agent_dev.git("-c", f"alias.do=!cd '{place(agent_dev)}' && {work}", "do", cwd=place(agent_dev))
    after = tree(place(agent_dev))
    assert before != after or "git" in work
    agent_dev.do("clean", "--all")
    assert tree(place(agent_dev)) == after


def test_a_branch_with_commits_stays(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--worktree", "fix", "--name", "one", "--", "sh", "-ec", f"{COMMIT} --allow-empty -m agents")
    agent_dev.do("merge", "one", "--commits")
    agent_dev.do("clean")
    assert not place(agent_dev).exists()
    assert agent_dev.git("log", "-1", "--format=%s", "fix") == "agents\n"


def test_a_second_run_uses_it_again_below_the_same_directory(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--worktree", "fix", "--", "sh", "-c", "echo x > made")
    done = agent_dev("--no-merge", "--worktree", "fix", "--", "pwd", cwd=agent_dev.repo / "sub")
    assert done.stdout == f"{place(agent_dev)}/sub\n"
    assert "using the work tree" in done.stderr


def test_a_deleted_one_is_refused_with_a_hint_that_helps(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--worktree", "fix", "--", "sh", "-c", "echo x > made")
    shutil.rmtree(place(agent_dev))
    done = agent_dev("--worktree", "fix", "--", "true")
    assert (done.returncode, done.stderr.splitlines()[1:]) == (125, ["agent-dev: hint: if you deleted it: git worktree prune"])
    assert f"{place(agent_dev)} is missing" in done.stderr
    agent_dev.git("worktree", "prune")
    assert agent_dev("--worktree", "fix", "--", "pwd").stdout == f"{place(agent_dev)}\n"


def test_an_existing_branch_is_checked_out_and_kept(agent_dev: AgentDev) -> None:
    agent_dev.git("branch", "fix")
    assert agent_dev("--worktree", "fix", "--", "git", "branch", "--show-current").stdout == "fix\n"
    assert "fix" in branches(agent_dev)


def test_a_hook_of_the_repository_does_not_run(agent_dev: AgentDev, tmp_path: Path) -> None:
    hook = agent_dev.repo / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    agent_dev("--worktree", "fix", "--", "true")
    assert not (tmp_path / "ran").exists()


def test_an_unusable_work_tree_name_is_refused_and_creates_nothing(agent_dev: AgentDev, tmp_path: Path) -> None:
    place(agent_dev, "taken").mkdir()
    branch = agent_dev.git("branch", "--show-current").strip()
    before = sorted(agent_dev.repo.parent.iterdir())
    cases: list[tuple[tuple[str, ...], int]] = [
        (("--worktree", "taken", "--", "true"), 125),
        (("--worktree", branch, "--", "true"), 125),
        (("--worktree", "a/b", "--", "true"), 2),
        (("--worktree", "fix", "-C", str(tmp_path), "--", "true"), 125),
        (("--worktree", "fix", "status"), 2),
        (("--worktree", "fix", "tx", "--", "true"), 125),
        (("tx", "--worktree", "fix", "--", "true"), 125),
        (("--worktree", "fix", "run", "--direct", "--", "true"), 2),
        (("--worktree", "fix", "--", "no-such-program"), 127),
    ]
    for words, code in cases:
        done = agent_dev(*words)
        assert (words, done.returncode) == (words, code), done.stderr
        assert "Traceback" not in done.stderr
    assert sorted(agent_dev.repo.parent.iterdir()) == before
