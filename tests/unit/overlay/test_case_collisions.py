"""Names that a file system may treat as equal (case collisions)."""

import pytest

from agent_dev.fs.case_folding import possible_collisions
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.case_collisions import with_collision_obstacle
from agent_dev.overlay.changes import Change, ChangeKind

FILE = Entry(FileType.FILE)


@pytest.mark.parametrize(
    ("paths", "collisions"),
    [
        ([], set()),
        ([b"a", b"b", b"a/b"], set()),
        ([b"a", b"A"], {(b"a", b"A")}),
        ([b"a", b"B", b"A", b"b"], {(b"a", b"A"), (b"B", b"b")}),
        ([b"Lib", b"Lib/a", b"lib", b"lib/b"], {(b"Lib", b"lib")}),
        (["é".encode(), "É".encode(), "e\u0301".encode()], {("é".encode(), "É".encode(), "e\u0301".encode())}),
        ([b"\xff", b"\xfe"], set()),
    ],
)
def test_case_collisions_are_names_that_differ_in_case_or_normal_form(
    paths: list[bytes], collisions: set[tuple[bytes, ...]]
) -> None:
    assert set(possible_collisions(paths).values()) == collisions


@pytest.mark.parametrize(
    ("kind", "path", "is_refused"),
    [
        (ChangeKind.ADDED, b"Lib", True),
        (ChangeKind.ADDED, b"Lib/deep/x", True),
        (ChangeKind.DELETED, b"lib/x", True),
        (ChangeKind.RETYPED, b"lib", True),
        (ChangeKind.EDITED, b"lib/x", False),
        (ChangeKind.METADATA, b"lib", False),
        (ChangeKind.ADDED, b"Library", False),
    ],
)
def test_adding_or_removing_a_colliding_name_is_refused(kind: ChangeKind, path: bytes, *, is_refused: bool) -> None:
    change = Change(Key(0, path), kind, None if kind is ChangeKind.ADDED else FILE, None if kind is ChangeKind.DELETED else FILE)

    made = with_collision_obstacle(change, {"lib": (b"Lib", b"lib")})

    assert (made.obstacle is not None) == is_refused
    assert made.obstacle is None or ("Lib" in made.obstacle and "lib" in made.obstacle)


def test_colliding_names_are_escaped() -> None:
    change = Change(Key(0, b"A\x1b[2J"), ChangeKind.ADDED, None, FILE)

    assert "\x1b" not in (with_collision_obstacle(change, possible_collisions([b"A\x1b[2J", b"a\x1b[2j"])).obstacle or "")
