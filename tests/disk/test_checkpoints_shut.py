"""What its owner shut (`chmod 000`) is in a checkpoint as all else is: a rollback neither loses it nor stops at it."""

import os
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import rollback
from tests.harness.checkpointed import World
from tests.harness.users import as_ordinary, open_place

MODES = (0o000, 0o200, 0o400, 0o500)


def shut(upper: Path, mode: int) -> None:
    """Make a file and a directory in a directory, each of that mode, and the one around them too."""
    (upper / "out/in").mkdir(parents=True)
    (upper / "out/in/file").write_text("precious")
    os.setxattr(upper / "out/in", "user.note", b"one")
    os.setxattr(upper / "out/in/file", "user.note", b"two")
    for name in ("out/in/file", "out/in", "out"):
        (upper / name).chmod(mode)


def seen(upper: Path) -> list[object]:
    """What `shut` made, its modes first; they are opened for the rest, and shut again."""
    modes = []
    for name in ("out", "out/in", "out/in/file"):
        modes.append((upper / name).stat().st_mode & 0o7777)
        (upper / name).chmod(0o700)
    notes = [os.getxattr(upper / name, "user.note") for name in ("out/in", "out/in/file")]
    found = [modes, notes, (upper / "out/in/file").read_text()]
    for name, mode in zip(("out/in/file", "out/in", "out"), reversed(modes), strict=True):
        (upper / name).chmod(mode)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_what_is_shut_comes_back_as_it_was(mode: int) -> None:
    with open_place() as place:

        def act() -> None:
            world = World(place / "session")
            (world.upper / "kept").write_text("kept")
            first = world.take()
            shut(world.upper, mode)
            before = seen(world.upper)
            away = rollback.roll_back(world.listed, first)
            assert (away.problems, os.listdir(world.upper)) == ((), ["kept"])
            back = rollback.roll_back(world.listed, away.before)
            assert (back.problems, seen(world.upper)) == ((), before)

        as_ordinary(act)


@pytest.mark.parametrize("mode", MODES)
def test_a_checkpoint_leaves_shut_what_was_shut_and_a_second_finds_nothing_new(mode: int) -> None:
    with open_place() as place:

        def act() -> None:
            world = World(place / "session")
            shut(world.upper, mode)
            taken = [checkpoints.take(world.session, world.record, "manual") for _ in range(2)]
            assert [(one.number, one.problems) for one in taken] == [(1, ()), (1, ())]
            assert seen(world.upper)[0] == [mode] * 3

        as_ordinary(act)


def test_what_is_in_a_root_that_is_shut_comes_back_too() -> None:
    with open_place() as place:

        def act() -> None:
            world = World(place / "session")
            (world.upper / "file").write_text("one")
            world.upper.chmod(0)
            first = world.take()
            world.upper.chmod(0o755)
            (world.upper / "file").write_text("two")
            assert rollback.roll_back(world.listed, first).problems == ()
            world.upper.chmod(0o755)
            assert (world.upper / "file").read_text() == "one"

        as_ordinary(act)
