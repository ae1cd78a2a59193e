"""Unreadable files and directories (`chmod 000`) are checkpointed and restored like all others."""

import os
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store, rollback
from tests.harness.checkpointed_session import CheckpointedSession
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory

MODES = (0o000, 0o200, 0o400, 0o500)


def unreadable(upper: Path, mode: int) -> None:
    """Create a file in nested directories, and set the mode of all three."""
    (upper / "out/in").mkdir(parents=True)
    (upper / "out/in/file").write_text("precious")
    os.setxattr(upper / "out/in", "user.note", b"one")
    os.setxattr(upper / "out/in/file", "user.note", b"two")
    for name in ("out/in/file", "out/in", "out"):
        (upper / name).chmod(mode)


def seen(upper: Path) -> list[object]:
    """Return the modes, attributes and content of the entries that `shut` created; their modes are restored afterwards."""
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
def test_unreadable_entries_are_restored_with_their_modes(mode: int) -> None:
    with ordinary_users_directory() as place:

        def act() -> None:
            world = CheckpointedSession(place / "session")
            (world.upper / "kept").write_text("kept")
            first = world.take_checkpoint()
            unreadable(world.upper, mode)
            before = seen(world.upper)
            away = rollback.roll_back_ended(world.listed, first)
            assert (away.problems, os.listdir(world.upper)) == ((), ["kept"])
            back = rollback.roll_back_ended(world.listed, away.previous)
            assert (back.problems, seen(world.upper)) == ((), before)

        call_as_ordinary_user(act)


@pytest.mark.parametrize("mode", MODES)
def test_a_checkpoint_keeps_unreadable_modes_and_a_second_finds_no_change(mode: int) -> None:
    with ordinary_users_directory() as place:

        def act() -> None:
            world = CheckpointedSession(place / "session")
            unreadable(world.upper, mode)
            taken = [checkpoint_store.take_checkpoint(world.session, world.record, "manual") for _ in range(2)]
            assert [(one.number, one.problems) for one in taken] == [(1, ()), (1, ())]
            assert seen(world.upper)[0] == [mode] * 3

        call_as_ordinary_user(act)


def test_entries_of_an_unreadable_root_are_restored_too() -> None:
    with ordinary_users_directory() as place:

        def act() -> None:
            world = CheckpointedSession(place / "session")
            (world.upper / "file").write_text("one")
            world.upper.chmod(0)
            first = world.take_checkpoint()
            world.upper.chmod(0o755)
            (world.upper / "file").write_text("two")
            assert rollback.roll_back_ended(world.listed, first).problems == ()
            world.upper.chmod(0o755)
            assert (world.upper / "file").read_text() == "one"

        call_as_ordinary_user(act)
