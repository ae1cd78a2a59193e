"""A merge stages its content in the first directory from which a rename works; without one, nothing is changed."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_dev.errors import CannotMerge
from agent_dev.linux import syscalls
from agent_dev.merge_engine.slots import find_stage_path
from tests.disk.merge_engine.apply_world import OTHERS, SORTS, World, key, place, tree_of
from tests.harness.trees import FIFO, FILE, SYMLINK, Node
from tests.harness.users import call_with_own_mounts

if TYPE_CHECKING:
    from agent_dev.merge_engine.merge_plan import Step


def staged_in(world: World, *candidates: Path) -> Path | None:
    with World(world.folder) as again:
        found = find_stage_path(tuple(map(str, candidates)), again._real)
    return Path(found) if found else None


def test_the_first_staging_directory_that_a_rename_reaches_is_used(world: World) -> None:
    place(world.real, {"x": SORTS[FILE]})

    assert staged_in(world, world.folder / "one", world.folder / "two") == world.folder / "one"
    assert not (world.folder / "two").exists()
    assert not (world.folder / "one").exists()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_staging_directory_on_another_file_system_is_skipped(*, world: World, is_empty: bool) -> None:
    if not is_empty:
        place(world.real, {"x": SORTS[FILE]})

    def act() -> None:
        far = world.folder / "far"
        far.mkdir()
        syscalls.mount("tmpfs", str(far), "tmpfs", 0)

        assert staged_in(world, far / "stage", world.folder / "near") == world.folder / "near"
        assert list(far.iterdir()) == []

    call_with_own_mounts(act)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_staging_directory_on_another_mount_of_the_file_system_is_skipped(*, world: World, is_empty: bool) -> None:
    if not is_empty:
        place(world.real, {"x": SORTS[FILE]})

    def act() -> None:
        (world.folder / "far").mkdir()
        (world.folder / "bound").mkdir()
        syscalls.mount(str(world.folder / "far"), str(world.folder / "bound"), None, 0x1000)
        assert (world.folder / "bound").stat().st_dev == world.real.stat().st_dev

        assert staged_in(world, world.folder / "bound/stage", world.folder / "near") == world.folder / "near"

    call_with_own_mounts(act)


def test_a_merge_with_its_own_directory_on_another_file_system_is_the_same(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE], "l": OTHERS[SYMLINK], "p": OTHERS[FIFO], "gone": Node(FILE, b"away", 0o4640)})
    place(world.upper, {"x": SORTS[FILE], "l": SORTS[FILE], "p": SORTS[FILE], "new": SORTS[FILE]})

    def act() -> None:
        syscalls.mount("tmpfs", str(world.state), "tmpfs", 0)
        with World(world.folder) as again:
            again.places = (f"{again.merge}/stage-0", f"{again.folder}/near")
            steps: list[Step] = [again.put("x"), again.put("l"), again.put("p"), again.remove("gone"), again.add("new")]
            done = again.apply(*steps)

            assert done.stopped == {}
            assert set(tree_of(again.real)) == {b"x", b"l", b"p", b"new"}
            kept = tree_of(again.merge / "stage-0")
            assert {path: kept[done.kept[key(path)].encode()] for path in ("x", "l", "p")} == {
                "x": OTHERS[FILE],
                "l": OTHERS[SYMLINK],
                "p": OTHERS[FIFO],
            }
            assert again.kept(done, "gone").read_bytes() == b"away"
            assert not (again.folder / "near").exists()

    call_with_own_mounts(act)


def test_without_a_staging_directory_nothing_changes_and_the_reason_is_reported(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    world.places = (str(world.folder / "x/y"),)
    (world.folder / "x").touch()

    with pytest.raises(CannotMerge, match="no staging directory"):
        world.apply(world.put("x"))
    assert tree_of(world.real) == {b"x": OTHERS[FILE]}


def test_a_file_with_attributes_that_cannot_be_stored_is_not_replaced(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    os.setxattr(world.real / "x", "user.mine", b"1")

    def act() -> None:
        syscalls.mount("ramfs", str(world.state), "ramfs", 0)  # stores no attributes
        with World(world.folder) as again:
            again.places = (f"{again.merge}/stage-0", f"{again.folder}/near")
            with pytest.raises(CannotMerge, match="cannot store its attributes"):
                again.apply(again.put("x"))
            assert tree_of(again.real)[b"x"] == OTHERS[FILE]
            assert again.apply(again.put("y")).stopped == {}

    call_with_own_mounts(act)
