"""What an upper means against the base: the complete table, the marks, and random trees against a reference."""

from dataclasses import replace

import pytest
from hypothesis import given

from agent_dev.core.changes import Change, Entry, FileType, Key, Kind, parents_of
from agent_dev.core.overlay import (
    UNDER_GIT,
    CorruptUpperError,
    Found,
    Ground,
    candidates,
    conflict,
    interpret,
    is_under_git,
)
from tests.harness import trees
from tests.harness.trees import Tree

FILE, DIR, SYMLINK = FileType.FILE, FileType.DIRECTORY, FileType.SYMLINK
FIFO, SOCKET, DEVICE = FileType.FIFO, FileType.SOCKET, FileType.DEVICE
ADDED, EDITED, DELETED, RETYPED, METADATA = Kind.ADDED, Kind.EDITED, Kind.DELETED, Kind.RETYPED, Kind.METADATA

WHITEOUT, OPAQUE, NOTHING = "whiteout", "opaque dir", "nothing"
LIVING = (FILE, DIR, SYMLINK, FIFO, SOCKET, DEVICE)


def found(path: bytes, kind: FileType | str, **more: object) -> Found:
    """One path of an upper. A device that is none of overlayfs's own has a number."""
    if kind == WHITEOUT:
        return Found(path, Entry(DEVICE, 0))
    if kind == OPAQUE:
        return Found(path, Entry(DIR, 0o755), overlay=(("opaque", b"y"),))
    entry = entry_of(FileType(kind))
    return Found(path, replace(entry, **more), device=259 if kind == DEVICE else 0)  # type: ignore[arg-type]


def entry_of(kind: FileType) -> Entry:
    return Entry(kind, 0o755 if kind is DIR else 0o644, target=b"there" if kind is SYMLINK else b"")


def base_of(**kinds: FileType) -> dict[bytes, Entry]:
    return {name.encode(): entry_of(kind) for name, kind in kinds.items()}


def read(upper: list[Found], base: dict[bytes, Entry], same: frozenset[bytes] = frozenset()) -> dict[bytes, Kind]:
    return {change.key.path: change.kind for change in interpret(0, upper, base, same)}


# --- the table: each thing in the upper over each thing in the base, one path, contents that differ ---

TABLE: dict[FileType | str, dict[FileType | str, Kind | None]] = {
    NOTHING: {NOTHING: None, FILE: None, DIR: None, SYMLINK: None, FIFO: None, SOCKET: None, DEVICE: None},
    WHITEOUT: {NOTHING: None, FILE: DELETED, DIR: DELETED, SYMLINK: DELETED, FIFO: DELETED, SOCKET: DELETED, DEVICE: DELETED},
    OPAQUE: {NOTHING: ADDED, FILE: RETYPED, DIR: None, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: RETYPED},
    DIR: {NOTHING: ADDED, FILE: RETYPED, DIR: None, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: RETYPED},
    FILE: {NOTHING: ADDED, FILE: EDITED, DIR: RETYPED, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: RETYPED},
    SYMLINK: {NOTHING: ADDED, FILE: RETYPED, DIR: RETYPED, SYMLINK: EDITED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: RETYPED},
    FIFO: {NOTHING: ADDED, FILE: RETYPED, DIR: RETYPED, SYMLINK: RETYPED, FIFO: None, SOCKET: RETYPED, DEVICE: RETYPED},
    SOCKET: {NOTHING: ADDED, FILE: RETYPED, DIR: RETYPED, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: None, DEVICE: RETYPED},
    DEVICE: {NOTHING: ADDED, FILE: RETYPED, DIR: RETYPED, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: None},
}
PAIRS = [(upper, base, kind) for upper, row in TABLE.items() for base, kind in row.items()]


def test_the_table_has_a_row_for_each_pair() -> None:
    kinds = {NOTHING, *FileType}

    assert set(TABLE) == {WHITEOUT, OPAQUE, *kinds}
    assert all(set(row) == kinds for row in TABLE.values())


@pytest.mark.parametrize(("upper", "base", "kind"), PAIRS, ids=[f"{upper} over {base}" for upper, base, _ in PAIRS])
def test_each_pair_means_what_the_table_says(upper: FileType | str, base: FileType | str, kind: Kind | None) -> None:
    before = {} if base == NOTHING else {b"x": replace(entry_of(FileType(base)), target=b"elsewhere")}
    above = [] if upper == NOTHING else [found(b"x", upper)]

    assert read(above, before) == ({} if kind is None else {b"x": kind})


@pytest.mark.parametrize(("upper", "base", "kind"), PAIRS, ids=[f"{upper} over {base}" for upper, base, _ in PAIRS])
def test_a_change_carries_what_was_and_what_is(upper: FileType | str, base: FileType | str, kind: Kind | None) -> None:
    before = {} if base == NOTHING else {b"x": replace(entry_of(FileType(base)), target=b"elsewhere")}
    above = [] if upper == NOTHING else [found(b"x", upper)]

    for change in interpret(3, above, before, frozenset()):
        assert change.key == Key(3, b"x")
        assert change.before == before.get(b"x")
        assert change.after == (None if upper == WHITEOUT else above[0].entry)


@pytest.mark.parametrize("kind", LIVING)
def test_only_sockets_and_devices_cannot_be_merged(kind: FileType) -> None:
    (change,) = interpret(0, [found(b"x", kind)], {}, frozenset())

    assert (change.obstacle is not None) == (kind in (SOCKET, DEVICE))


@pytest.mark.parametrize("kind", LIVING)
def test_any_deletion_can_be_merged(kind: FileType) -> None:
    (change,) = interpret(0, [found(b"x", WHITEOUT)], {b"x": entry_of(kind)}, frozenset())

    assert change.obstacle is None


@pytest.mark.parametrize("kind", [FILE, DIR, FIFO, SOCKET, DEVICE])
def test_another_mode_alone_is_metadata(kind: FileType) -> None:
    upper = [found(b"x", kind, mode=0o700)]

    assert read(upper, {b"x": entry_of(kind)}, frozenset((b"x",))) == {b"x": METADATA}


@pytest.mark.parametrize("kind", [FILE, DIR])
def test_another_attribute_alone_is_metadata(kind: FileType) -> None:
    upper = [found(b"x", kind, attributes=(("user.note", b"1"),))]

    assert read(upper, {b"x": entry_of(kind)}, frozenset((b"x",))) == {b"x": METADATA}


@pytest.mark.parametrize("bit", [0o4000, 0o2000, 0o1000])
def test_a_special_bit_is_shown_as_metadata(bit: int) -> None:
    upper = [found(b"x", FILE, mode=0o644 | bit)]

    assert read(upper, base_of(x=FILE), frozenset((b"x",))) == {b"x": METADATA}


def test_an_edit_with_another_mode_is_one_edit() -> None:
    assert read([found(b"x", FILE, mode=0o755)], base_of(x=FILE)) == {b"x": EDITED}


def test_a_link_is_told_by_its_target_alone() -> None:
    upper = [found(b"x", SYMLINK, mode=0o755, mtime=9, inode=9)]

    assert read(upper, base_of(x=SYMLINK)) == {}


# --- copied up without a change ---


@pytest.mark.parametrize("kind", LIVING)
def test_what_was_only_copied_up_is_no_change(kind: FileType) -> None:
    upper = [found(b"x", kind, inode=77, mtime=5, ctime=6, links=3)]

    assert read(upper, {b"x": entry_of(kind)}, frozenset((b"x",))) == {}


@pytest.mark.parametrize("name", ["origin", "impure", "uuid", "nlink", "upper", "protattr", "overlay.opaque", "overlay.redirect"])
def test_marks_that_the_kernel_leaves_everywhere_mean_nothing(name: str) -> None:
    one = replace(found(b"d", DIR), overlay=((name, b"\0\1"),))

    assert read([one], base_of(d=DIR)) == {}


def test_only_files_of_the_same_size_need_their_bytes_compared() -> None:
    base = {name: replace(entry_of(kind), size=3) for name, kind in ((b"a", FILE), (b"b", FILE), (b"c", SYMLINK), (b"d", DIR))}
    upper = [
        found(b"a", FILE, size=3),
        found(b"b", FILE, size=4),
        found(b"c", SYMLINK, size=3),
        found(b"d", DIR, size=3),
        found(b"e", FILE, size=3),
    ]

    assert candidates(upper, base) == (b"a",)


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


def test_a_removed_directory_is_told_by_its_files_and_its_empty_directories() -> None:
    assert read([found(b"d", WHITEOUT)], DEEP) == ALL_OF_D


def test_an_opaque_directory_deletes_what_it_hides() -> None:
    assert read([found(b"d", OPAQUE)], DEEP) == ALL_OF_D


def test_an_opaque_directory_with_the_same_contents_is_no_change() -> None:
    upper = [found(b"d", OPAQUE), found(b"d/a", FILE), found(b"d/e", DIR), found(b"d/e/b", FILE), found(b"d/none", DIR)]

    assert read(upper, DEEP, frozenset((b"d/a", b"d/e/b"))) == {}


def test_an_opaque_directory_hides_at_any_depth() -> None:
    upper = [found(b"d", OPAQUE), found(b"d/e", DIR), found(b"d/e/new", FILE)]

    assert read(upper, DEEP) == {**ALL_OF_D, b"d/e/new": ADDED}


def test_a_whiteout_in_an_opaque_directory_is_told_once() -> None:
    upper = [found(b"d", OPAQUE), found(b"d/a", WHITEOUT)]

    assert [change.key.path for change in interpret(0, upper, DEEP, frozenset())] == sorted(ALL_OF_D)


def test_a_plain_directory_hides_nothing() -> None:
    assert read([found(b"d", DIR)], DEEP) == {}


def test_a_new_directory_is_a_change_only_when_it_is_empty() -> None:
    upper = [found(b"n", DIR), found(b"n/empty", DIR), found(b"n/full", DIR), found(b"n/full/x", FILE)]

    assert read(upper, {}) == {b"n/empty": ADDED, b"n/full/x": ADDED}


def test_a_whiteout_does_not_fill_a_new_directory() -> None:
    assert read([found(b"n", DIR), found(b"n/x", WHITEOUT)], {}) == {b"n": ADDED}


@pytest.mark.parametrize("sibling", [b"d-", b"d0", b"d.x", b"e", b"D"])
def test_a_directory_holds_no_sibling_with_a_name_like_it(sibling: bytes) -> None:
    base = {**DEEP, sibling: entry_of(FILE)}

    assert sibling not in read([found(b"d", WHITEOUT)], base)


# --- types that change, with what was below and what must be taken together ---


@pytest.mark.parametrize("after", [FILE, SYMLINK, FIFO])
def test_a_directory_that_became_something_else_needs_its_contents_deleted(after: FileType) -> None:
    changes = interpret(0, [found(b"d", after)], DEEP, frozenset())
    by_path = {change.key.path: change for change in changes}

    assert {path: change.kind for path, change in by_path.items()} == {**ALL_OF_D, b"d": RETYPED}
    assert {key.path for key in by_path[b"d"].requires} == set(ALL_OF_D)


@pytest.mark.parametrize("before", [FILE, SYMLINK, FIFO])
@pytest.mark.parametrize("mark", [DIR, OPAQUE])
def test_what_is_in_a_directory_that_was_something_else_needs_that_change(before: FileType, mark: FileType | str) -> None:
    upper = [found(b"d", mark), found(b"d/e", DIR), found(b"d/e/x", FILE), found(b"d/y", SYMLINK)]
    by_path = {change.key.path: change for change in interpret(0, upper, {b"d": entry_of(before)}, frozenset())}

    assert {path: change.kind for path, change in by_path.items()} == {b"d": RETYPED, b"d/e/x": ADDED, b"d/y": ADDED}
    assert by_path[b"d/e/x"].requires == by_path[b"d/y"].requires == (Key(0, b"d"),)
    assert by_path[b"d"].requires == ()


def test_a_plain_new_file_needs_nothing() -> None:
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


def test_parents_come_outermost_first_and_without_the_root() -> None:
    assert parents_of(b"a/b/c") == (b"a", b"a/b")
    assert parents_of(b"a") == ()


# --- forged marks ---

FORGED = [
    ("opaque", b"x"),
    ("opaque", b"n"),
    ("opaque", b""),
    ("redirect", b"/etc"),
    ("metacopy", b""),
    ("whiteout", b"y"),
    ("xwhiteouts", b""),
    ("verity", b""),
    ("fileid", b"1"),
]


@pytest.mark.parametrize("mark", FORGED, ids=[f"{name}={value!r}" for name, value in FORGED])
@pytest.mark.parametrize("kind", [DIR, FILE, SYMLINK, WHITEOUT])
def test_a_mark_that_our_mounts_never_write_stops_everything(mark: tuple[str, bytes], kind: FileType | str) -> None:
    forged = replace(found(b"d", kind), overlay=(mark,))

    with pytest.raises(CorruptUpperError, match=mark[0]):
        read([forged], base_of(d=DIR))


@pytest.mark.parametrize("kind", [FILE, SYMLINK, FIFO, WHITEOUT])
def test_only_a_directory_can_be_opaque(kind: FileType | str) -> None:
    forged = replace(found(b"d", kind), overlay=(("opaque", b"y"),))

    with pytest.raises(CorruptUpperError):
        read([forged], base_of(d=DIR))


def test_a_device_with_a_number_is_no_whiteout() -> None:
    assert not found(b"x", DEVICE).is_whiteout()
    assert found(b"x", WHITEOUT).is_whiteout()


# --- .git ---


def rows(upper: list[Found], base: dict[bytes, Entry]) -> dict[bytes, str | None]:
    return {change.key.path: change.obstacle for change in interpret(0, upper, base, frozenset())}


def test_a_new_git_directory_is_one_row_that_cannot_be_merged() -> None:
    upper = [
        found(b"sub", DIR),
        found(b"sub/.git", DIR),
        found(b"sub/.git/hooks", DIR),
        found(b"sub/.git/hooks/pre-commit", FILE),
        found(b"sub/code", FILE),
    ]

    assert rows(upper, {}) == {b"sub/.git": UNDER_GIT, b"sub/code": None}


def test_a_new_git_file_is_a_row_that_cannot_be_merged() -> None:
    assert rows([found(b".git", FILE)], {}) == {b".git": UNDER_GIT}


@pytest.mark.parametrize("name", [b".GIT", b".Git", b".giT"])
def test_a_name_that_some_disks_take_for_git_is_treated_alike(name: bytes) -> None:
    upper = [found(name, DIR), found(name + b"/config", FILE)]

    assert rows(upper, {}) == {name: UNDER_GIT}


@pytest.mark.parametrize("name", [b".gitignore", b".gitattributes", b".github/workflows/x.yml", b"x.git/y", b".git2", b"git"])
def test_a_name_that_only_looks_like_git_is_ordinary(name: bytes) -> None:
    assert is_under_git(name) is None
    assert rows([found(name, FILE)], {}) == {name: None}


def test_a_git_directory_that_the_agent_made_of_the_root_is_one_row_that_cannot_be_merged() -> None:
    upper = [found(b".git", DIR), found(b".git/HEAD", FILE), found(b".git/hooks", DIR), found(b".git/hooks/x", FILE)]

    assert rows(upper, {}) == {b".git": UNDER_GIT}


NESTED = {
    b"sub": entry_of(DIR),
    b"sub/.git": entry_of(DIR),
    b"sub/.git/HEAD": entry_of(FILE),
    b"sub/code": entry_of(FILE),
}


def test_what_changed_in_a_nested_git_directory_is_one_row_that_cannot_be_merged() -> None:
    upper = [found(b"sub", DIR), found(b"sub/.git", DIR), found(b"sub/.git/HEAD", FILE)]

    assert rows(upper, NESTED) == {b"sub/.git": UNDER_GIT}


def test_a_removed_nested_git_directory_is_one_row_that_cannot_be_merged() -> None:
    assert rows([found(b"sub", DIR), found(b"sub/.git", WHITEOUT)], NESTED) == {b"sub/.git": UNDER_GIT}


@pytest.mark.parametrize("mark", [WHITEOUT, OPAQUE])
def test_a_removed_nested_repository_is_its_files_and_one_row_for_git(mark: str) -> None:
    assert rows([found(b"sub", mark)], NESTED) == {b"sub/.git": UNDER_GIT, b"sub/code": None}


def test_a_nested_git_directory_that_was_only_copied_up_is_no_row() -> None:
    upper = [found(b"sub", DIR), found(b"sub/.git", DIR), found(b"sub/.git/HEAD", FILE)]

    assert read(upper, NESTED, frozenset((b"sub/.git/HEAD",))) == {}


def test_a_nested_repository_that_became_a_file_cannot_be_merged() -> None:
    by_path = {one.key.path: one for one in interpret(0, [found(b"sub", FILE)], NESTED, frozenset())}

    assert set(by_path) == {b"sub", b"sub/.git", b"sub/code"}
    assert set(by_path[b"sub"].requires) == {Key(0, b"sub/.git"), Key(0, b"sub/code")}


# --- conflicts: what the real tree holds now against the base ---

WAS = Entry(FILE, 0o644, size=3, inode=5, mtime=7, ctime=9)
FOLDER = Entry(DIR, 0o755, inode=6, mtime=1, ctime=2)
NEW = Entry(FILE, 0o644, size=4, inode=50)


def change(before: Entry | None, after: Entry | None) -> Change:
    kind = ADDED if before is None else DELETED if after is None else EDITED
    return Change(Key(0, b"d/x"), kind, before, after)


def judged(one: Change, now: Entry | None, folder: Entry | None = FOLDER, was_folder: Entry | None = FOLDER) -> str | None:
    base = {} if was_folder is None else {b"d": was_folder}
    return conflict(one, Ground(base, {b"d": folder, b"d/x": now}))


CONFLICTS: list[tuple[str, Change, Entry | None, str | None]] = [
    ("an addition where nothing is", change(None, NEW), None, None),
    ("an addition where something came", change(None, NEW), WAS, "something was put there meanwhile"),
    ("an edit of the untouched", change(WAS, NEW), WAS, None),
    ("an edit of what is gone", change(WAS, NEW), None, "it was removed meanwhile"),
    ("a deletion of the untouched", change(WAS, None), WAS, None),
    ("a deletion of what is gone", change(WAS, None), None, "it was removed meanwhile"),
    ("another inode", change(WAS, NEW), replace(WAS, inode=8), "it was changed meanwhile"),
    ("another size", change(WAS, NEW), replace(WAS, size=8), "it was changed meanwhile"),
    ("another mtime", change(WAS, NEW), replace(WAS, mtime=8), "it was changed meanwhile"),
    ("another ctime", change(WAS, NEW), replace(WAS, ctime=10), "it was changed meanwhile"),
    ("another type", change(WAS, NEW), replace(WAS, type=SYMLINK), "it was changed meanwhile"),
    ("a file became a directory", change(WAS, NEW), FOLDER, "it was changed meanwhile"),
    ("a directory became a file", change(FOLDER, None), WAS, "it was changed meanwhile"),
    ("a directory whose entries changed", change(FOLDER, None), replace(FOLDER, mtime=99, ctime=99), None),
    ("a directory whose mode changed", change(FOLDER, FOLDER), replace(FOLDER, mode=0o700), "its mode was changed meanwhile"),
]


@pytest.mark.parametrize(("name", "one", "now", "why"), CONFLICTS, ids=[row[0] for row in CONFLICTS])
def test_a_conflict_is_what_the_table_says(name: str, one: Change, now: Entry | None, why: str | None) -> None:
    assert judged(one, now) == why


PARENTS: list[tuple[str, Entry | None, Entry | None, str | None]] = [
    ("as it was", FOLDER, FOLDER, None),
    ("new, not there", None, None, None),
    ("new, there already", None, FOLDER, None),
    ("removed", FOLDER, None, "d was removed meanwhile"),
    ("became a file", FOLDER, WAS, "d is no directory now"),
    ("became a link", FOLDER, replace(WAS, type=SYMLINK), "d is no directory now"),
    ("new, a file came", None, WAS, "d is no directory now"),
    ("was a file, is that file", WAS, WAS, None),
    ("was a file, is another", WAS, replace(WAS, inode=8), "d is no directory now"),
]


@pytest.mark.parametrize(("name", "was", "now", "why"), PARENTS, ids=[row[0] for row in PARENTS])
def test_a_directory_above_can_be_the_conflict(name: str, was: Entry | None, now: Entry | None, why: str | None) -> None:
    assert judged(change(None, NEW), None, now, was) == why


def test_what_moved_after_a_start_without_a_base_is_a_conflict() -> None:
    ground = Ground({b"d": FOLDER}, {b"d": FOLDER, b"d/x": WAS}, frozenset((b"d/x",)))

    assert conflict(change(WAS, NEW), ground) == "it changed after the start, and how it was then is not known"


# --- random trees ---


def same_bytes(upper: list[Found], base: Tree, agent: Tree) -> frozenset[bytes]:
    return frozenset(path for path in candidates(upper, trees.entries(base)) if base[path].content == agent[path].content)


@given(trees.pairs())
def test_reading_the_upper_of_any_two_trees_gives_back_their_differences(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    upper = trees.founds(trees.upper_of(base, agent, noise))

    assert read(upper, trees.entries(base), same_bytes(upper, base, agent)) == trees.differences(base, agent)


@given(trees.pairs())
def test_an_agent_that_changed_nothing_leaves_no_change(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, _, noise = pair
    upper = trees.founds(trees.upper_of(base, base, noise))

    assert read(upper, trees.entries(base), frozenset(candidates(upper, trees.entries(base)))) == {}


@given(trees.pairs())
def test_what_a_change_needs_is_a_change_itself(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    changes = interpret(0, trees.founds(trees.upper_of(base, agent, noise)), trees.entries(base), frozenset())
    keys = {one.key for one in changes}

    assert all(keys.issuperset(one.requires) for one in changes)
