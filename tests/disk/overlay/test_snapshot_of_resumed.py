"""The lower snapshot of a resumed session, and of one with a partial merge."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.overlay import lower_snapshot
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.overlay.lower_snapshot_request import PriorChanges
from tests.disk.overlay.snapshot_world import taken
from tests.harness import trees


def test_files_changed_earlier_by_the_agent_keep_their_older_base_version(root: Path) -> None:
    old = taken(root).entries(0)
    for name in ("a.txt", "sub/b.txt"):
        (root / name).write_bytes(b"the user's\n")
    touched = PriorChanges(paths=frozenset((b"sub",)), hiding=(b"sub",))
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


def test_a_new_lower_snapshot_overrides_updates_of_a_merge(root: Path) -> None:
    taken(root)
    lower_snapshot.record_merge(LowerSnapshot(str(root.parent / "base")), "1", 0, [(b"a.txt", None)])
    one = taken(root, touched=(PriorChanges(),))

    assert b"a.txt" in one.entries(0)


def test_updates_of_a_merge_stay_where_the_agent_hides_the_path(root: Path) -> None:
    taken(root)
    lower_snapshot.record_merge(LowerSnapshot(str(root.parent / "base")), "1", 0, [(b"sub/b.txt", None)])
    one = taken(root, touched=(PriorChanges(hiding=(b"sub",), paths=frozenset((b"sub",))),))

    assert b"sub/b.txt" not in one.entries(0)
