"""`agent-dev clean --everything` names every file that agent-dev makes in its directories, and removes nothing else."""

from pathlib import Path, PurePath

import pytest

from agent_dev.session import all_state, store
from agent_dev.session.sessions import CommandContext
from tests.harness.faults import damage, state_files
from tests.harness.faults.damage import DamagedWorld
from tests.harness.program import tree


def context(world: DamagedWorld, state: Path) -> CommandContext:
    repo = str(world.user.repo)
    return CommandContext(store.Store(str(state)), repo, repo, world.user.environment())


def remove_everything(world: DamagedWorld, state: Path) -> list[str]:
    """Remove each place, as after a yes to every question; return the paths, relative to the world."""
    where = context(world, state)
    places = all_state.find_places(where, (str(world.user.agent_home),))
    for place in places:
        all_state.remove_place(where, place)
    return [str(Path(place.path).relative_to(world.folder)) for place in places]


@pytest.mark.parametrize("kind", [kind.pattern for kind in state_files.KINDS if kind.pattern.startswith("state/")])
def test_each_kind_of_state_file_is_removed_with_a_configured_directory(kind: str) -> None:
    assert PurePath(kind).parts[2] in {*all_state.STATE_NAMES, "*"}


def test_nothing_but_the_users_files_remains(tmp_path: Path) -> None:
    world = damage.make_world(tmp_path / "world")
    (world.folder / "data/agent-dev-fleet").mkdir(parents=True)
    world.user.env["XDG_DATA_HOME"] = str(world.folder / "data")
    kept = {name: tree(folder) for name, folder in (("user", world.user.repo), ("other", world.other.repo))}
    assert remove_everything(world, world.state) == [
        "cache/agent-dev",
        "data/agent-dev-fleet",
        "state/agent-dev",
        "config/agent-dev",
        "home/aihome",
    ]
    assert {name: tree(folder) for name, folder in (("user", world.user.repo), ("other", world.other.repo))} == kept
    left = {str(path.relative_to(world.folder)) for path in world.folder.rglob("*") if not path.is_relative_to(world.user.repo)}
    left = {path for path in left if not (world.folder / path).is_relative_to(world.other.repo)}
    assert left == {"cache", "config", "data", "home", "home/.gitconfig", "home/shop", "state"} - {"home/shop"}


def test_a_configured_state_directory_keeps_the_users_files_only(tmp_path: Path) -> None:
    world = damage.make_world(tmp_path / "world")
    state = world.folder / "own/place"
    state.parent.mkdir()
    world.state.rename(state)
    (world.state / "crashes").mkdir(parents=True)
    (world.state / "crashes/report.txt").write_text("report")
    (state / "mine").write_text("mine")
    assert "state/agent-dev/crashes" in remove_everything(world, state)
    assert not world.state.exists()
    assert [path.name for path in state.iterdir()] == ["mine"]
