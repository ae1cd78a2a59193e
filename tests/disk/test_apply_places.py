"""Where a merge stages its content: the first place that a rename reaches, or nothing is touched."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_dev.errors import CannotMerge
from agent_dev.linux import syscalls as kernel
from agent_dev.merge_engine.slots import choose
from tests.disk.apply_world import OTHERS, SORTS, World, key, place, tree_of, world_below
from tests.harness.trees import FIFO, FILE, SYMLINK, Node
from tests.harness.users import with_own_mounts

if TYPE_CHECKING:
    from agent_dev.merge_engine.merge_plan import Step


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_below(tmp_path) as made:
        yield made


def staged_in(world: World, *candidates: Path) -> Path | None:
    with World(world.folder) as again:
        found = choose(tuple(map(str, candidates)), again._real)
    return Path(found) if found else None


def test_the_first_place_that_a_rename_reaches_is_taken(world: World) -> None:
    place(world.real, {"x": SORTS[FILE]})

    assert staged_in(world, world.folder / "one", world.folder / "two") == world.folder / "one"
    assert not (world.folder / "two").exists()
    assert not (world.folder / "one").exists()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_place_on_another_file_system_is_passed_over(*, world: World, is_empty: bool) -> None:
    if not is_empty:
        place(world.real, {"x": SORTS[FILE]})

    def act() -> None:
        far = world.folder / "far"
        far.mkdir()
        kernel.mount("tmpfs", str(far), "tmpfs", 0)

        assert staged_in(world, far / "stage", world.folder / "near") == world.folder / "near"
        assert list(far.iterdir()) == []

    with_own_mounts(act)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_place_on_another_mount_of_the_same_file_system_is_passed_over(*, world: World, is_empty: bool) -> None:
    if not is_empty:
        place(world.real, {"x": SORTS[FILE]})

    def act() -> None:
        (world.folder / "far").mkdir()
        (world.folder / "bound").mkdir()
        kernel.mount(str(world.folder / "far"), str(world.folder / "bound"), None, 0x1000)
        assert (world.folder / "bound").stat().st_dev == world.real.stat().st_dev

        assert staged_in(world, world.folder / "bound/stage", world.folder / "near") == world.folder / "near"

    with_own_mounts(act)


def test_a_merge_whose_own_folder_is_on_another_file_system_is_the_same(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE], "l": OTHERS[SYMLINK], "p": OTHERS[FIFO], "gone": Node(FILE, b"away", 0o4640)})
    place(world.upper, {"x": SORTS[FILE], "l": SORTS[FILE], "p": SORTS[FILE], "new": SORTS[FILE]})

    def act() -> None:
        kernel.mount("tmpfs", str(world.state), "tmpfs", 0)
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

    with_own_mounts(act)


def test_without_a_place_nothing_is_touched_and_the_reason_is_told(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    world.places = (str(world.folder / "x/y"),)
    (world.folder / "x").touch()

    with pytest.raises(CannotMerge, match="no place"):
        world.apply(world.put("x"))
    assert tree_of(world.real) == {b"x": OTHERS[FILE]}
