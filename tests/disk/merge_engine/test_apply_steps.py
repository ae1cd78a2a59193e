"""Each step of a merge plan on real files: additions, removals, kept entries, whatever was at the path before."""

import os

import pytest

from agent_dev.fs.entry import FileType
from agent_dev.merge_engine.merge_plan import MakeDirectory, PruneDirectory, SetMode, Step
from tests.disk.merge_engine.apply_world import OTHERS, SORTS, World, key, place, tree_of
from tests.harness import trees
from tests.harness.trees import DIRECTORY, FIFO, FILE, SYMLINK

# --- each step ---


@pytest.mark.parametrize("kind", SORTS)
def test_an_addition_is_applied_as_the_agent_left_it(world: World, kind: FileType) -> None:
    place(world.upper, {"x": SORTS[kind]})
    done = world.apply(world.add("x"))

    assert tree_of(world.real) == {b"x": SORTS[kind]}
    assert (done.taken, done.stopped, done.kept) == ([key("x")], {}, {})


@pytest.mark.parametrize("before", SORTS)
@pytest.mark.parametrize("after", SORTS)
def test_every_file_type_can_replace_every_other(world: World, before: FileType, after: FileType) -> None:
    place(world.real, {"x": OTHERS[before]})
    place(world.upper, {"x": SORTS[after]})
    done = world.apply(world.put("x"))

    assert tree_of(world.real) == {b"x": SORTS[after]}
    assert done.stopped == {}


@pytest.mark.parametrize("kind", [FILE, SYMLINK, FIFO])
def test_a_replaced_entry_is_kept(world: World, kind: FileType) -> None:
    place(world.real, {"x": OTHERS[kind]})
    place(world.upper, {"x": SORTS[FILE]})
    done = world.apply(world.put("x"))

    assert tree_of(world.merge / "stage-0") == {done.kept[key("x")].encode(): OTHERS[kind]}


@pytest.mark.parametrize("kind", [FILE, SYMLINK, FIFO])
def test_a_removed_entry_is_gone_and_kept(world: World, kind: FileType) -> None:
    place(world.real, {"x": OTHERS[kind], "y": SORTS[FILE]})
    done = world.apply(world.remove("x"))

    assert tree_of(world.real) == {b"y": SORTS[FILE]}
    assert tree_of(world.merge / "stage-0") == {done.kept[key("x")].encode(): OTHERS[kind]}


def test_an_empty_directory_is_removed(world: World) -> None:
    place(world.real, {"x": SORTS[DIRECTORY]})
    world.apply(world.remove("x"))

    assert tree_of(world.real) == {}


def test_a_directory_that_is_not_empty_is_not_removed(world: World) -> None:
    place(world.real, {"x": SORTS[DIRECTORY], "x/mine": SORTS[FILE]})
    done = world.apply(world.remove("x"))

    assert key("x") in done.stopped
    assert set(tree_of(world.real)) == {b"x", b"x/mine"}


def test_new_directories_are_created_with_their_modes(world: World) -> None:
    place(world.upper, {"a": SORTS[DIRECTORY], "a/b": OTHERS[DIRECTORY], "a/b/x": SORTS[FILE]})
    agents = tree_of(world.upper)
    world.apply(MakeDirectory(key("a"), 0o750), MakeDirectory(key("a/b"), 0o700), world.add("a/b/x"))

    assert tree_of(world.real) == agents


def test_an_existing_directory_is_unchanged(world: World) -> None:
    place(world.real, {"a": SORTS[DIRECTORY]})
    done = world.apply(MakeDirectory(key("a"), 0o700))

    assert (tree_of(world.real), done.stopped) == ({b"a": SORTS[DIRECTORY]}, {})


@pytest.mark.parametrize("kind", [FILE, SYMLINK, FIFO])
def test_an_entry_at_the_path_of_a_new_directory_stays(world: World, kind: FileType) -> None:
    place(world.real, {"a": SORTS[kind]})
    place(world.upper, {"a": SORTS[DIRECTORY], "a/x": SORTS[FILE]})
    done = world.apply(MakeDirectory(key("a"), 0o700), world.add("a/x"))

    assert tree_of(world.real) == {b"a": SORTS[kind]}
    assert set(done.stopped) == {key("a"), key("a/x")}


def test_a_directory_that_became_empty_is_pruned(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY], "d/e": SORTS[DIRECTORY], "d/e/x": SORTS[FILE]})
    world.apply(world.remove("d/e/x"), PruneDirectory(key("d/e")), PruneDirectory(key("d")))

    assert tree_of(world.real) == {}


def test_a_directory_with_entries_of_the_user_is_not_pruned(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY], "d/mine": SORTS[FILE], "d/x": SORTS[FILE]})
    done = world.apply(world.remove("d/x"), PruneDirectory(key("d")))

    assert set(tree_of(world.real)) == {b"d", b"d/mine"}
    assert done.stopped == {}


def test_a_mode_is_set_on_the_directory_alone(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY], "d/x": SORTS[FILE]})
    place(world.upper, {"d": OTHERS[DIRECTORY]})
    world.apply(SetMode(key("d"), world.new("d"), world.now("d")))

    assert tree_of(world.real) == {b"d": OTHERS[DIRECTORY], b"d/x": SORTS[FILE]}


def test_a_mode_that_the_user_changed_stays(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY]})
    place(world.upper, {"d": OTHERS[DIRECTORY]})
    step = SetMode(key("d"), world.new("d"), world.now("d"))
    (world.real / "d").chmod(0o711)
    done = world.apply(step)

    assert (world.real / "d").stat().st_mode & 0o7777 == 0o711
    assert key("d") in done.stopped


def test_a_mode_that_the_user_has_set_too_is_not_part_of_the_merge(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY]})
    place(world.upper, {"d": OTHERS[DIRECTORY], "x": SORTS[FILE]})
    step, wanted = SetMode(key("d"), world.new("d"), world.now("d")), world.new("d")
    (world.real / "d").chmod(wanted.mode & 0o7777)
    done = world.apply(step, world.add("x"))

    assert done.needless == [key("d")]  # so an undo leaves the mode as the user set it


def test_a_file_is_replaced_by_a_directory_with_contents(world: World) -> None:
    place(world.real, {"x": SORTS[FILE]})
    place(world.upper, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
    world.apply(world.put("x"), world.add("x/y"))

    assert tree_of(world.real) == {b"x": SORTS[DIRECTORY], b"x/y": SORTS[FILE]}


def test_a_directory_with_contents_is_replaced_by_a_file(world: World) -> None:
    place(world.real, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    world.apply(world.remove("x/y"), world.put("x"))

    assert tree_of(world.real) == {b"x": SORTS[FILE]}


def test_a_directory_with_a_new_entry_of_the_user_is_not_replaced_by_a_file(world: World) -> None:
    place(world.real, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    steps = (world.remove("x/y"), world.put("x"))
    place(world.real, {"x/mine": OTHERS[FILE]})
    done = world.apply(*steps)

    assert tree_of(world.real) == {b"x": SORTS[DIRECTORY], b"x/mine": OTHERS[FILE]}
    assert key("x") in done.stopped


@pytest.mark.parametrize("name", [b"\n", b"\xff\xfe", b" ", b"-rf", b".wh.x", b"0", b"gone", b"probe", b"a" * 255])
def test_any_name_is_applied(world: World, name: bytes) -> None:
    trees.write(world.upper, {name: SORTS[FILE]})
    world.apply(world.add(os.fsdecode(name)))
    arrived = tree_of(world.real)
    os.unlink(os.path.join(os.fsencode(world.real), name))

    assert arrived == {name: SORTS[FILE]}


# --- many files ---


def test_many_files_are_applied_with_few_descriptors(world: World) -> None:
    folders = [f"d{number}" for number in range(150)]
    place(world.upper, {**dict.fromkeys(folders, SORTS[DIRECTORY]), **{f"{name}/x": SORTS[FILE] for name in folders}})
    steps: list[Step] = []
    for name in folders:
        steps += (MakeDirectory(key(name), 0o750), world.add(f"{name}/x"))
    before, agents = len(os.listdir("/proc/self/fd")), tree_of(world.upper)
    world.apply(*steps)

    assert tree_of(world.real) == agents
    assert len(os.listdir("/proc/self/fd")) - before < 100
