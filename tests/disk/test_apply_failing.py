"""A merge in which something fails, or that meets what nobody may read or write to: what is done is whole."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.errors import CannotMerge
from agent_dev.merge_engine.merge_plan import MakeFolder
from tests.disk.apply_world import OTHERS, SORTS, LastInstant, World, key, place, tree_of, world_below
from tests.harness.trees import DIRECTORY, FILE, Node
from tests.harness.users import as_ordinary, open_place


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_below(tmp_path) as made:
        yield made


def test_a_file_of_the_agents_that_cannot_be_copied_stops_everything_before_anything_is_touched(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = (world.put("x"), world.add("y"))
    (world.upper / "y").unlink()

    with pytest.raises(CannotMerge, match="nothing was changed"):
        world.apply(*steps)
    assert tree_of(world.real) == {b"x": OTHERS[FILE]}


def test_a_link_that_took_the_place_of_the_agents_file_is_not_copied_through(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    step = world.add("x")
    (world.upper / "x").unlink()
    (world.upper / "x").symlink_to("/etc/passwd")

    with pytest.raises(CannotMerge):
        world.apply(step)
    assert tree_of(world.real) == {}


def test_a_fifo_that_took_the_place_of_the_agents_file_hangs_nothing(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    step = world.add("x")
    (world.upper / "x").unlink()
    os.mkfifo(world.upper / "x")
    try:
        world.apply(step)
    except CannotMerge:
        assert tree_of(world.real) == {}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_a_failing_disk_ends_the_merge_and_all_is_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    names = ("x", "y", "z")
    place(world.real, dict.fromkeys(names, OTHERS[FILE]))
    place(world.upper, dict.fromkeys(names, SORTS[FILE]))
    steps = [world.put(name) for name in names]

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    LastInstant(monkeypatch, b"y").before.append(fail)
    with pytest.raises(CannotMerge, match="nothing was changed"):
        world.apply(*steps)

    assert tree_of(world.real) == dict.fromkeys((b"x", b"y", b"z"), OTHERS[FILE])


def test_one_path_that_fails_by_itself_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = [world.put("x"), world.put("y")]

    def fail() -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    LastInstant(monkeypatch, b"x").before.append(fail)
    done = world.apply(*steps)

    assert (done.taken, set(done.stopped)) == ([key("y")], {key("x")})


def test_a_real_directory_that_cannot_be_written_stops_what_is_in_it() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.real, {"closed": SORTS[DIRECTORY], "closed/x": OTHERS[FILE], "y": OTHERS[FILE]})
            place(world.upper, {"closed": SORTS[DIRECTORY], "closed/x": SORTS[FILE], "y": SORTS[FILE]})
            (world.real / "closed").chmod(0o555)
            done = world.apply(world.put("closed/x"), world.put("y"))

            assert {one: why.endswith("Permission denied") for one, why in done.stopped.items()} == {key("closed/x"): True}
            assert (world.real / "closed/x").read_bytes() == b"old"
            assert (world.real / "y").read_bytes() == b"content"

    with open_place() as folder:
        as_ordinary(act)


@pytest.mark.parametrize("mode", [0o555, 0o500, 0o000, 0o111])
def test_an_empty_directory_that_nobody_may_write_to_arrives(mode: int) -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.upper, {"d": Node(DIRECTORY, b"", mode)})
            done = world.apply(world.add("d"))

            assert done.stopped == {}
            assert (world.real / "d").stat().st_mode & 0o7777 == mode

    with open_place() as folder:
        as_ordinary(act)


def test_a_directory_that_nobody_may_write_to_arrives_with_its_contents() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.upper, {"d": SORTS[DIRECTORY], "d/e": SORTS[DIRECTORY], "d/e/x": SORTS[FILE], "d/y": SORTS[FILE]})
            done = world.apply(MakeFolder(key("d"), 0o555), MakeFolder(key("d/e"), 0o555), world.add("d/e/x"), world.add("d/y"))

            assert done.stopped == {}
            assert stat.S_IMODE((world.real / "d").stat().st_mode) == stat.S_IMODE((world.real / "d/e").stat().st_mode) == 0o555
            assert set(tree_of(world.real)) == {b"d", b"d/e", b"d/e/x", b"d/y"}

    with open_place() as folder:
        as_ordinary(act)


def test_a_directory_that_nobody_may_write_to_takes_the_place_of_a_file() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.real, {"x": SORTS[FILE]})
            place(world.upper, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
            (world.upper / "x").chmod(0o555)
            done = world.apply(world.put("x"), world.add("x/y"))

            assert done.stopped == {}
            assert tree_of(world.real) == {b"x": Node(DIRECTORY, b"", 0o555), b"x/y": SORTS[FILE]}

    with open_place() as folder:
        as_ordinary(act)
