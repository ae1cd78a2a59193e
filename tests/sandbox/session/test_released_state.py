"""State that a released version wrote can be read, merged, resumed and removed by this version.

Its merges are listed but not undone: an undo needs the inodes that the merge left, and an unpacked repository has others.
"""

import json
from pathlib import Path

import pytest

from tests.harness.program import tree
from tests.harness.state_fixture import ReleasedWorld, archives, unpack

STATES = {
    "packed": "merged",
    "merged": "merged",
    "undone": "waiting",
    "waiting": "waiting",
    "imported": "waiting",
}


@pytest.fixture(params=archives(), ids=lambda path: path.name.removesuffix(".tar.xz"))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> ReleasedWorld:
    """Return a user's home, repository and state as a released version left them."""
    return unpack(request.param, tmp_path)


def test_there_is_state_of_the_first_release() -> None:
    assert "0.1.0.tar.xz" in [path.name for path in archives()]


def test_the_sessions_of_a_release_are_listed_in_their_states(world: ReleasedWorld) -> None:
    rows = {row["name"]: row["state"] for row in json.loads(world.run("sessions", "--all", "--json"))["sessions"]}
    assert {name: rows.get(name) for name in STATES} == STATES
    assert "discarded" in world.run("sessions", "--all")


def test_the_changes_of_a_release_are_merged_exactly_and_undone(world: ReleasedWorld) -> None:
    before = tree(world.tree)
    world.run("merge", "waiting", "--all", "--include-risky")
    root = world.tree
    assert {path.name for path in root.iterdir()} == {
        *(".git", "committed.txt", "elsewhere.txt", "kept.txt", "link", "merged.txt", "packed.txt", "renamed", "tool.sh"),
        *("transaction.txt", "whole"),
    }
    assert (root / "kept.txt").read_text() == "edited\n"
    assert (root / "elsewhere.txt").read_text() == "moved\n"
    assert (root / "link").readlink() == Path("kept.txt")
    assert (root / "tool.sh").stat().st_mode & 0o111
    assert [path.name for path in (root / "whole").iterdir()] == ["one"]
    assert (root / "renamed/inner.txt").read_text() == "folder/inner\n"
    world.run("undo")
    assert tree(world.tree) == before


def test_the_commits_of_a_release_are_imported(world: ReleasedWorld) -> None:
    world.run("merge", "waiting", "--commits")
    assert world.shell("git log -1 --format=%s") == "Add a file\n"


def test_the_merges_of_a_release_are_listed_and_not_undone_in_a_copy(world: ReleasedWorld) -> None:
    before = tree(world.tree)
    states = [row["state"] for row in json.loads(world.run("merges", "--json"))["merges"]]
    assert sorted(states) == ["merged", "merged", "merged", "undone"]
    world.run("redo", code=1)
    assert tree(world.tree) == before


def test_a_discarded_session_of_a_release_comes_back(world: ReleasedWorld) -> None:
    world.run("undiscard", "discarded")
    world.run("merge", "discarded", "--all")
    assert (world.tree / "discarded.txt").read_text() == "discarded\n"


def test_a_session_of_a_release_is_rolled_back_and_resumed(world: ReleasedWorld) -> None:
    checkpoints = json.loads(world.run("checkpoints", "waiting", "--json"))["checkpoints"]
    (number,) = [row["checkpoint"] for row in checkpoints if row["message"] == "before the loss"]
    world.run("rollback", str(number), "--session", "waiting")
    world.run("--no-merge", "resume", "waiting", "--", "sh", "-c", "test -e lost.txt && echo more >more.txt")
    assert "more.txt" in world.run("status", "waiting")


def test_an_imported_session_of_a_release_merges_like_the_original(world: ReleasedWorld) -> None:
    world.run("merge", "imported", "--all", "--include-risky")
    assert (world.tree / "kept.txt").read_text() == "edited\n"
    assert not (world.tree / "gone.txt").exists()


def test_the_state_of_a_release_is_cleaned(world: ReleasedWorld) -> None:
    world.run("clean", "--all")
    assert ["waiting", "waiting"] in [line.split()[:2] for line in world.run("sessions").splitlines()]  # its name and state
