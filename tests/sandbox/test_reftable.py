"""A repository whose refs are in a reftable: the agent's git sees them all, and what it commits comes home."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.git_kinds import linked_reftable, reftable
from tests.harness.new_git import take_new_git
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


# --- an agent that moves its refs there ---

MIGRATE = "rm -rf .git/logs && git refs migrate --ref-format=reftable"  # git < 2.48 cannot migrate logs


@pytest.fixture
def newer(agent_dev: AgentDev) -> tuple[str, ...]:
    """Let a git that knows reftables be the user's and the agent's; return the options."""
    return take_new_git(agent_dev)


def told(agent_dev: AgentDev) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(agent_dev("commits", "--json").stdout)
    return found


def test_refs_that_the_agent_moved_into_a_reftable_are_read(agent_dev: AgentDev, newer: tuple[str, ...]) -> None:
    work = "echo x >new && git add -A && git commit -qm Before"
    after = "git commit -q --allow-empty -m After && git branch topic && git tag v1 && echo y >new && git stash -q"
    assert agent_dev(*newer, "--", "sh", "-ec", f"{work} && {MIGRATE} && {after}").returncode == 0
    found = told(agent_dev)

    assert [one["subject"] for one in found["commits"]] == ["After", "Before"]
    assert [(one["name"], one["motion"]) for one in found["refs"]] == [
        ("refs/heads/main", "moved"),
        ("refs/heads/topic", "new"),
        ("refs/tags/v1", "new"),
    ]
    assert (found["head"], len(found["stashes"])) == ("refs/heads/main", 1)
    done = agent_dev("merge", "--commits")
    assert done.returncode == 0, done.stderr
    assert agent_dev.git("log", "-2", "--format=%s") == "After\nBefore\n"
    assert agent_dev.git("status", "--porcelain") == ""


def test_refs_that_were_only_moved_there_are_no_change(agent_dev: AgentDev, newer: tuple[str, ...]) -> None:
    done = agent_dev(*newer, "--", "sh", "-ec", MIGRATE)
    assert done.returncode == 0, done.stderr
    assert json.loads(agent_dev("sessions", "--json").stdout)["sessions"] == []


def test_what_is_done_after_a_look_is_seen_too(agent_dev: AgentDev, newer: tuple[str, ...]) -> None:
    assert agent_dev(*newer, "--", "sh", "-ec", f"git commit -q --allow-empty -m One && {MIGRATE}").returncode == 0
    assert len(told(agent_dev)["commits"]) == 1
    assert agent_dev(*newer, "resume", "--", "sh", "-ec", "git commit -q --allow-empty -m Two").returncode == 0
    assert [one["subject"] for one in told(agent_dev)["commits"]] == ["Two", "One"]


def test_a_cherry_pick_in_the_middle_is_told(agent_dev: AgentDev, newer: tuple[str, ...]) -> None:
    script = f"git commit -q --allow-empty -m One && {MIGRATE} && git update-ref CHERRY_PICK_HEAD HEAD"
    assert agent_dev(*newer, "--", "sh", "-ec", script).returncode == 0
    assert told(agent_dev)["unfinished"] == ["cherry-pick"]


UNREAD = {
    "garbage": "for one in .git/reftable/*.ref; do chmod u+w $one; echo garbage >$one; done",
    "a link": "for one in .git/reftable/*.ref; do cp $one /tmp/one; ln -sf /tmp/one $one; done",
    "a FIFO": "for one in .git/reftable/*.ref; do rm $one; mkfifo $one; done",
    "more than one way up": "echo ../../../x.ref >>.git/reftable/tables.list",
}


@pytest.mark.parametrize("plant", UNREAD.values(), ids=UNREAD)
def test_what_cannot_be_read_of_a_reftable_is_told_and_stays(agent_dev: AgentDev, newer: tuple[str, ...], plant: str) -> None:
    head = agent_dev.git("rev-parse", "HEAD")
    script = f"git commit -q --allow-empty -m One && {MIGRATE} && {plant}"
    assert agent_dev(*newer, "--", "sh", "-ec", script).returncode == 0
    done = agent_dev("merge", "--commits")

    assert done.returncode != 0
    assert "moved its refs into a reftable" in done.stderr
    assert agent_dev.git("rev-parse", "HEAD") == head
    assert len(json.loads(agent_dev("sessions", "--json").stdout)["sessions"]) == 1
    assert agent_dev("status").returncode == 0


def test_a_git_that_knows_no_reftables_says_so(agent_dev: AgentDev) -> None:
    path = agent_dev.env["PATH"]
    options = take_new_git(agent_dev)
    agent_dev.env["PATH"] = path  # the agent's alone
    if subprocess.run(["git", "refs"], env={"PATH": path}, capture_output=True, check=False).returncode == 129:
        pytest.skip("the machine's own git knows them")
    assert agent_dev(*options, "--", "sh", "-ec", f"echo x >new && git add -A && git commit -qm One && {MIGRATE}").returncode == 0
    done = agent_dev("commits")

    assert "git 2.45 or newer" in done.stderr
    assert agent_dev("status").returncode == 0
    assert agent_dev("merge", "--all").returncode == 0
    assert (agent_dev.repo / "new").read_text() == "x\n"


BROKEN = {
    "cut to nothing": lambda table: table.write_bytes(b""),
    "cut at its end": lambda table: table.write_bytes(table.read_bytes()[:-20]),
    "garbage": lambda table: table.write_bytes(b"garbage" * 100),
    "gone": lambda table: table.unlink(),
    "without a list": lambda table: (table.parent / "tables.list").unlink(),
    "a list of others": lambda table: (table.parent / "tables.list").write_text("0x1-0x2-other.ref\n"),
}


@pytest.mark.parametrize("is_common", [False, True], ids=["its own", "what all work trees share"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_reftable_that_is_broken_is_refused_before_the_start(
    agent_dev: AgentDev, tmp_path: Path, how: str, *, is_common: bool
) -> None:
    place = (linked_reftable if is_common else reftable)(agent_dev, tmp_path)
    folder = Path(agent_dev.git("rev-parse", "--path-format=absolute", "--git-common-dir", cwd=place.cwd).strip())
    agent_dev.git("pack-refs", "--all", cwd=place.cwd)
    (table,) = (folder / "reftable").glob("*.ref")
    table.chmod(0o644)
    BROKEN[how](table)
    done = agent_dev(*place.options, "--", "true", cwd=place.cwd)

    assert done.returncode not in (0, 1), done.stdout
    assert "reftable" in done.stderr
    assert "Traceback" not in done.stderr
    assert agent_dev.sessions() == []


@pytest.mark.parametrize(
    "words", [("checkout", "-q", "--orphan", "new"), ("checkout", "-q", "--detach")], ids=["unborn", "detached"]
)
def test_a_head_without_a_branch_is_no_broken_reftable(agent_dev: AgentDev, tmp_path: Path, words: tuple[str, ...]) -> None:
    place = reftable(agent_dev, tmp_path)
    agent_dev.git(*words, cwd=place.cwd)

    assert agent_dev(*place.options, "--", "git", "status", cwd=place.cwd).returncode == 0
