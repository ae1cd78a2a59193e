"""The lower snapshot of a resumed session, and of one with a partial merge."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.fs import checksummed_json
from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay import lower_snapshot, raw_json, rows_before_merge
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.overlay.lower_snapshot_request import PriorChanges
from tests.disk.overlay.snapshot_world import taken
from tests.harness import trees


def test_files_changed_earlier_by_the_agent_keep_their_older_base_version(root: Path) -> None:
    old = taken(root).entries(0)
    for name in ("a.txt", "sub/b.txt"):
        (root / name).write_bytes(b"the user's\n")
    touched = PriorChanges(paths=frozenset((b"sub",)), hiding=frozenset((b"sub",)))
    one = taken(root, touched=(touched,))

    assert one.entries(0)[b"sub/b.txt"] == old[b"sub/b.txt"]
    assert one.entries(0)[b"a.txt"] != old[b"a.txt"]


MERGES: dict[str, Callable[[Path], object]] = {
    "an edit": lambda root: (root / "a.txt").write_bytes(b"merged\n"),
    "a removal": lambda root: (root / "a.txt").unlink(),
    "an addition": lambda root: (root / "new").write_bytes(b"new\n"),
}


@pytest.mark.parametrize("what", MERGES)
def test_a_lower_snapshot_is_updated_after_a_merge(root: Path, what: str) -> None:
    before = taken(root).entries(0)
    MERGES[what](root)
    path = "new" if what == "an addition" else "a.txt"
    now = trees.entry_on_disk(root / path)
    lower_snapshot.record_merge(LowerSnapshot(str(root.parent / "base")), "1", 0, [(os.fsencode(path), now)])
    after = LowerSnapshot(str(root.parent / "base")).entries(0)

    assert after.get(os.fsencode(path)) == now
    assert {name: entry for name, entry in after.items() if name != os.fsencode(path)} == {
        name: entry for name, entry in before.items() if name != os.fsencode(path)
    }


def test_each_merge_replaces_the_rows_of_earlier_ones_at_its_paths_alone(root: Path) -> None:
    taken(root)
    folder = str(root.parent / "base")
    merges: list[dict[bytes, Entry | None]] = [
        {b"a.txt": Entry(FileType.FILE, size=size), b"new": Entry(FileType.FILE, size=size)} for size in (1, 2)
    ]
    merges.append({b"a.txt": None, b"sub/b.txt": Entry(FileType.FILE, size=3)})
    for number, now in enumerate(merges):
        lower_snapshot.record_merge(LowerSnapshot(folder), str(number), 0, now.items())
    after = LowerSnapshot(folder).entries(0)
    assert {path: after.get(path) for path in (b"a.txt", b"new", b"sub/b.txt")} == {**merges[1], **merges[2]}
    restored = {b"a.txt": merges[1][b"a.txt"], b"sub/b.txt": None}
    lower_snapshot.record_undo(folder, "2", 0, restored, restored.__getitem__, frozenset())
    after = LowerSnapshot(folder).entries(0)
    assert {path: after.get(path) for path in (b"a.txt", b"new", b"sub/b.txt")} == {**merges[1], b"sub/b.txt": None}


def test_a_new_lower_snapshot_overrides_updates_of_a_merge(root: Path) -> None:
    taken(root)
    lower_snapshot.record_merge(LowerSnapshot(str(root.parent / "base")), "1", 0, [(b"a.txt", None)])
    one = taken(root, touched=(PriorChanges(),))

    assert b"a.txt" in one.entries(0)


def test_updates_of_a_merge_stay_where_the_agent_hides_the_path(root: Path) -> None:
    taken(root)
    lower_snapshot.record_merge(LowerSnapshot(str(root.parent / "base")), "1", 0, [(b"sub/b.txt", None)])
    one = taken(root, touched=(PriorChanges(hiding=frozenset((b"sub",)), paths=frozenset((b"sub",))),))

    assert b"sub/b.txt" not in one.entries(0)


def test_an_undo_restores_the_rows_that_a_merge_has_changed(root: Path) -> None:
    folder = str(root.parent / "base")
    (root.parent / "second").mkdir()
    before = dict(taken(root, roots=(str(root), str(root.parent / "second"))).entries(0).items())
    edited, removed = root / "a.txt", root / "sub/b.txt"
    edited.write_bytes(b"merged\n")
    removed.unlink()
    (root / "new").write_bytes(b"new\n")
    (root / "other").write_bytes(b"of another merge\n")
    now = [(path, trees.entry_on_disk(root / os.fsdecode(path))) for path in (b"a.txt", b"sub/b.txt", b"new")]
    lower_snapshot.record_merge(LowerSnapshot(folder), "1", 0, now)
    lower_snapshot.record_merge(LowerSnapshot(folder), "2", 0, [(b"other", trees.entry_on_disk(root / "other"))])
    lower_snapshot.record_merge(LowerSnapshot(folder), "3", 1, [(b"a.txt", None)])
    again = trees.entry_on_disk(root / "other")
    restored = {b"a.txt": again, b"sub/b.txt": again, b"new": None}
    lower_snapshot.record_undo(folder, "1", 0, restored, restored.__getitem__, frozenset())
    after = dict(LowerSnapshot(folder).entries(0).items())

    assert after.pop(b"other") == again
    assert {path for path, entry in after.items() if entry != before[path]} == {b"a.txt", b"sub/b.txt"}
    assert after.keys() == before.keys()
    assert all(after[path].inode == again.inode for path in (b"a.txt", b"sub/b.txt"))
    assert raw_json.loads((root.parent / "base/merged").read_bytes())["1"] == {"a.txt": raw_json.NULL}


def test_an_undo_without_rows_of_a_merge_records_the_entries(root: Path) -> None:
    folder = str(root.parent / "base")
    before = set(taken(root).entries(0))
    lower_snapshot.record_undo(folder, "1", 0, [b"sub/b.txt"], lambda _: None, frozenset((b"a.txt",)))
    assert before - set(LowerSnapshot(folder).entries(0)) == {b"sub/b.txt"}


@pytest.mark.parametrize("text", [b"{}", b'{"0":{"a.txt":null}', b'{"0":[]}', b'{"0":{"a.txt":null},'])
def test_merge_and_undo_keep_damaged_rows_of_merges(root: Path, text: bytes) -> None:
    """Without the file, the base would be wrong instead of unknown."""
    taken(root)
    path = root.parent / "base/merged"
    for damaged in (text, checksummed_json.add_checksum(text)):
        path.write_bytes(damaged)
        lower_snapshot.record_undo(str(path.parent), "1", 0, [b"sub/b.txt"], lambda _: None, frozenset())
        assert path.read_bytes() == damaged
        lower_snapshot.record_merge(LowerSnapshot(str(path.parent)), "1", 0, [(b"a.txt", None)])
        assert path.read_bytes() == damaged
        assert not [*rows_before_merge.stored_rows(str(path.parent), "1", 0)]


def test_rows_before_a_merge_are_stored_in_two_steps(tmp_path: Path) -> None:
    """A merge that continues after a crash stores the rows of the remaining paths."""
    folder = str(tmp_path)
    for root, rows, edited in (
        (0, {b"a": b"[1]", b"\xff": b"[2]"}, {b"a"}),
        (0, {b"\xff": b"[3]", b"b": b"null"}, {b"b"}),
        (1, {b"a": b"[4]"}, set[bytes]()),
    ):
        rows_before_merge.store_rows(folder, "s.1", root, list(rows), rows.__getitem__, edited)
    assert dict(rows_before_merge.stored_rows(folder, "s.1", 0)) == {"a": b"[1]", "\udcff": b"[3]", "b": raw_json.NULL}
    assert dict(rows_before_merge.stored_rows(folder, "s.1", 1)) == {"a": b"[4]"}
    assert rows_before_merge.edited(folder, 0, 0) == {"a": b"[1]", "b": raw_json.NULL}
    assert rows_before_merge.edited(folder, 1, 0) == {}


def test_a_reader_waits_for_the_snapshot_of_the_present_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = tmp_path / "manifest"
    manifest.write_bytes(b"older")
    os.utime(manifest, ns=(1000, 1000))
    monkeypatch.setattr("time.sleep", lambda _seconds: manifest.write_bytes(b"new"))
    lower_snapshot.wait_until_taken(str(tmp_path), 1000, 60)
    assert manifest.read_bytes() == b"older"
    lower_snapshot.wait_until_taken(str(tmp_path), 2000, 60)
    assert manifest.read_bytes() == b"new"
