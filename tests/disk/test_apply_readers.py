"""What a reader of the real tree sees while a merge goes on: nothing absent, nothing by halves, no name of ours."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_dev.overlay.changes import FileType
from tests.disk.apply_world import OTHERS, SORTS, World, place, world_below
from tests.harness.reader import Watcher
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node

if TYPE_CHECKING:
    from agent_dev.merge_engine.merge_plan import Step


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_below(tmp_path) as made:
        yield made


@pytest.mark.parametrize("before", [FILE, SYMLINK, DIRECTORY])
@pytest.mark.parametrize("after", [FILE, SYMLINK, DIRECTORY])
def test_a_replaced_path_is_never_absent(world: World, before: FileType, after: FileType) -> None:
    names = [f"x{number}" for number in range(40)]
    place(world.real, dict.fromkeys(names, OTHERS[before]))
    place(world.upper, dict.fromkeys(names, SORTS[after]))
    steps = [world.put(name) for name in names]
    watched = names[20:24]
    watcher = Watcher(lambda: {name for name in watched if not os.path.lexists(world.real / name)})
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

    watcher = Watcher(look)
    with watcher:
        world.apply(*steps)

    assert watcher.seen <= {f"4096 {[ord('a')]}", f"4096 {[ord('b')]}"}


def test_no_name_is_ever_seen_but_what_was_and_what_comes(world: World) -> None:
    names = [f"x{number}" for number in range(60)]
    place(world.real, dict.fromkeys(names, OTHERS[FILE]))
    place(world.upper, dict.fromkeys([*names, "new"], SORTS[FILE]))
    steps: list[Step] = [
        *(world.put(name) for name in names[:40]),
        *(world.remove(name) for name in names[40:]),
        world.add("new"),
    ]
    watcher = Watcher(lambda: set(os.listdir(world.real)))
    with watcher:
        world.apply(*steps)

    assert watcher.seen <= {*names, "new"}
