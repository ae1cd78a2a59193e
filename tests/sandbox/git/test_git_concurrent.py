"""The user's git and the agent's git work concurrently: neither disturbs the other, and each keeps its history."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from tests.harness.git.git_kinds import KINDS
from tests.harness.program import AgentDev

TIMES = int(os.environ.get("AGENT_DEV_TEST_GIT_TIMES", "1"))

AGENT = """
echo ready; read line
for n in $(seq %d); do
    { echo $n >inside-$n && git add inside-$n && git commit -qm "inside $n" && git status >/dev/null \\
        && git checkout -q -b branch-$n && echo more >>inside-$n && git stash push -q inside-$n \\
        && git checkout -q - && git stash drop -q; } || echo "failed at $n"
done
git fsck --no-progress --no-dangling 2>&1 | grep -v "notice:"
git log --format=%%s | grep -c "^inside"
"""

# Git operations of the user, one per line.
ACTIONS = (
    "echo $RANDOM$$ >outside; git add outside; git commit -q -m outside",
    "git commit -q --amend -m amended",
    "git checkout -q -b passing; git commit -q --allow-empty -m passing; git checkout -q -; git branch -q -D passing",
    "echo edit >>outside; git stash -q; git stash pop -q; git checkout -q -- outside",
    "git fetch -q upstream",
    "git rebase -q upstream/main",
    "git reset -q --soft HEAD~1; git commit -q -m again",
    "git worktree add -q --detach ../passing-tree; git worktree remove ../passing-tree",
    "git pack-refs --all",
    "git reflog expire --expire=now --all",
    "git repack -q -a -d",
    "git gc -q --prune=now",
    "git prune --expire=now",
    "git update-index --refresh -q; git status --porcelain >/dev/null",
)


class User:
    """A user who runs git commands in a loop until stopped."""

    def __init__(self, agent_dev: AgentDev, cwd: Path) -> None:
        self.agent_dev, self.cwd = agent_dev, cwd
        self.failures: list[str] = []
        self.done = 0
        self._enough = threading.Event()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run the user's commands in a thread, each at least once, while the body of the `with` runs."""
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._enough.set()
            thread.join(120)

    def _work(self) -> None:
        for action in cycle(ACTIONS):
            if self._enough.is_set() and self.done >= len(ACTIONS):
                return
            env = self.agent_dev.environment()
            done = subprocess.run(
                ["sh", "-ec", action],
                cwd=self.cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            self.done += 1
            if done.returncode:
                self.failures.append(f"{action}: {done.stderr}")


def with_upstream(agent_dev: AgentDev, cwd: Path, folder: Path) -> None:
    agent_dev.git("clone", "-q", "--bare", cwd, folder / "upstream.git")
    agent_dev.git("remote", "add", "upstream", folder / "upstream.git", cwd=cwd)
    agent_dev.git("fetch", "-q", "upstream", cwd=cwd)
    agent_dev.git("branch", "-q", "-f", "main", "HEAD", cwd=folder / "upstream.git")


@pytest.mark.parametrize("kind", ["a clone", "a linked work tree", "a submodule", "a work tree of a bare repository"])
def test_user_and_agent_work_concurrently(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    place = KINDS[kind](agent_dev, tmp_path)
    with_upstream(agent_dev, place.cwd, tmp_path)
    user, count = User(agent_dev, place.cwd), 10 * TIMES
    with agent_dev.start("--", "sh", "-c", AGENT % count, cwd=place.cwd) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with user.working():
            out, printed = process.communicate("\n", timeout=300)
    assert (out, user.failures) == (f"{count}\n", []), printed
    assert {one["subject"] for one in agent_dev.status(cwd=place.cwd)["commits"]} == {f"inside {n + 1}" for n in range(count)}
    assert agent_dev.git("log", "--all", "--format=%s", "--grep=inside", cwd=place.cwd) == ""
    assert agent_dev.git("fsck", "--no-progress", "--no-dangling", "--strict", cwd=place.cwd) == ""
    assert agent_dev.git("stash", "list", cwd=place.cwd) == ""


def test_an_agent_started_during_a_repack_finds_every_object(agent_dev: AgentDev, tmp_path: Path) -> None:
    with_upstream(agent_dev, agent_dev.repo, tmp_path)
    user = User(agent_dev, agent_dev.repo)
    with user.working():
        for _ in range(8 * TIMES):
            done = agent_dev(
                "--", "sh", "-c", "git fsck --no-dangling && git log -p >/dev/null && git commit -q --allow-empty -m x"
            )
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert user.failures == []


GONE = "git checkout -q --orphan new; git commit -q -m new; git branch -q -D main; git branch -m main"
GONE += "; git reflog expire --expire=now --all; git gc -q --prune=now; git prune --expire=now"


@pytest.mark.parametrize("kind", ["a clone", "a linked work tree", "objects borrowed", "a shallow clone", "packed"])
def test_the_agents_history_stays_when_the_user_deletes_it(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    place = KINDS[kind](agent_dev, tmp_path)
    script = "echo ready; read line; git fsck --no-dangling && git log -p --all >/dev/null && echo x >x"
    script += " && git add x && git commit -qm x"
    head = agent_dev.git("rev-parse", "HEAD", cwd=place.cwd).strip()
    with agent_dev.start("--", "sh", "-c", script, cwd=place.cwd) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        gone = GONE.replace("main", agent_dev.git("branch", "--show-current", cwd=place.cwd).strip())
        everywhere = f"git worktree list --porcelain | sed -n 's/^worktree //p' | while read t; do cd $t; done; {gone}"
        subprocess.run(["sh", "-ec", everywhere], cwd=place.cwd, env=agent_dev.environment(), capture_output=True, check=True)
        out, printed = process.communicate("\n", timeout=60)
    assert (process.returncode, out) == (0, ""), printed
    assert [one["subject"] for one in agent_dev.status(cwd=place.cwd)["commits"]] == ["x"]
    if kind == "a clone":
        assert subprocess.run(["git", "cat-file", "-e", head], cwd=place.cwd, check=False).returncode != 0
