"""A merge while the user goes on working: what they did before it, and in its last instant, stays."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.disk.apply_world import OTHERS, SORTS, LastInstant, World, key, place, tree_of, world_below
from tests.harness.trees import DIRECTORY, FILE


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_below(tmp_path) as made:
        yield made


def test_something_that_came_where_an_addition_goes_stays(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    place(world.real, {"x": OTHERS[FILE]})
    done = world.apply(world.add("x"), world.add("y"))

    assert tree_of(world.real) == {b"x": OTHERS[FILE], b"y": SORTS[FILE]}
    assert done.stopped == {key("x"): "something was put there meanwhile"}
    assert done.taken == [key("y")]


def edit_in_place(path: Path) -> None:
    path.write_bytes(b"the user's")


def replace_by_rename(path: Path) -> None:
    other = path.with_name("saving")
    other.write_bytes(b"the user's")
    other.rename(path)


def turn_into_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def turn_into_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("the user's")


DEEDS = [edit_in_place, replace_by_rename, turn_into_a_directory, turn_into_a_link]


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("step", ["put", "remove"])
def test_what_the_user_did_between_plan_and_merge_stays(world: World, deed: Callable[[Path], None], step: str) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = (getattr(world, step)("x"), world.put("y"))
    deed(world.real / "x")
    mine = tree_of(world.real)[b"x"]
    done = world.apply(*steps)

    assert tree_of(world.real) == {b"x": mine, b"y": SORTS[FILE]}
    assert list(done.stopped) == [key("x")]
    assert done.taken == [key("y")]


@pytest.mark.parametrize("step", ["put", "remove"])
def test_what_the_user_removed_meanwhile_stays_removed(world: World, step: str) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    made = getattr(world, step)("x")
    (world.real / "x").unlink()
    done = world.apply(made)

    assert tree_of(world.real) == {}
    assert list(done.stopped) == [key("x")]


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("step", ["put", "remove"])
def test_what_the_user_did_in_the_last_instant_stays(
    world: World, monkeypatch: pytest.MonkeyPatch, deed: Callable[[Path], None], step: str
) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    made = getattr(world, step)("x")
    LastInstant(monkeypatch, b"x").before.append(lambda: deed(world.real / "x"))
    done = world.apply(made)
    after = tree_of(world.real)[b"x"]

    assert after.type is DIRECTORY or after.content == b"the user's"
    assert list(done.stopped) == [key("x")]
    assert done.kept == {}


def test_a_new_file_that_came_in_the_last_instant_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    LastInstant(monkeypatch, b"x").before.append(lambda: (world.real / "x").write_bytes(b"the user's"))
    done = world.apply(world.add("x"))

    assert (world.real / "x").read_bytes() == b"the user's"
    assert list(done.stopped) == [key("x")]


def all_bytes(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_of_two_saves_around_an_exchange_the_later_stays_and_the_earlier_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    made = world.put("x")
    instant = LastInstant(monkeypatch, b"x")
    instant.before.append(lambda: (world.real / "x").write_bytes(b"first save"))
    instant.after.append(
        lambda: ((world.real / "saving").write_bytes(b"second save"), (world.real / "saving").rename(world.real / "x"))
    )
    done = world.apply(made)

    assert (world.real / "x").read_bytes() == b"second save"
    assert b"first save" in all_bytes(world.merge)
    assert list(done.stopped) == [key("x")]


def test_of_two_saves_around_a_removal_both_are_kept_and_the_next_removal_works(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    steps = (world.remove("x"), world.remove("y"))
    instant = LastInstant(monkeypatch, b"x")
    instant.before.append(lambda: (world.real / "x").write_bytes(b"first save"))
    instant.after.append(lambda: (world.real / "x").write_bytes(b"second save"))
    done = world.apply(*steps)

    assert (world.real / "x").read_bytes() == b"second save"
    assert b"first save" in all_bytes(world.merge)
    assert (list(done.stopped), done.taken) == ([key("x")], [key("y")])
