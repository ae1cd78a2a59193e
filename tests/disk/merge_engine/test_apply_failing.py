"""A merge with a failing system call or an inaccessible path applies each change completely or not at all."""

import errno
import os
import stat

import pytest

from agent_dev.errors import CannotMerge
from agent_dev.merge_engine.merge_plan import MakeDirectory
from tests.disk.merge_engine.apply_world import OTHERS, SORTS, LastInstant, World, key, place, tree_of
from tests.harness.trees import DIRECTORY, FILE, Node
from tests.harness.users import NOBODY, call_as_ordinary_user, ordinary_users_directory


def test_an_agent_file_that_cannot_be_copied_stops_the_merge_before_any_change(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = (world.put("x"), world.add("y"))
    (world.upper / "y").unlink()

    with pytest.raises(CannotMerge, match="nothing was changed"):
        world.apply(*steps)
    assert tree_of(world.real) == {b"x": OTHERS[FILE]}


def test_a_symlink_that_replaced_the_agents_file_is_not_followed(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    step = world.add("x")
    (world.upper / "x").unlink()
    (world.upper / "x").symlink_to("/etc/passwd")

    with pytest.raises(CannotMerge):
        world.apply(step)
    assert tree_of(world.real) == {}


def test_a_fifo_that_replaced_the_agents_file_does_not_hang(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    step = world.add("x")
    (world.upper / "x").unlink()
    os.mkfifo(world.upper / "x")
    try:
        world.apply(step)
    except CannotMerge:
        assert tree_of(world.real) == {}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_a_failing_disk_aborts_the_merge_and_restores_everything(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
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


def test_a_failure_of_one_path_does_not_stop_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = [world.put("x"), world.put("y")]

    def fail() -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    LastInstant(monkeypatch, b"x").before.append(fail)
    done = world.apply(*steps)

    assert (done.taken, set(done.stopped)) == ([key("y")], {key("x")})


@pytest.mark.parametrize("mode", [0o555, 0o500])
def test_a_read_only_directorys_contents_are_merged_and_it_stays_read_only(mode: int) -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.real, {"closed": SORTS[DIRECTORY], "closed/x": OTHERS[FILE], "closed/z": OTHERS[FILE]})
            place(world.upper, {"closed": SORTS[DIRECTORY], "closed/x": SORTS[FILE], "closed/y": SORTS[FILE]})
            (world.real / "closed").chmod(mode)
            done = world.apply(world.put("closed/x"), world.add("closed/y"), world.remove("closed/z"))

            assert done.stopped == {}
            assert sorted(os.listdir(world.real / "closed")) == ["x", "y"]
            assert (world.real / "closed").stat().st_mode & 0o7777 == mode

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(act)


@pytest.mark.only_root
def test_a_directory_of_another_user_blocks_its_contents() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.upper, {"closed": SORTS[DIRECTORY], "closed/x": SORTS[FILE], "y": SORTS[FILE]})
            done = world.apply(world.put("closed/x"), world.put("y"))

            assert {one: why.endswith("Permission denied") for one, why in done.stopped.items()} == {key("closed/x"): True}
            assert (world.real / "closed/x").read_bytes() == b"old"
            assert (world.real / "y").read_bytes() == b"content"

    with ordinary_users_directory() as folder:
        place(folder, {"real": SORTS[DIRECTORY], "real/closed": SORTS[DIRECTORY], "real/closed/x": OTHERS[FILE]})
        place(folder, {"real/y": OTHERS[FILE]})
        for path in ("real", "real/closed/x", "real/y"):
            os.chown(folder / path, NOBODY, NOBODY)
        (folder / "real/closed").chmod(0o755)
        call_as_ordinary_user(act)


@pytest.mark.parametrize("mode", [0o555, 0o500, 0o000, 0o111])
def test_an_empty_read_only_directory_is_applied(mode: int) -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.upper, {"d": Node(DIRECTORY, b"", mode)})
            done = world.apply(world.add("d"))

            assert done.stopped == {}
            assert (world.real / "d").stat().st_mode & 0o7777 == mode

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(act)


def test_a_read_only_directory_is_applied_with_its_contents() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.upper, {"d": SORTS[DIRECTORY], "d/e": SORTS[DIRECTORY], "d/e/x": SORTS[FILE], "d/y": SORTS[FILE]})
            done = world.apply(
                MakeDirectory(key("d"), 0o555), MakeDirectory(key("d/e"), 0o555), world.add("d/e/x"), world.add("d/y")
            )

            assert done.stopped == {}
            assert stat.S_IMODE((world.real / "d").stat().st_mode) == stat.S_IMODE((world.real / "d/e").stat().st_mode) == 0o555
            assert set(tree_of(world.real)) == {b"d", b"d/e", b"d/e/x", b"d/y"}

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(act)


def test_a_read_only_directory_replaces_a_file() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.real, {"x": SORTS[FILE]})
            place(world.upper, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
            (world.upper / "x").chmod(0o555)
            done = world.apply(world.put("x"), world.add("x/y"))

            assert done.stopped == {}
            assert tree_of(world.real) == {b"x": Node(DIRECTORY, b"", 0o555), b"x/y": SORTS[FILE]}

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(act)
