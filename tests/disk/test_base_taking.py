"""How a base is taken: within its bounds, of odd trees, in a process of its own."""

import os
from functools import partial
from pathlib import Path

import pytest

from agent_dev.git import private_copy as private_git
from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.overlay import lower_snapshot_walk as base_walk
from agent_dev.overlay.changes import FileType
from agent_dev.overlay.lower_snapshot import Base
from tests.disk.base_world import old_repository, stored, taken, wish_of
from tests.harness.repository import repository
from tests.harness.users import as_ordinary, open_place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return old_repository(tmp_path / "root")


# --- bounds ---


def test_a_base_that_reached_its_bound_of_time_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_walk, "MANY_SECONDS", -1.0)

    assert not taken(root).is_complete


def test_a_base_that_reached_its_bound_of_paths_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_walk, "Budget", partial(base_walk.Budget, paths=2))
    one = taken(root)

    assert (one.is_complete, len(one.entries(0))) == (False, 2)


def test_a_base_within_its_bounds_is_complete(root: Path) -> None:
    assert taken(root).is_complete


def test_a_file_past_the_bound_has_its_identity_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_walk, "LARGE_FILE", 3)
    (root / "big").write_bytes(b"1234")
    (root / "small").write_bytes(b"123")
    one = taken(root)

    assert (stored(one, "big"), stored(one, "small")) == (None, b"123")
    assert one.entries(0)[b"big"].size == 4


def test_past_the_bound_of_bytes_nothing_more_is_stored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_walk, "Budget", partial(base_walk.Budget, content=10))
    for number in range(5):
        (root / f"n{number}").write_bytes(b"1234")
    one = taken(root)

    assert sum(stored(one, f"n{number}") is not None for number in range(5)) == 2


# --- odd trees ---


def test_what_cannot_be_read_has_its_identity_only() -> None:
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

    with open_place() as place:
        as_ordinary(act)


def test_a_fifo_and_a_link_to_one_hang_nothing(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("pipe")
    one = taken(root)

    assert one.entries(0)[b"pipe"].type is FileType.FIFO
    assert stored(one, "link") is None


def test_a_file_that_went_meanwhile_stops_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "fleeting").write_bytes(b"x")
    (root / "z").write_bytes(b"z")
    copy = private_git.copy_file

    def vanish(source: str, target: str) -> None:
        (root / "fleeting").unlink(missing_ok=True)
        copy(source, target)

    monkeypatch.setattr(base_walk, "copy_file", vanish)
    one = taken(root)

    assert stored(one, "z") == b"z"


def test_bytes_that_came_after_the_identity_was_taken_are_not_stored_as_its_bytes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "new").write_bytes(b"before")
    copy = private_git.copy_file

    def save_first(source: str, target: str) -> None:
        if source.endswith("/new"):
            (root / "new").write_bytes(b"after!")
        copy(source, target)

    monkeypatch.setattr(base_walk, "copy_file", save_first)

    assert stored(taken(root), "new") is None


# --- in a process of its own ---


def test_a_base_is_taken_by_a_process_of_its_own(root: Path) -> None:
    folder = root.parent / "base"
    base_take.wait_for(base_take.begin(str(folder), wish_of(root)))

    assert Base(str(folder)).is_known()


def test_a_base_that_cannot_be_taken_leaves_its_reason_and_nothing_known(root: Path) -> None:
    folder = root.parent / "base"
    folder.mkdir()
    base_take.wait_for(base_take.begin(str(folder), wish_of(root, roots=(str(root / "gone"),), git="")))

    assert not Base(str(folder)).is_known()
    assert "gone" in (folder / "problem").read_text()


def test_a_base_that_was_cancelled_is_not_known(root: Path) -> None:
    folder = root.parent / "base"
    base_take.cancel(base_take.begin(str(folder), wish_of(root)))

    assert not (folder / "manifest").exists() or Base(str(folder)).is_known()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"version": 2, "complete": true, "roots": []}'])
def test_a_manifest_that_cannot_be_read_is_no_base(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "manifest").write_bytes(data)

    assert not Base(str(tmp_path)).is_known()
