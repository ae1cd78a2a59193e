"""The base of a resumed session, and of one of which a part was merged."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.overlay import lower_snapshot as base
from agent_dev.overlay.lower_snapshot import Base
from agent_dev.overlay.lower_snapshot_take import Touched
from tests.disk.base_world import old_repository, taken
from tests.harness import trees


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return old_repository(tmp_path / "root")


def test_what_an_agent_had_changed_before_keeps_its_older_base(root: Path) -> None:
    old = taken(root).entries(0)
    for name in ("a.txt", "sub/b.txt"):
        (root / name).write_bytes(b"the user's\n")
    touched = Touched(paths=frozenset((b"sub",)), hiding=(b"sub",))
    one = taken(root, touched=(touched,))

    assert one.entries(0)[b"sub/b.txt"] == old[b"sub/b.txt"]
    assert one.entries(0)[b"a.txt"] != old[b"a.txt"]


MERGES: dict[str, Callable[[Path], object]] = {
    "an edit": lambda root: (root / "a.txt").write_bytes(b"merged\n"),
    "a removal": lambda root: (root / "a.txt").unlink(),
    "an addition": lambda root: (root / "new").write_bytes(b"new\n"),
}


@pytest.mark.parametrize("what", MERGES)
def test_a_base_learns_what_a_merge_made(root: Path, what: str) -> None:
    before = taken(root).entries(0)
    MERGES[what](root)
    path = "new" if what == "an addition" else "a.txt"
    now = trees.entry_on_disk(root / path)
    base.learn(str(root.parent / "base"), 0, {os.fsencode(path): now})
    after = Base(str(root.parent / "base")).entries(0)

    assert after.get(os.fsencode(path)) == now
    assert {name: entry for name, entry in after.items() if name != os.fsencode(path)} == {
        name: entry for name, entry in before.items() if name != os.fsencode(path)
    }


def test_a_base_that_is_taken_again_knows_better_than_what_it_learned(root: Path) -> None:
    taken(root)
    base.learn(str(root.parent / "base"), 0, {b"a.txt": None})
    one = taken(root, touched=(Touched(),))

    assert b"a.txt" in one.entries(0)


def test_what_was_learned_stays_where_the_agent_hides_it(root: Path) -> None:
    taken(root)
    base.learn(str(root.parent / "base"), 0, {b"sub/b.txt": None})
    one = taken(root, touched=(Touched(hiding=(b"sub",), paths=frozenset((b"sub",))),))

    assert b"sub/b.txt" not in one.entries(0)
