"""A repository whose refs are in a reftable: the agent's git sees them all, and what it commits comes home."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.git_kinds import linked_reftable, reftable
from tests.harness.program import AgentDev

# What git says of refs, each on its own: the same outside and inside.
LOOKS = (
    "git for-each-ref --format='%(refname) %(objectname) %(symref)'",
    "git rev-parse --symbolic-full-name HEAD",
    "git stash list",
    "git reflog --date=raw",
    "git log -g --format='%H %gn %ge %gs' refs/stash",
    "git worktree list",
    "git status",
    "git bisect log",
    "git rev-parse -q --verify ORIG_HEAD",
    "git -C lib log -1 --format=%H%d",
)


class World:
    """A work tree, and how the agent starts in it."""

    def __init__(self, agent_dev: AgentDev, cwd: Path, options: tuple[str | Path, ...]) -> None:
        self.program, self.cwd, self.options = agent_dev, cwd, options

    def run(self, script: str) -> str:
        done = self.program(*self.options, "--", "sh", "-c", script, cwd=self.cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def git(self, *words: str | Path) -> str:
        return self.program.git(*words, cwd=self.cwd)


@pytest.fixture(params=[reftable, linked_reftable], ids=["a clone", "a linked work tree"])
def world(request: pytest.FixtureRequest, agent_dev: AgentDev, tmp_path: Path) -> World:
    place = request.param(agent_dev, tmp_path)
    return World(agent_dev, place.cwd, place.options)


def plain(_: World) -> None:
    """As it is."""


def busy(world: World) -> None:
    """A stash of two entries, tags, a bisection, refs that lead to others."""
    for text in ("one", "two"):
        (world.cwd / "README.md").write_text(text)
        world.git("stash", "-q", "-m", text)
    world.git("tag", "-a", "-m", "annotated", "v1")
    world.git("tag", "light")
    world.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main")
    world.git("commit", "-q", "--allow-empty", "-m", "another")
    world.git("bisect", "start", "HEAD", "HEAD~1")
    world.git("reset", "-q", "--hard")


def detached(world: World) -> None:
    """On no branch."""
    world.git("checkout", "-q", "--detach")


def orphan(world: World) -> None:
    """On a branch without a commit."""
    world.git("checkout", "-q", "--orphan", "begun")


def with_submodule(world: World) -> None:
    """With a submodule whose refs are in one, too."""
    folder = world.cwd.parent / "library"
    world.git("init", "-q", "--ref-format=reftable", folder)
    world.program.git("commit", "-q", "--allow-empty", "-m", "library", cwd=folder)
    world.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", "--ref-format=reftable", folder, "lib")
    world.git("commit", "-q", "-m", "with a library")


@pytest.mark.parametrize("prepare", [plain, busy, detached, orphan, with_submodule])
def test_git_says_the_same_inside(world: World, prepare: Callable[[World], None]) -> None:
    prepare(world)
    script = "; ".join(f"{look} 2>&1" for look in LOOKS)
    words = ["sh", "-c", script]
    outside = subprocess.run(
        words, cwd=world.cwd, env=world.program.environment(), stdout=subprocess.PIPE, text=True, check=False
    )

    assert world.run(f"{script}; true") == outside.stdout


def test_commits_come_home_and_go_back(world: World) -> None:
    before = world.git("for-each-ref"), world.git("reflog", "--format=%H %gs")
    world.run("echo x >new && git add -A && git commit -qm 'Add new'")
    done = world.program("merge", "--commits", cwd=world.cwd)

    assert done.returncode == 0, done.stderr
    assert world.git("log", "-1", "--format=%s") == "Add new\n"
    assert world.git("status", "--porcelain") == ""
    assert world.program("undo", cwd=world.cwd).returncode == 0
    assert world.git("for-each-ref") == before[0]
    assert world.git("reflog", "--format=%H %gs").endswith(before[1])
    assert world.git("status", "--porcelain") == ""
    assert not (world.cwd / "new").exists()


def test_what_both_committed_comes_together(world: World) -> None:
    world.run("git commit -q --allow-empty -m Agent")
    world.git("commit", "-q", "--allow-empty", "-m", "Mine")

    assert world.program("merge", "--commits", cwd=world.cwd).returncode == 1
    assert world.program("merge", "--commits", "--onto-current", cwd=world.cwd).returncode == 0
    assert world.git("log", "-2", "--format=%s") == "Agent\nMine\n"


def test_nothing_comes_home_in_the_middle_of_a_cherry_pick(world: World) -> None:
    world.run("echo x >new && git add -A && git commit -qm 'Add new'")
    world.git("update-ref", "CHERRY_PICK_HEAD", "HEAD")
    done = world.program("merge", "--commits", cwd=world.cwd)

    assert done.returncode != 0
    assert "in the middle of a cherry-pick" in done.stderr


def test_a_config_that_says_it_otherwise_is_understood(world: World) -> None:
    common = Path(world.git("rev-parse", "--path-format=absolute", "--git-common-dir").strip())
    text = (common / "config").read_text()
    (common / "config").write_text(text.replace("[extensions]\n\trefstorage = reftable", "[Extensions] refStorage=reftable"))

    assert world.run("git log -1 --format=%s") == "Make it\n"
