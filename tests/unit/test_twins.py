"""Names that a disk may take for one."""

import pytest

from agent_dev.overlay.case_collisions import among, refused
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind

FILE = Entry(FileType.FILE)


@pytest.mark.parametrize(
    ("paths", "twins"),
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
def test_twins_are_names_that_differ_in_case_or_form(paths: list[bytes], twins: set[tuple[bytes, ...]]) -> None:
    assert set(among(paths).values()) == twins


@pytest.mark.parametrize(
    ("kind", "path", "is_refused"),
    [
        (Kind.ADDED, b"Lib", True),
        (Kind.ADDED, b"Lib/deep/x", True),
        (Kind.DELETED, b"lib/x", True),
        (Kind.RETYPED, b"lib", True),
        (Kind.EDITED, b"lib/x", False),
        (Kind.METADATA, b"lib", False),
        (Kind.ADDED, b"Library", False),
    ],
)
def test_what_would_come_or_go_under_one_of_them_is_refused(kind: Kind, path: bytes, *, is_refused: bool) -> None:
    change = Change(Key(0, path), kind, None if kind is Kind.ADDED else FILE, None if kind is Kind.DELETED else FILE)

    made = refused(change, {"lib": (b"Lib", b"lib")})

    assert (made.obstacle is not None) == is_refused
    assert made.obstacle is None or ("Lib" in made.obstacle and "lib" in made.obstacle)


def test_their_names_are_made_visible() -> None:
    change = Change(Key(0, b"A\x1b[2J"), Kind.ADDED, None, FILE)

    assert "\x1b" not in (refused(change, among([b"A\x1b[2J", b"a\x1b[2j"])).obstacle or "")
