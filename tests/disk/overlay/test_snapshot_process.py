"""Taking a lower snapshot: within its bounds, of unusual trees, in a separate process."""

import os
from functools import partial
from pathlib import Path

import pytest

from agent_dev.fs.entry import FileType
from agent_dev.git import private_copy
from agent_dev.overlay import lower_snapshot_process, lower_snapshot_walk
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from tests.disk.overlay.snapshot_world import request_of, stored, taken
from tests.harness.repository import repository
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory

# --- bounds ---


def test_a_lower_snapshot_at_its_time_bound_is_marked_incomplete(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_snapshot_walk, "MAX_SECONDS", -1.0)

    assert not taken(root).is_complete


def test_a_lower_snapshot_at_its_path_bound_is_marked_incomplete(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_snapshot_walk, "Budget", partial(lower_snapshot_walk.Budget, paths=2))
    one = taken(root)

    assert (one.is_complete, len(one.entries(0))) == (False, 2)


def test_a_lower_snapshot_within_its_bounds_is_complete(root: Path) -> None:
    assert taken(root).is_complete


def test_a_file_past_the_bound_has_only_its_identity(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_snapshot_walk, "MAX_STORED_FILE", 3)
    (root / "big").write_bytes(b"1234")
    (root / "small").write_bytes(b"123")
    one = taken(root)

    assert (stored(one, "big"), stored(one, "small")) == (None, b"123")
    assert one.entries(0)[b"big"].size == 4


def test_past_the_byte_bound_nothing_more_is_stored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_snapshot_walk, "Budget", partial(lower_snapshot_walk.Budget, content_bytes=10))
    for number in range(5):
        (root / f"n{number}").write_bytes(b"1234")
    one = taken(root)

    assert sum(stored(one, f"n{number}") is not None for number in range(5)) == 2


# --- unusual trees ---


def test_an_unreadable_file_has_only_its_identity() -> None:
    def act() -> None:
        root = repository(place / "root")
        (root / "secret").write_bytes(b"x")
        (root / "secret").chmod(0)
        (root / "closed").mkdir()
        (root / "closed/x").touch()
        (root / "closed").chmod(0)
        (root / "new").write_bytes(b"new")
        one = taken(root)

        assert {b"secret", b"closed", b"new", b"a.txt"} <= set(one.entries(0))
        assert (stored(one, "secret"), stored(one, "new")) == (None, b"new")

    with ordinary_users_directory() as place:
        call_as_ordinary_user(act)


def test_a_fifo_or_a_symlink_to_one_does_not_hang(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("pipe")
    one = taken(root)

    assert one.entries(0)[b"pipe"].type is FileType.FIFO
    assert stored(one, "link") is None


def test_a_file_deleted_during_the_snapshot_stops_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "fleeting").write_bytes(b"x")
    (root / "z").write_bytes(b"z")
    copy = private_copy.copy_file

    def vanish(source: str, target: str) -> None:
        (root / "fleeting").unlink(missing_ok=True)
        copy(source, target)

    monkeypatch.setattr(lower_snapshot_walk, "copy_file", vanish)
    one = taken(root)

    assert stored(one, "z") == b"z"


def test_bytes_written_after_the_identity_was_taken_are_not_stored_for_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "new").write_bytes(b"before")
    copy = private_copy.copy_file

    def save_first(source: str, target: str) -> None:
        if source.endswith("/new"):
            (root / "new").write_bytes(b"after!")
        copy(source, target)

    monkeypatch.setattr(lower_snapshot_walk, "copy_file", save_first)

    assert stored(taken(root), "new") is None


# --- a separate process ---


def test_a_lower_snapshot_is_taken_by_a_separate_process(root: Path) -> None:
    folder = root.parent / "base"
    lower_snapshot_process.wait_for(lower_snapshot_process.start(str(folder), request_of(root)))

    assert LowerSnapshot(str(folder)).exists()


def test_a_failed_lower_snapshot_leaves_its_reason_and_no_data(root: Path) -> None:
    folder = root.parent / "base"
    folder.mkdir()
    lower_snapshot_process.wait_for(
        lower_snapshot_process.start(str(folder), request_of(root, roots=(str(root / "gone"),), git=""))
    )

    assert not LowerSnapshot(str(folder)).exists()
    assert "gone" in (folder / "problem").read_text()


def test_a_cancelled_lower_snapshot_is_not_used(root: Path) -> None:
    folder = root.parent / "base"
    lower_snapshot_process.cancel(lower_snapshot_process.start(str(folder), request_of(root)))

    assert not (folder / "manifest").exists() or LowerSnapshot(str(folder)).exists()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"version": 2, "complete": true, "roots": []}'])
def test_an_unreadable_manifest_gives_no_lower_snapshot(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "manifest").write_bytes(data)

    assert not LowerSnapshot(str(tmp_path)).exists()
