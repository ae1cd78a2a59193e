"""Repositories whose refs are in a reftable: the agent's git reads all of them, and its commits are imported."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.git.git_kinds import linked_reftable, reftable
from tests.harness.git.new_git import use_new_git
from tests.harness.program import AgentDev

# Git commands that print refs; their output is the same outside and inside, except for the user's stash, which is absent inside.
LOOKS = (
    "git for-each-ref --format='%(refname) %(objectname) %(symref)' | grep -v refs/stash",
    "git rev-parse --symbolic-full-name HEAD",
    "git reflog --date=raw",
    "git worktree list",
    "git status",
    "git bisect log",
    "git rev-parse -q --verify ORIG_HEAD",
    "git -C lib log -1 --format=%H%d",
)


class World:
    """A worktree, and the options with which an agent starts in it."""

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
    """Leave the repository unchanged."""


def busy(world: World) -> None:
    """Add a stash of two entries, tags, a bisection and symbolic refs."""
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
    """Detach HEAD."""
    world.git("checkout", "-q", "--detach")


def orphan(world: World) -> None:
    """Check out a branch without commits."""
    world.git("checkout", "-q", "--orphan", "begun")


def with_submodule(world: World) -> None:
    """Add a submodule that stores its refs in a reftable, too."""
    folder = world.cwd.parent / "library"
    world.git("init", "-q", "--ref-format=reftable", folder)
    world.program.git("commit", "-q", "--allow-empty", "-m", "library", cwd=folder)
    world.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", "--ref-format=reftable", folder, "lib")
    world.git("commit", "-q", "-m", "with a library")


@pytest.mark.parametrize("prepare", [plain, busy, detached, orphan, with_submodule])
def test_git_prints_the_same_inside(world: World, prepare: Callable[[World], None]) -> None:
    prepare(world)
    script = "; ".join(f"{look} 2>&1" for look in LOOKS)
    words = ["sh", "-c", script]
    outside = subprocess.run(
        words, cwd=world.cwd, env=world.program.environment(), stdout=subprocess.PIPE, text=True, check=False
    )

    assert world.run(f"{script}; true") == outside.stdout


def test_the_users_stash_is_not_visible(world: World) -> None:
    busy(world)
    assert world.run("git stash list; git rev-parse -q --verify refs/stash; true") == ""


def test_commits_are_imported_and_undone(world: World) -> None:
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


def test_commits_of_both_sides_are_combined(world: World) -> None:
    world.run("git commit -q --allow-empty -m Agent")
    world.git("commit", "-q", "--allow-empty", "-m", "Mine")

    assert world.program("merge", "--commits", cwd=world.cwd).returncode == 1
    assert world.program("merge", "--commits", "--onto-current", cwd=world.cwd).returncode == 0
    assert world.git("log", "-2", "--format=%s") == "Agent\nMine\n"


def test_nothing_is_imported_during_a_cherry_pick(world: World) -> None:
    world.run("echo x >new && git add -A && git commit -qm 'Add new'")
    world.git("update-ref", "CHERRY_PICK_HEAD", "HEAD")
    done = world.program("merge", "--commits", cwd=world.cwd)

    assert done.returncode != 0
    assert "a cherry-pick is in progress" in done.stderr


def test_an_alternative_config_syntax_is_understood(world: World) -> None:
    common = Path(world.git("rev-parse", "--path-format=absolute", "--git-common-dir").strip())
    text = (common / "config").read_text()
    (common / "config").write_text(text.replace("[extensions]\n\trefstorage = reftable", "[Extensions] refStorage=reftable"))

    assert world.run("git log -1 --format=%s") == "Make it\n"


# --- an agent that migrates its refs to a reftable ---

MIGRATE = "rm -rf .git/logs && git refs migrate --ref-format=reftable"  # git < 2.48 cannot migrate logs


@pytest.fixture
def newer(agent_dev: AgentDev) -> tuple[str, ...]:
    """Give the user and the agent a git that supports reftables; return the options."""
    return use_new_git(agent_dev)


def reported(agent_dev: AgentDev) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(agent_dev("commits", "--json").stdout)
    return found


def test_refs_that_the_agent_moved_into_a_reftable_are_read(agent_dev: AgentDev, newer: tuple[str, ...]) -> None:
    work = "echo x >new && git add -A && git commit -qm Before"
    after = "git commit -q --allow-empty -m After && git branch topic && git tag v1 && echo y >new && git stash -q"
    assert agent_dev(*newer, "--", "sh", "-ec", f"{work} && {MIGRATE} && {after}").returncode == 0
    found = reported(agent_dev)

    assert [one["subject"] for one in found["commits"]] == ["After", "Before"]
    assert [(one["name"], one["change"]) for one in found["refs"]] == [
        ("refs/heads/main", "moved"),
        ("refs/heads/topic", "new"),
        ("refs/tags/v1", "new"),
    ]
    assert (found["head"], len(found["stashes"])) == ("refs/heads/main", 1)
    done = agent_dev("merge", "--commits")
    assert done.returncode == 0, done.stderr
    assert agent_dev.git("log", "-2", "--format=%s") == "After\nBefore\n"
    assert agent_dev.git("status", "--porcelain") == ""


def test_refs_only_migrated_to_a_reftable_are_no_change(agent_dev: AgentDev, newer: tuple[str, ...]) -> None:
    done = agent_dev(*newer, "--", "sh", "-ec", MIGRATE)
    assert done.returncode == 0, done.stderr
    assert json.loads(agent_dev("sessions", "--json").stdout)["sessions"] == []


def test_changes_made_after_a_first_read_are_seen(agent_dev: AgentDev, newer: tuple[str, ...]) -> None:
    assert agent_dev(*newer, "--", "sh", "-ec", f"git commit -q --allow-empty -m One && {MIGRATE}").returncode == 0
    assert len(reported(agent_dev)["commits"]) == 1
    assert agent_dev(*newer, "resume", "--", "sh", "-ec", "git commit -q --allow-empty -m Two").returncode == 0
    assert [one["subject"] for one in reported(agent_dev)["commits"]] == ["Two", "One"]


def test_an_unfinished_cherry_pick_is_reported(agent_dev: AgentDev, newer: tuple[str, ...]) -> None:
    script = f"git commit -q --allow-empty -m One && {MIGRATE} && git update-ref CHERRY_PICK_HEAD HEAD"
    assert agent_dev(*newer, "--", "sh", "-ec", script).returncode == 0
    assert reported(agent_dev)["in_progress"] == ["cherry-pick"]


UNREAD = {
    "garbage": "for one in .git/reftable/*.ref; do chmod u+w $one; echo garbage >$one; done",
    "a link": "for one in .git/reftable/*.ref; do cp $one /tmp/one; ln -sf /tmp/one $one; done",
    "a FIFO": "for one in .git/reftable/*.ref; do rm $one; mkfifo $one; done",
    "more than one way up": "echo ../../../x.ref >>.git/reftable/tables.list",
}


@pytest.mark.parametrize("plant", UNREAD.values(), ids=UNREAD)
def test_unreadable_refs_of_a_reftable_are_reported_and_stay(agent_dev: AgentDev, newer: tuple[str, ...], plant: str) -> None:
    head = agent_dev.git("rev-parse", "HEAD")
    script = f"git commit -q --allow-empty -m One && {MIGRATE} && {plant}"
    assert agent_dev(*newer, "--", "sh", "-ec", script).returncode == 0
    done = agent_dev("merge", "--commits")

    assert done.returncode != 0
    assert "cannot read the agent's reftable" in done.stderr
    assert agent_dev.git("rev-parse", "HEAD") == head
    assert len(json.loads(agent_dev("sessions", "--json").stdout)["sessions"]) == 1
    assert agent_dev("status").returncode == 0


def test_a_git_without_reftable_support_is_reported(agent_dev: AgentDev) -> None:
    path = agent_dev.env["PATH"]
    options = use_new_git(agent_dev)
    agent_dev.env["PATH"] = path  # only the agent uses the new git
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
def test_a_broken_reftable_is_refused_before_the_start(agent_dev: AgentDev, tmp_path: Path, how: str, *, is_common: bool) -> None:
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
def test_a_detached_head_is_no_broken_reftable(agent_dev: AgentDev, tmp_path: Path, words: tuple[str, ...]) -> None:
    place = reftable(agent_dev, tmp_path)
    agent_dev.git(*words, cwd=place.cwd)

    assert agent_dev(*place.options, "--", "git", "status", cwd=place.cwd).returncode == 0
