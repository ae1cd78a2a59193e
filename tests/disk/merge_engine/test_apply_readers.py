"""During a merge, readers of the real tree see no missing path, no partial file, and no temporary name of agent-dev."""

import os
from typing import TYPE_CHECKING

import pytest

from agent_dev.fs.entry import FileType
from tests.disk.merge_engine.apply_world import OTHERS, SORTS, World, place
from tests.harness.git.observer import Observer
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node

if TYPE_CHECKING:
    from agent_dev.merge_engine.merge_plan import Step


@pytest.mark.parametrize("before", [FILE, SYMLINK, DIRECTORY])
@pytest.mark.parametrize("after", [FILE, SYMLINK, DIRECTORY])
def test_a_replaced_path_is_never_absent(world: World, before: FileType, after: FileType) -> None:
    names = [f"x{number}" for number in range(40)]
    place(world.real, dict.fromkeys(names, OTHERS[before]))
    place(world.upper, dict.fromkeys(names, SORTS[after]))
    steps = [world.put(name) for name in names]
    watched = names[20:24]
    watcher = Observer(lambda: {name for name in watched if not os.path.lexists(world.real / name)})
    with watcher:
        done = world.apply(*steps)

    assert (watcher.seen, done.stopped) == (set(), {})


def test_a_replaced_file_is_always_whole(world: World) -> None:
    names = [f"x{number}" for number in range(20)]
    place(world.real, dict.fromkeys(names, Node(FILE, b"a" * 4096)))
    place(world.upper, dict.fromkeys(names, Node(FILE, b"b" * 4096)))
    steps = [world.put(name) for name in names]

    def look() -> set[str]:
        data = (world.real / "x10").read_bytes()
        return {f"{len(data)} {sorted(set(data))}"}

    watcher = Observer(look)
    with watcher:
        world.apply(*steps)

    assert watcher.seen <= {f"4096 {[ord('a')]}", f"4096 {[ord('b')]}"}


def test_a_name_only_ever_shows_the_old_or_new_entry(world: World) -> None:
    names = [f"x{number}" for number in range(60)]
    place(world.real, dict.fromkeys(names, OTHERS[FILE]))
    place(world.upper, dict.fromkeys([*names, "new"], SORTS[FILE]))
    steps: list[Step] = [
        *(world.put(name) for name in names[:40]),
        *(world.remove(name) for name in names[40:]),
        world.add("new"),
    ]
    watcher = Observer(lambda: set(os.listdir(world.real)))
    with watcher:
        world.apply(*steps)

    assert watcher.seen <= {*names, "new"}
