"""The real tree now, compared with the base version: the table of conflicts."""

import pytest

from agent_dev.fs.entry import Entry
from agent_dev.overlay.changes import Change
from agent_dev.overlay.interpret import ComparedEntries, conflict_reason
from tests.unit.overlay.overlay_entries import DIR, FILE, SYMLINK, change

WAS = Entry(FILE, 0o644, size=3, inode=5, mtime=7, ctime=9)
FOLDER = Entry(DIR, 0o755, inode=6, mtime=1, ctime=2)
NEW = Entry(FILE, 0o644, size=4, inode=50)


def judged(one: Change, now: Entry | None, folder: Entry | None = FOLDER, was_folder: Entry | None = FOLDER) -> str | None:
    base = {} if was_folder is None else {b"d": was_folder}
    return conflict_reason(one, ComparedEntries(base, {b"d": folder, b"d/x": now}))


CONFLICTS: list[tuple[str, Change, Entry | None, str | None]] = [
    ("an addition where nothing is", change(None, NEW), None, None),
    ("an addition where something came", change(None, NEW), WAS, "something was created there since the session started"),
    ("an edit of the untouched", change(WAS, NEW), WAS, None),
    ("an edit of what is gone", change(WAS, NEW), None, "it was removed since the session started"),
    ("a deletion of the untouched", change(WAS, None), WAS, None),
    ("a deletion of what is gone", change(WAS, None), None, "it was removed since the session started"),
    ("another inode", change(WAS, NEW), WAS.with_values(inode=8), "it was changed since the session started"),
    ("another size", change(WAS, NEW), WAS.with_values(size=8), "it was changed since the session started"),
    ("another mtime", change(WAS, NEW), WAS.with_values(mtime=8), "it was changed since the session started"),
    ("another ctime", change(WAS, NEW), WAS.with_values(ctime=10), "it was changed since the session started"),
    ("another type", change(WAS, NEW), WAS.with_values(type=SYMLINK), "it was changed since the session started"),
    ("a file became a directory", change(WAS, NEW), FOLDER, "it was changed since the session started"),
    ("a directory became a file", change(FOLDER, None), WAS, "it was changed since the session started"),
    ("a directory whose entries changed", change(FOLDER, None), FOLDER.with_values(mtime=99, ctime=99), None),
    (
        "a directory whose mode changed",
        change(FOLDER, FOLDER),
        FOLDER.with_values(mode=0o700),
        "its mode was changed since the session started",
    ),
]


@pytest.mark.parametrize(("name", "one", "now", "why"), CONFLICTS, ids=[row[0] for row in CONFLICTS])
def test_conflicts_match_the_table(name: str, one: Change, now: Entry | None, why: str | None) -> None:
    assert judged(one, now) == why


PARENTS: list[tuple[str, Entry | None, Entry | None, str | None]] = [
    ("as it was", FOLDER, FOLDER, None),
    ("new, not there", None, None, None),
    ("new, there already", None, FOLDER, None),
    ("removed", FOLDER, None, "d was removed since the session started"),
    ("became a file", FOLDER, WAS, "d is not a directory any more"),
    ("became a link", FOLDER, WAS.with_values(type=SYMLINK), "d is not a directory any more"),
    ("new, a file came", None, WAS, "d is not a directory any more"),
    ("was a file, is that file", WAS, WAS, None),
    ("was a file, is another", WAS, WAS.with_values(inode=8), "d is not a directory any more"),
]


@pytest.mark.parametrize(("name", "was", "now", "why"), PARENTS, ids=[row[0] for row in PARENTS])
def test_a_change_of_a_parent_directory_can_be_the_conflict(
    name: str, was: Entry | None, now: Entry | None, why: str | None
) -> None:
    assert judged(change(None, NEW), None, now, was) == why


def test_a_change_without_a_base_version_is_a_conflict() -> None:
    ground = ComparedEntries({b"d": FOLDER}, {b"d": FOLDER, b"d/x": WAS}, frozenset((b"d/x",)))

    assert conflict_reason(change(WAS, NEW), ground) == "it changed since the session started, and its base version is unknown"
