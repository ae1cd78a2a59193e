"""A merge near hard links, symbolic links and mounts of the real tree changes nothing through them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_dev.fs import durable
from agent_dev.linux import syscalls
from agent_dev.merge_engine.merge_plan import MakeDirectory, PruneDirectory, SetMode, Step
from tests.disk.merge_engine.apply_world import OTHERS, SORTS, World, key, place, tree_of
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node
from tests.harness.users import call_with_own_mounts


def test_another_hard_link_of_a_replaced_file_is_not_written_to(world: World, tmp_path: Path) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    os.link(world.real / "x", tmp_path / "twin")
    place(world.upper, {"x": SORTS[FILE]})
    world.apply(world.put("x"))

    assert (tmp_path / "twin").read_bytes() == b"old"
    assert (world.real / "x").read_bytes() == b"content"


def test_a_kept_hard_link_does_not_change_with_its_other_names(world: World, tmp_path: Path) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    os.link(world.real / "x", tmp_path / "twin")
    place(world.upper, {"x": SORTS[FILE]})
    done = world.apply(world.put("x"))
    (tmp_path / "twin").write_bytes(b"later")

    assert world.kept(done, "x").read_bytes() == b"old"


@pytest.mark.parametrize("action", ["replaced", "removed", "one of each"])
def test_one_merge_changes_all_hard_links_of_a_file(world: World, action: str) -> None:
    names = ("x", "y", "z")
    place(world.real, {"x": OTHERS[FILE]})
    for name in names[1:]:
        os.link(world.real / "x", world.real / name)
    place(world.upper, dict.fromkeys(names, SORTS[FILE]))
    gone = {"replaced": (), "removed": names, "one of each": ("y",)}[action]
    done = world.apply(*(world.remove(name) if name in gone else world.put(name) for name in names))

    assert done.stopped == {}
    left = {path.name: path.read_bytes() for path in world.real.iterdir()}
    assert left == {name: b"content" for name in names if name not in gone}


def test_a_file_that_the_user_changed_through_another_link_is_not_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    os.link(world.real / "x", world.real / "y")
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = (world.put("x"), world.put("y"))
    exchange = durable.exchange

    def change_then(*words: Any) -> None:
        monkeypatch.setattr(durable, "exchange", exchange)
        exchange(*words)
        (world.real / "y").write_bytes(b"the user's")

    monkeypatch.setattr(durable, "exchange", change_then)
    done = world.apply(*steps)
    assert key("y") in done.stopped
    assert (world.real / "y").read_bytes() == b"the user's"


def test_replacing_a_symlink_writes_nothing_to_its_target(world: World, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"mine")
    (world.real / "x").symlink_to("../outside")
    place(world.upper, {"x": SORTS[FILE]})
    world.apply(world.put("x"))

    assert (tmp_path / "outside").read_bytes() == b"mine"
    assert not (world.real / "x").is_symlink()


STEPS_BELOW_D: dict[str, Callable[[World], Step]] = {
    "add": lambda world: world.add("top/d/new"),
    "replace": lambda world: world.put("top/d/x"),
    "remove": lambda world: world.remove("top/d/x"),
    "remove a directory": lambda world: world.remove("top/d/e"),
    "make a directory": lambda _: MakeDirectory(key("top/d/made"), 0o755),
    "prune": lambda _: PruneDirectory(key("top/d/e")),
    "set a mode": lambda world: SetMode(key("top/d/e"), world.new("top/d/e"), world.now("top/d/e")),
}


def step_below_d(world: World, step: str) -> Step:
    real = {"top": SORTS[DIRECTORY], "top/d": SORTS[DIRECTORY], "top/d/x": OTHERS[FILE], "top/d/e": SORTS[DIRECTORY]}
    place(world.real, real)
    place(world.upper, {**real, "top/d/x": SORTS[FILE], "top/d/new": SORTS[FILE], "top/d/e": OTHERS[DIRECTORY]})
    return STEPS_BELOW_D[step](world)


@pytest.mark.parametrize("step", STEPS_BELOW_D)
@pytest.mark.parametrize("moved", ["top", "top/d"])
@pytest.mark.parametrize("absolute", [False, True])
def test_nothing_is_done_through_a_directory_that_became_a_symlink(
    *, world: World, tmp_path: Path, step: str, moved: str, absolute: bool
) -> None:
    made = step_below_d(world, step)
    outside = tmp_path / "outside"
    (world.real / moved).rename(outside)
    (world.real / moved).symlink_to(outside if absolute else os.path.relpath(outside, (world.real / moved).parent))
    before = tree_of(outside)
    with World(tmp_path) as again:  # each merge opens the tree again
        done = again.apply(made)

    assert tree_of(outside) == before
    assert (world.real / moved).is_symlink()
    assert list(done.stopped) == ([] if isinstance(made, PruneDirectory) else [made.key])  # there is nothing to prune


@pytest.mark.parametrize("step", STEPS_BELOW_D)
@pytest.mark.parametrize("moved", ["top", "top/d"])
def test_nothing_is_done_on_a_mount_that_appeared_later(world: World, tmp_path: Path, step: str, moved: str) -> None:
    made = step_below_d(world, step)

    def act() -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        place(
            outside,
            {"d": SORTS[DIRECTORY], "d/x": OTHERS[FILE], "x": OTHERS[FILE], "e": SORTS[DIRECTORY], "d/e": SORTS[DIRECTORY]},
        )
        before = tree_of(outside)
        syscalls.mount(str(outside), str(world.real / moved), None, 0x1000)
        with World(tmp_path) as again:
            done = again.apply(made)

        assert tree_of(outside) == before
        assert list(done.stopped) == ([] if isinstance(made, PruneDirectory) else [made.key])  # there is nothing to prune

    call_with_own_mounts(act)


def test_a_symlink_within_the_root_is_not_followed_either(world: World) -> None:
    place(world.real, {"target": SORTS[DIRECTORY], "d": Node(SYMLINK, b"target")})
    place(world.upper, {"d": SORTS[DIRECTORY], "d/x": SORTS[FILE]})
    done = world.apply(world.add("d/x"))

    assert set(tree_of(world.real)) == {b"target", b"d"}
    assert list(done.stopped) == [key("d/x")]
