"""Changes that the user makes before or during a merge, up to the last instant, are kept."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.disk.merge_engine.apply_world import OTHERS, SORTS, LastInstant, World, key, place, tree_of
from tests.harness import owner_view, trees
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults
from tests.harness.trees import DIRECTORY, FILE, Node, UpperEntry


def test_an_entry_that_appeared_at_the_path_of_an_addition_stays(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    place(world.real, {"x": OTHERS[FILE]})
    done = world.apply(world.add("x"), world.add("y"))

    assert tree_of(world.real) == {b"x": OTHERS[FILE], b"y": SORTS[FILE]}
    assert done.stopped == {key("x"): "something was created there concurrently"}
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


ACTIONS = [edit_in_place, replace_by_rename, turn_into_a_directory, turn_into_a_link]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("step", ["put", "remove"])
def test_changes_of_the_user_between_plan_and_merge_stay(world: World, action: Callable[[Path], None], step: str) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = (getattr(world, step)("x"), world.put("y"))
    action(world.real / "x")
    yours = tree_of(world.real)[b"x"]
    done = world.apply(*steps)

    assert tree_of(world.real) == {b"x": yours, b"y": SORTS[FILE]}
    assert list(done.stopped) == [key("x")]
    assert done.taken == [key("y")]


@pytest.mark.parametrize("action", [lambda path: path.chmod(0o711), lambda path: os.setxattr(path, "user.mine", b"1")])
@pytest.mark.parametrize("step", ["put", "remove"])
def test_a_directory_that_the_user_changed_between_plan_and_operation_stays(
    world: World, action: Callable[[Path], None], step: str
) -> None:
    place(world.real, {"x": SORTS[DIRECTORY], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    calls: list[str] = []

    def act(call: str, _words: tuple[object, ...]) -> None:
        calls.append(call)
        if call == "move" and "move" not in calls[:-1]:
            action(world.real / "x")

    with faults.with_hook(act):
        done = world.apply(*((world.put("y"), getattr(world, step)("x"))))

    assert (world.real / "x").is_dir()
    assert (list(done.stopped), done.taken) == ([key("x")], [key("y")])


@pytest.mark.parametrize("step", ["put", "remove"])
def test_a_directory_renamed_after_it_was_opened_is_not_changed(world: World, step: str) -> None:
    place(world.real, {"d": SORTS[DIRECTORY], "d/x": OTHERS[FILE]})
    place(world.upper, {"d": SORTS[DIRECTORY], "d/x": SORTS[FILE]})
    made = getattr(world, step)("d/x")
    calls: list[str] = []

    def act(call: str, _words: tuple[object, ...]) -> None:
        calls.append(call)
        if calls == [call]:
            (world.real / "d").rename(world.real / "mine")

    with faults.with_hook(act):
        done = world.apply(made)

    assert tree_of(world.real)[b"mine/x"] == OTHERS[FILE]
    assert list(done.stopped) == [key("d/x")]


@pytest.mark.parametrize("step", ["put", "remove"])
def test_an_entry_removed_by_the_user_stays_removed(world: World, step: str) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    made = getattr(world, step)("x")
    (world.real / "x").unlink()
    done = world.apply(made)

    assert tree_of(world.real) == {}
    assert list(done.stopped) == [key("x")]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("step", ["put", "remove"])
def test_changes_of_the_user_in_the_last_instant_stay(
    world: World, monkeypatch: pytest.MonkeyPatch, action: Callable[[Path], None], step: str
) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    made = getattr(world, step)("x")
    LastInstant(monkeypatch, b"x").before.append(lambda: action(world.real / "x"))
    done = world.apply(made)
    after = tree_of(world.real)[b"x"]

    assert after.type is DIRECTORY or after.content == b"the user's"
    assert list(done.stopped) == [key("x")]
    assert done.kept == {}


def test_a_new_file_of_the_last_instant_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    LastInstant(monkeypatch, b"x").before.append(lambda: (world.real / "x").write_bytes(b"the user's"))
    done = world.apply(world.add("x"))

    assert (world.real / "x").read_bytes() == b"the user's"
    assert list(done.stopped) == [key("x")]


def all_bytes(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_the_later_of_two_saves_around_an_exchange_stays_and_both_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_two_saves_around_a_removal_are_both_kept_and_the_next_one_works(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    steps = (world.remove("x"), world.remove("y"))
    instant = LastInstant(monkeypatch, b"x")
    instant.before.append(lambda: (world.real / "x").write_bytes(b"first save"))
    instant.after.append(lambda: (world.real / "x").write_bytes(b"second save"))
    done = world.apply(*steps)

    assert (world.real / "x").read_bytes() == b"second save"
    assert b"first save" in all_bytes(world.merge)
    assert (list(done.stopped), done.taken) == ([key("x")], [key("y")])


def test_a_kept_version_of_the_user_does_not_become_the_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = {b"x": OTHERS[FILE], b"y": OTHERS[FILE], b"z": OTHERS[FILE]}
    with EndedSession(tmp_path, base, trees.upper_of(base, dict.fromkeys(base, SORTS[FILE]))) as one:
        instant = LastInstant(monkeypatch, b"x")
        instant.before.append(lambda: (one.real / "x").write_bytes(b"first save"))
        instant.after.append(
            lambda: ((one.real / "saving").write_bytes(b"second save"), (one.real / "saving").rename(one.real / "x"))
        )
        done = one.merge(b"x", b"y")
        assert Path(done.conflicts[0].reason.rpartition(" kept as ")[2]).read_bytes() == b"first save"
        assert (one.real / "x").read_bytes() == b"second save"
        assert not (one.upper / "x").exists()


def into_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "in").write_bytes(b"first save")


@pytest.mark.parametrize("action", [lambda path: path.write_bytes(b"first save"), into_a_directory])
@pytest.mark.parametrize("step", ["put", "remove"])
def test_a_version_kept_in_a_stage_next_to_the_tree_stays_there(
    world: World, monkeypatch: pytest.MonkeyPatch, action: Callable[[Path], None], step: str
) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    world.places = (f"{world.folder}/other",)
    instant = LastInstant(monkeypatch, b"x")
    instant.before.append(lambda: action(world.real / "x"))
    instant.after.append(
        lambda: ((world.real / "saving").write_bytes(b"second save"), (world.real / "saving").replace(world.real / "x"))
    )
    done = world.apply(getattr(world, step)("x"), world.put("y"))
    kept = Path(done.stopped[key("x")].rpartition(" kept as ")[2])

    assert (world.real / "x").read_bytes() == b"second save"
    assert (kept / "in" if kept.is_dir() else kept).read_bytes() == b"first save"


def test_an_emptied_directory_whose_mode_changed_during_the_merge_stays(tmp_path: Path) -> None:
    base = {b"d": Node(DIRECTORY, b"", 0o755), b"d/a": Node(FILE, b"a", 0o644)}

    def chmod_first(call: str, _words: tuple[object, ...]) -> None:
        if call == "move":
            (one.real / "d").chmod(0o750)

    with EndedSession(tmp_path, base, [UpperEntry(b"d", None)]) as one:
        with faults.with_hook(chmod_first):
            one.merge_all()
        assert trees.read(one.real) == {b"d": Node(DIRECTORY, b"", 0o750)}
        one.undo()
        assert trees.read(one.real) == base | {b"d": Node(DIRECTORY, b"", 0o750)}


@pytest.mark.parametrize("action", [lambda path: path.chmod(0o2750), lambda path: os.setxattr(path, "user.mine", b"1")])
@pytest.mark.parametrize("with_file", [True, False])
def test_metadata_of_a_directory_set_just_before_its_removal_stay(
    tmp_path: Path, action: Callable[[Path], None], *, with_file: bool
) -> None:
    base: trees.Tree = {b"d": Node(DIRECTORY, b"", 0o755)} | ({b"d/a": Node(FILE, b"a", 0o644)} if with_file else {})

    def act(call: str, _words: tuple[object, ...]) -> None:
        if call == "rmdir" and not wanted:
            action(one.real / "d")
            wanted.update(owner_view.entries_below(one.real))

    wanted: owner_view.TreeEntries = {}
    with EndedSession(tmp_path, base | {b"b": OTHERS[FILE]}, [UpperEntry(b"d", None), UpperEntry(b"b", None)]) as one:
        with faults.with_hook(act):
            done = one.merge_all()
        assert owner_view.entries_below(one.real) == wanted
        assert with_file or [(left.key.path, left.reason) for left in done.conflicts] == [
            (b"d", "its mode, attributes or ACL were changed concurrently")
        ]
        one.undo()
        assert owner_view.entries_below(one.real)[b"d"] == wanted[b"d"]
