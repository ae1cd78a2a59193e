"""Names that collide on a case-insensitive disk are refused with a list of these names, and nothing is changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import trees
from tests.harness.disks import case_insensitive_disk
from tests.harness.ended_session import EndedSession
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

FOLDER = Node(DIRECTORY, b"", 0o755)
ONE, TWO, YOURS = Node(FILE, b"one"), Node(FILE, b"two"), Node(FILE, b"mine")
KEPT = {b"kept": Node(FILE, b"kept")}
PLANS: dict[str, tuple[Tree, Tree, set[bytes]]] = {
    "two new files": (KEPT, KEPT | {b"Readme": ONE, b"README": TWO}, {b"Readme", b"README"}),
    "two new files of other scripts": (
        KEPT,
        KEPT | {"Straße".encode(): ONE, "straße".encode(): TWO},
        {"Straße".encode(), "straße".encode()},
    ),
    "two new files, and nothing is there": ({}, {b"a": ONE, b"A": TWO}, {b"a", b"A"}),
    "one new, where another is": ({b"readme": YOURS}, {b"readme": YOURS, b"README": TWO}, {b"README"}),
    "the case of a name": ({b"readme": YOURS}, {b"README": YOURS}, {b"readme", b"README"}),
    "the case of a name, and the content": ({b"readme": YOURS}, {b"Readme": TWO}, {b"readme", b"Readme"}),
    "two new folders": (
        {},
        {b"Lib": FOLDER, b"Lib/a": ONE, b"lib": FOLDER, b"lib/b": TWO},
        {b"Lib/a", b"lib/b"},
    ),
    "nothing that collides": (
        {b"readme": YOURS, b"lib": FOLDER, b"lib/m": YOURS, b"gone": ONE},
        {b"readme": TWO, b"lib": FOLDER, b"lib/m": YOURS, b"lib/M2": ONE, b"Libs": FOLDER, b"Libs/a": TWO},
        set(),
    ),
    "a new folder, where another is": (
        {b"lib": FOLDER, b"lib/m": YOURS},
        {b"lib": FOLDER, b"lib/m": YOURS, b"Lib": FOLDER, b"Lib/a": ONE},
        {b"Lib/a"},
    ),
}


@contextmanager
def ended(plan: str, state: Path) -> Iterator[EndedSession]:
    """Yield a session of a root on a case-insensitive disk; the state directory is on another disk."""
    before, after, _ = PLANS[plan]
    if reason := case_insensitive_disk.missing_requirement():
        pytest.skip(reason)
    with (
        case_insensitive_disk.case_insensitive_directory() as disk,
        EndedSession(disk, before, trees.upper_of(before, after), state / "state") as session,
    ):
        yield session


@pytest.mark.only_root
@pytest.mark.parametrize("plan", [plan for plan in PLANS if PLANS[plan][2]])
def test_case_collisions_are_refused_and_stay_in_the_session(plan: str, tmp_path: Path) -> None:
    before, _, colliding = PLANS[plan]
    with ended(plan, tmp_path) as session:
        assert session.conflicts().keys() == colliding
        assert all("the same name on this disk" in why for why in session.conflicts().values())

        done = session.merge_all()

        assert {one.key.path for one in done.skipped} == colliding
        assert trees.read(session.real) == before
        assert session.conflicts().keys() == colliding


@pytest.mark.only_root
def test_everything_else_is_applied_and_undone(tmp_path: Path) -> None:
    before, after, _ = PLANS["nothing that collides"]
    with ended("nothing that collides", tmp_path) as session:
        assert session.merge_all().skipped == ()
        assert trees.read(session.real) == after
        session.undo()
        assert trees.read(session.real) == before
        session.redo()
        assert trees.read(session.real) == after


@pytest.mark.parametrize("plan", PLANS)
def test_a_case_sensitive_disk_gets_both_names(plan: str, tmp_path: Path) -> None:
    before, after, _ = PLANS[plan]
    with EndedSession(tmp_path, before, trees.upper_of(before, after)) as session:
        assert session.merge_all().skipped == ()
        assert trees.read(session.real) == after
