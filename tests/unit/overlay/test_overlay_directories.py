"""The changes of directories in an upper: hidden entries, changed types, and names of paths."""

import pytest

from agent_dev.fs.entry import FileType, Key, parents_of
from agent_dev.overlay.interpret import interpret
from tests.unit.overlay.overlay_entries import (
    ADDED,
    DELETED,
    DIR,
    EDITED,
    FIFO,
    FILE,
    OPAQUE,
    RETYPED,
    SYMLINK,
    WHITEOUT,
    entry_of,
    found,
    read,
)

# --- directories ---

DEEP = {
    b"d": entry_of(DIR),
    b"d/a": entry_of(FILE),
    b"d/e": entry_of(DIR),
    b"d/e/b": entry_of(FILE),
    b"d/none": entry_of(DIR),
    b"d-": entry_of(FILE),
    b"d0": entry_of(FILE),
}
ALL_OF_D = {b"d/a": DELETED, b"d/e/b": DELETED, b"d/none": DELETED}


def test_a_removed_directory_is_listed_by_files_and_empty_directories() -> None:
    assert read([found(b"d", WHITEOUT)], DEEP) == ALL_OF_D


def test_an_opaque_directory_deletes_the_entries_it_hides() -> None:
    assert read([found(b"d", OPAQUE)], DEEP) == ALL_OF_D


def test_an_opaque_directory_with_the_same_contents_is_no_change() -> None:
    upper = [found(b"d", OPAQUE), found(b"d/a", FILE), found(b"d/e", DIR), found(b"d/e/b", FILE), found(b"d/none", DIR)]

    assert read(upper, DEEP, frozenset((b"d/a", b"d/e/b"))) == {}


def test_an_opaque_directory_hides_at_any_depth() -> None:
    upper = [found(b"d", OPAQUE), found(b"d/e", DIR), found(b"d/e/new", FILE)]

    assert read(upper, DEEP) == {**ALL_OF_D, b"d/e/new": ADDED}


def test_a_whiteout_in_an_opaque_directory_is_listed_once() -> None:
    upper = [found(b"d", OPAQUE), found(b"d/a", WHITEOUT)]

    assert [change.key.path for change in interpret(0, upper, DEEP, frozenset())] == sorted(ALL_OF_D)


def test_a_plain_directory_hides_nothing() -> None:
    assert read([found(b"d", DIR)], DEEP) == {}


def test_a_new_directory_is_a_change_only_if_it_is_empty() -> None:
    upper = [found(b"n", DIR), found(b"n/empty", DIR), found(b"n/full", DIR), found(b"n/full/x", FILE)]

    assert read(upper, {}) == {b"n/empty": ADDED, b"n/full/x": ADDED}


def test_a_whiteout_does_not_count_as_content_of_a_new_directory() -> None:
    assert read([found(b"n", DIR), found(b"n/x", WHITEOUT)], {}) == {b"n": ADDED}


@pytest.mark.parametrize("sibling", [b"d-", b"d0", b"d.x", b"e", b"D"])
def test_a_directory_does_not_contain_a_sibling_with_its_prefix(sibling: bytes) -> None:
    base = {**DEEP, sibling: entry_of(FILE)}

    assert sibling not in read([found(b"d", WHITEOUT)], base)


# --- changed types, with the entries below and what they require ---


@pytest.mark.parametrize("after", [FILE, SYMLINK, FIFO])
def test_a_directory_that_became_another_type_requires_its_deletions(after: FileType) -> None:
    changes = interpret(0, [found(b"d", after)], DEEP, frozenset())
    by_path = {change.key.path: change for change in changes}

    assert {path: change.kind for path, change in by_path.items()} == {**ALL_OF_D, b"d": RETYPED}
    assert {key.path for key in by_path[b"d"].requires} == set(ALL_OF_D)


@pytest.mark.parametrize("before", [FILE, SYMLINK, FIFO])
@pytest.mark.parametrize("mark", [DIR, OPAQUE])
def test_entries_of_a_directory_that_was_another_type_require_that_change(before: FileType, mark: FileType | str) -> None:
    upper = [found(b"d", mark), found(b"d/e", DIR), found(b"d/e/x", FILE), found(b"d/y", SYMLINK)]
    by_path = {change.key.path: change for change in interpret(0, upper, {b"d": entry_of(before)}, frozenset())}

    assert {path: change.kind for path, change in by_path.items()} == {b"d": RETYPED, b"d/e/x": ADDED, b"d/y": ADDED}
    assert by_path[b"d/e/x"].requires == by_path[b"d/y"].requires == (Key(0, b"d"),)
    assert by_path[b"d"].requires == ()


def test_a_plain_new_file_requires_nothing() -> None:
    (change,) = interpret(0, [found(b"n", DIR), found(b"n/x", FILE)], {}, frozenset())

    assert change.requires == ()


# --- names ---


@pytest.mark.parametrize(
    "name", [b".wh.x", b".wh..wh..opq", b".wh.", b"\n", b"a\nb", b"\xff\xfe", b" ", b"-rf", b"*", b"\x1b[2J"]
)
def test_any_name_is_an_ordinary_name(name: bytes) -> None:
    assert read([found(name, FILE)], {}) == {name: ADDED}
    assert read([found(name, FILE)], {name: entry_of(FILE)}) == {name: EDITED}
    assert read([found(name, WHITEOUT)], {name: entry_of(FILE)}) == {name: DELETED}


def test_changes_are_sorted_by_path() -> None:
    names = [b"b", b"a0", b"a-", b"a", b"\xff", b"B"]

    assert [change.key.path for change in interpret(0, [found(name, FILE) for name in names], {}, frozenset())] == sorted(names)


def test_parents_are_listed_outermost_first_without_the_root() -> None:
    assert parents_of(b"a/b/c") == (b"a", b"a/b")
    assert parents_of(b"a") == ()
