"""The checkpoint at the end of a run is taken while the review opens: nothing changes the session before it is complete."""

import os
from pathlib import Path

import pytest

from agent_dev.checkpoint.last_checkpoint import LastCheckpoint, may_run_during_review
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind


def pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_inheritable(end, True)
    return ends


def test_a_child_of_the_launcher_waits_for_the_checkpoint(tmp_path: Path) -> None:
    reader, writer = pipe()

    def take() -> str:
        os.read(reader, 1)  # until the screen is at work
        (tmp_path / "taken").touch()
        return ""

    checkpoint = LastCheckpoint(take)
    screen = os.fork()
    if screen == 0:
        os.write(writer, b"x")
        checkpoint.wait()
        os._exit(0 if (tmp_path / "taken").exists() else 1)
    assert os.waitpid(screen, 0)[1] == 0
    assert checkpoint.finish() == ""


@pytest.mark.parametrize("message", ["", "session x: no checkpoint: No space left on device"])
def test_the_launcher_gets_the_reason_of_a_failure(message: str) -> None:
    assert LastCheckpoint(lambda: message).finish() == message


@pytest.mark.parametrize(("is_awaited", "lowered"), [(False, 5), (True, 0)])
def test_only_a_checkpoint_behind_the_screen_has_a_lower_priority(*, is_awaited: bool, lowered: int) -> None:
    own = os.nice(0)
    priority = LastCheckpoint(lambda: str(os.nice(0)), is_awaited=is_awaited).finish()

    assert priority == str(min(own + lowered, 19))


def test_a_killed_checkpoint_is_reported() -> None:
    def take() -> str:
        os.kill(os.getpid(), 9)
        return ""

    checkpoint = LastCheckpoint(take)
    assert "killed" in checkpoint.finish()


@pytest.mark.parametrize("type_", [FileType.FILE, FileType.DIRECTORY])
def test_unreadable_entries_are_not_read_by_two_processes(type_: FileType) -> None:
    readable = Change(Key(0, b"a"), ChangeKind.ADDED, None, Entry(type_, 0o600))
    unreadable = Change(Key(0, b"b"), ChangeKind.ADDED, None, Entry(type_, 0o200))
    assert may_run_during_review([readable])
    assert not may_run_during_review([readable, unreadable])
